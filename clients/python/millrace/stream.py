"""What is too long for a packet goes to its home by a stream: the home is a memcached node, and the topology says where it listens (`stream`).

    GET                          mg    value, flags, version; what is left of its life is not told
    SET, ADD, REPLACE, APPEND    ms    in their modes; the version
    CAS                          ms    with the version that must be there

The home admits what comes by its memcached side as it does packets, so each request takes effect there once: a write on a connection that is lost
before the answer is `Unknown`, and never sent again. All other operations go by packet, whatever the length of the value.
"""

import base64
import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from .errors import NotDone, Unknown
from .topology import Address, Topology
from .wire import NEVER, Op, Packet, Status

_LINE_BYTES = 2048
"""Of the longest line that a home answers."""
_RELATIVE_MAX = 60 * 60 * 24 * 30
"""The longest time from now that a memcached client may write; beyond it lies Unix time."""
_MODES = {Op.SET: "", Op.CAS: "", Op.ADD: " ME", Op.REPLACE: " MR", Op.APPEND: " MA"}
_REFUSED = {
    b"SERVER_ERROR object too large for cache": Status.TOO_LARGE,
    b"SERVER_ERROR busy": Status.BUSY,
    b"SERVER_ERROR this key has another home": Status.NOT_HOME,
    b"CLIENT_ERROR cannot increment or decrement non-numeric value": Status.NOT_NUMBER,
}


@dataclass(frozen=True)
class Said:
    """What a home said, as a packet would."""

    status: Status
    value: bytes = b""
    flags: int = 0
    version: int = 0


class Streams:
    """A connection to each home that was asked for something. They are used by one thread at a time."""

    def __init__(self, topology: Topology) -> None:
        self._places = topology.streams
        self._tuning = topology.tuning
        self._links: dict[int, _Link] = {}

    @property
    def value_max(self) -> int:
        """Bytes of the longest value."""
        return self._tuning.value_max

    def close(self) -> None:
        """Ends all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def ask(self, request: Packet, deadline: float) -> Said | None:
        """What the home says to a request; `None`: no stream can do that. Raises `NotDone` or `Unknown`."""
        command = command_of(request)
        if command is None:
            return None
        pause, changes = self._tuning.retransmit, request.opcode != Op.GET
        while time.monotonic() < deadline:
            is_sent = False
            try:
                link = self._links.get(request.home) or self._connected(request.home, deadline)
                is_sent = True
                said = link.ask(command, self.value_max, deadline)
            except OSError:
                if (lost := self._links.pop(request.home, None)) is not None:
                    lost.close()
                if is_sent and changes:
                    raise Unknown from None
            except BaseException:
                # Half of an answer may be on the way: nobody could tell it from the next.
                if (lost := self._links.pop(request.home, None)) is not None:
                    lost.close()
                raise
            else:
                if said.status != Status.BUSY:
                    return said
            time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
            pause = min(2 * pause, self._tuning.retransmit_max)
        raise NotDone

    def _connected(self, home: int, deadline: float) -> "_Link":
        link = self._links[home] = _Link(self._places[home], deadline)
        return link


def command_of(request: Packet) -> bytes | None:
    """A request as a memcached command, if a stream can do it."""
    key, is_base64 = request.key, b""
    if not all(0x21 <= byte <= 0x7E or byte >= 0x80 for byte in key):
        key, is_base64 = base64.b64encode(key), b" b"
        if len(key) > 250:
            return None
    if request.opcode == Op.GET:
        return b"mg " + key + b" v f c" + is_base64 + b"\r\n"
    mode = _MODES.get(Op(request.opcode))
    if mode is None or (request.opcode == Op.APPEND and request.operand):
        return None
    words = f" c F{request.item_flags} T{exptime(request.ttl)}{mode}"
    if request.opcode == Op.CAS:
        # No item has version 0, and `C0` is none.
        words += f" C{request.version or 2**64 - 1}"
    return b"ms " + key + f" {len(request.value)}{words}".encode() + is_base64 + b"\r\n" + request.value + b"\r\n"


def exptime(ttl: int) -> int:
    """A life, in nanoseconds, as memcached clients write it."""
    if ttl == NEVER:
        return 0
    seconds = -(-ttl // 10**9)
    if seconds == 0:
        return -1
    return seconds if seconds <= _RELATIVE_MAX else min(int(time.time()) + seconds, 2**31 - 1)


class _Link:
    def __init__(self, place: Address, deadline: float) -> None:
        self._socket = socket.create_connection(place, timeout=_left(deadline))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = bytearray()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def ask(self, command: bytes, value_max: int, deadline: float) -> Said:
        """What is answered; raises `OSError` where nothing that is understood is."""
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(command)
        line = self._line(deadline)
        return said_by(line, lambda length: self._value(length, value_max, deadline), command)

    def _line(self, deadline: float) -> bytes:
        while (end := self._input.find(b"\r\n")) < 0:
            if len(self._input) > _LINE_BYTES:
                raise OSError("a line that does not end: is there something else than a home?")
            self._read(deadline)
        line = bytes(self._input[:end])
        del self._input[: end + 2]
        return line

    def _value(self, length: int, value_max: int, deadline: float) -> bytes:
        if length > value_max:
            raise OSError(f"a value of {length} bytes, and coherence.value_max is {value_max}")
        while len(self._input) < length + 2:
            self._read(deadline)
        value = bytes(self._input[:length])
        if self._input[length : length + 2] != b"\r\n":
            raise OSError("a value that does not end where it should")
        del self._input[: length + 2]
        return value

    def _read(self, deadline: float) -> None:
        self._socket.settimeout(_left(deadline))
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the home closed the connection")
        self._input += data


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


def said_by(line: bytes, value: Callable[[int], bytes], command: bytes) -> Said:
    """What a line says to a command; `value` takes so many bytes behind it. Raises `OSError` where it is no answer."""
    word, *words = line.split(b" ")
    match word:
        case b"VA" if words and words[0].isdigit() and len(words[0]) < 12:
            taken = value(int(words[0]))
            return Said(Status.OK, taken, _number(words, b"f") & 0xFFFFFFFF, _number(words, b"c"))
        case b"HD":
            return Said(Status.OK, version=_number(words, b"c"))
        case b"EN" | b"NF":
            return Said(Status.MISS)
        case b"EX":
            return Said(Status.EXISTS)
        case b"NS":
            return Said(Status.EXISTS if b" ME" in command.split(b"\r\n", 1)[0] else Status.MISS)
        case b"SERVER_ERROR" | b"CLIENT_ERROR":
            if line.lower().startswith(b"server_error out of memory"):
                return Said(Status.NO_ROOM)
            return Said(_REFUSED.get(line, Status.BAD))
    raise OSError("an answer that no home gives: is there something else?")


def _number(words: list[bytes], name: bytes) -> int:
    """The number after a name among the words that a meta command returned."""
    for word in words:
        if word[:1] == name and word[1:].isdigit() and len(word) <= 21:
            return int(word[1:])
    return 0
