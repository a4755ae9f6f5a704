"""A connection to a server of the fabric (crates/fabric): unary calls, one at a time, over TCP, TLS or a Unix socket.

    u32 length · frame          frame: kind u8 · flags u8 · method u16 · call u32 · aux u32 · metadata u32 · metadata · body

The first frames are Hello and Welcome, which gives methods their numbers. A call is a Request, and one Reply. A connection on which a call found no
answer in time is closed: whoever wants to know asks again over another, under the same number of the service.
"""

import contextlib
import socket
import ssl
import struct
import time
from dataclasses import dataclass

from . import trust
from .errors import NotFound

_HEADER = struct.Struct("<BBHIII")
_LENGTH = struct.Struct("<I")
_HELLO, _WELCOME, _REFUSE, _REQUEST, _REPLY, _PING, _PONG, _GOODBYE = 1, 2, 3, 4, 7, 10, 11, 12
_VERSION = 1
MAX_MESSAGE = 8 << 20
"""Bytes of the longest message."""
_MAX_FRAME = _HEADER.size + MAX_MESSAGE + (16 << 10)
_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
    "UNAUTHENTICATED",
)  # fmt: skip
_PERMISSION_DENIED = _CODES.index("PERMISSION_DENIED")


class Lost(Exception):
    """There is no connection, or it ended before the answer. Whether the call was done is not known."""


class Failed(Exception):
    """The server answered the call with this status: it was not done as asked."""


class Denied(Failed):
    """Who asks has no right to the call. Asking again would not give it."""


@dataclass(frozen=True)
class Frame:
    """What travels."""

    kind: int
    method: int
    call: int
    aux: int
    body: bytes


def emit(kind: int, body: bytes = b"", *, method: int = 0, call: int = 0, aux: int = 0) -> bytes:
    """A frame behind its length."""
    return _LENGTH.pack(_HEADER.size + len(body)) + _HEADER.pack(kind, 0, method, call, aux, 0) + body


def parse(frame: bytes) -> Frame:
    """A frame without its length; raises `Lost` where it is none: nothing behind it can be understood."""
    if len(frame) < _HEADER.size:
        raise Lost("a frame ends too early")
    kind, _, method, call, aux, metadata = _HEADER.unpack_from(frame)
    if not 1 <= kind <= 13:
        raise Lost("a frame of no known kind")
    if metadata > len(frame) - _HEADER.size:
        raise Lost("a frame ends within its metadata")
    return Frame(kind, method, call, aux, frame[_HEADER.size + metadata :])


def hello(service: str) -> bytes:
    """The body of a Hello of whoever wants this service, whatever its schema's hash."""
    name = service.encode()
    return struct.pack("<HB16sIH", _VERSION, 0, bytes(16), 1, 1) + struct.pack("<H", len(name)) + name + bytes(8)


def welcome(body: bytes, service: str) -> dict[str, int]:
    """The methods of a service, with their numbers, as a Welcome says; raises `Lost`."""
    if len(body) >= 2 and (theirs := body[0] | body[1] << 8) != _VERSION:
        raise Lost(f"the server speaks version {theirs} of the fabric, this client {_VERSION}: update the older one")
    reader = _Reader(body)
    reader.take("<H16sQII")
    for _ in range(reader.take("<H")):
        name, _ = reader.text(), reader.take("<Q")
        methods = {}
        for _ in range(reader.take("<H")):
            method, number, _ = reader.text(), reader.take("<H"), reader.take("<B")
            methods[method] = number
        if name == service:
            return methods
    raise Lost(f"the server there has no service {service}: is it a replica of a chain?")


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, layout: str) -> int:
        """A number; of several the first."""
        try:
            values = struct.unpack_from(layout, self._body, self._at)
        except struct.error:
            raise Lost("a Welcome ends too early: is there something else than a millrace server?") from None
        self._at += struct.calcsize(layout)
        return int(values[0])

    def text(self) -> str:
        length = self.take("<H")
        text = self._body[self._at : self._at + length]
        self._at += length
        return text.decode(errors="replace")


class Connection:
    """One connection, to one service. It is used by one thread at a time."""

    def __init__(self, address: str, service: str, deadline: float, tls: ssl.SSLContext | None = None) -> None:
        """Connects to `tcp:HOST:PORT`, `tls:HOST:PORT` or `unix:/path` by a time of `time.monotonic`, and believes whom `tls` or the environment
        says; raises `Lost`."""
        self.address = address
        self.is_open = True
        self._input = bytearray()
        self._next_call = 1
        self._is_draining = False
        self._socket = _connect(address, deadline, tls)
        try:
            self._send(emit(_HELLO, hello(service)), deadline)
            first = self._frame(deadline)
            if first.kind == _REFUSE:
                raise Lost(f"the server refused: {_status(first)}")
            if first.kind != _WELCOME:
                raise Lost("the first frame is no handshake: is there something else than a millrace server?")
            self._methods = welcome(first.body, service)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends it. A call under way has no answer then."""
        self.is_open = False
        self._socket.close()

    def call(self, method: str, body: bytes, deadline: float) -> bytes:
        """The answer to a call. Raises `Failed` if the server says no, and `Lost` if no answer comes by then; the connection is closed then."""
        try:
            return self._call(method, body, deadline)
        except Failed:
            raise
        except BaseException:
            # Half of a frame may have gone or come: nothing behind it could be understood.
            self.close()
            raise

    @property
    def is_draining(self) -> bool:
        """The server said that it ends: what is asked from now on belongs to another connection."""
        return self._is_draining

    def _call(self, method: str, body: bytes, deadline: float) -> bytes:
        number = self._methods.get(method)
        if number is None:
            raise Lost(f"the server has no method {method}: it is another version")
        if len(body) > MAX_MESSAGE:
            raise Failed(f"a message of {len(body)} bytes; {MAX_MESSAGE} are the most")
        call, self._next_call = self._next_call, self._next_call % 0xFFFFFFFF + 1
        left = max(1, min(int((deadline - time.monotonic()) * 1e6), 0xFFFFFFFF))
        self._send(emit(_REQUEST, body, method=number, call=call, aux=left), deadline)
        while True:
            frame = self._frame(deadline)
            match frame.kind:
                case k if k == _REPLY and frame.call == call and frame.method == 0:
                    return frame.body
                case k if k == _REPLY and frame.call == call:
                    raise (Denied if frame.method == _PERMISSION_DENIED else Failed)(_status(frame))
                case k if k == _PING:
                    self._send(emit(_PONG, aux=frame.aux), deadline)
                case k if k == _GOODBYE:
                    self._is_draining = True
                case _:
                    raise Lost("a frame that belongs to no call")

    def _send(self, data: bytes, deadline: float) -> None:
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(data)
        except OSError as cause:
            raise Lost(_said(cause)) from None

    def _frame(self, deadline: float) -> Frame:
        (length,) = _LENGTH.unpack(self._bytes(_LENGTH.size, deadline))
        if not _HEADER.size <= length <= _MAX_FRAME:
            raise Lost("a frame of a length that none has: is there something else than a millrace server?")
        return parse(self._bytes(length, deadline))

    def _bytes(self, count: int, deadline: float) -> bytes:
        while len(self._input) < count:
            try:
                self._socket.settimeout(_left(deadline))
                data = self._socket.recv(1 << 16)
            except OSError as cause:
                raise Lost(_said(cause)) from None
            if not data:
                raise Lost("the server closed the connection")
            self._input += data
        data = bytes(self._input[:count])
        del self._input[:count]
        return data


def _connect(address: str, deadline: float, tls: ssl.SSLContext | None) -> socket.socket:
    transport, _, place = address.partition(":")
    try:
        if transport in ("tcp", "tls"):
            context = _believed(tls) if transport == "tls" else None
            host, _, port = place.rpartition(":")
            host = host.strip("[]")
            connected = socket.create_connection((host, int(port)), timeout=_left(deadline))
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connected if context is None else context.wrap_socket(connected, server_hostname=host)
            except BaseException:
                connected.close()
                raise
        if transport == "unix":
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.settimeout(_left(deadline))
                connected.connect(place)
            except BaseException:
                connected.close()
                raise
            return connected
    except (OSError, ValueError) as cause:
        raise Lost(_said(cause)) from None
    raise Lost("this client speaks tcp:HOST:PORT, tls:HOST:PORT and unix:/path")


def _believed(tls: ssl.SSLContext | None) -> ssl.SSLContext:
    try:
        context = trust.believed(tls)
    except NotFound as cause:
        raise Lost(str(cause)) from None
    if context is None:
        raise Lost(f"whose certificates are believed? Give tls=ssl.create_default_context(cafile=FILE), or name the file in {trust.CA}")
    return context


def _left(deadline: float) -> float:
    """Until then, for a socket; raises `TimeoutError` where it is past. 0 would mean that nothing waits."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


def _said(cause: BaseException) -> str:
    return "no answer in time" if isinstance(cause, TimeoutError) else str(cause) or type(cause).__name__


def _status(frame: Frame) -> str:
    code = _CODES[frame.method] if frame.method < len(_CODES) else "UNKNOWN"
    with contextlib.suppress(UnicodeDecodeError):
        if said := frame.body.decode():
            return f"{code}: {said}"
    return code
