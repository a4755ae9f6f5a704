"""A client of the in-network cache: operations that wait for their outcome.

    GET, and what may change nothing    asked as a read: at the box, and if that is silent at the home
                                        └─ it would change something ─▶ as a write
    writes                              a session with the home, then the write under its number, until the home answers

Every operation is linearizable and ends within the patience that the topology states: with its outcome, as `NotDone`, or as
`Unknown`: then it was done once or not at all. docs/wire.md says how a client must behave; docs/design/004-box.md why that is enough.
"""

import secrets
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from .compute import TRIED, unchanged
from .errors import NotDone, Refused, Unknown
from .hash import key_hash
from .link import READ, Link
from .stream import Streams
from .topology import Address, Topology
from .wire import MAX_KEY, MAX_VALUE, NEVER, Flags, Op, Packet, Status
from .worth import Worth

_SILENT = 2
"""Timeouts of a box in a row after which it is passed by."""


@dataclass(frozen=True)
class Item:
    """What is stored under a key."""

    value: bytes
    flags: int
    """The number that was stored with it."""
    version: int
    """The write that made it."""
    from_box: bool
    """A box answered, not its home."""


@dataclass(frozen=True)
class Swap:
    """What came of a compare-and-swap. True where it stored."""

    version: int | None
    """Of what is stored now; `None`: nothing was stored."""
    found: bool
    """Something was there."""

    def __bool__(self) -> bool:
        return self.version is not None


class Client:
    """A client of one key-value server, or of the in-network cache behind one box. Threads may share it: one operation is under way at a time.

    By an address (`shm:PATH`, `unix:PATH`, `HOST:PORT`, `tls:HOST:PORT`) it is a server's, see `Server`; else a cache's.
    """

    def __new__(cls, topology: Topology | str | Path, *arguments: Any, **options: Any) -> Self:
        """Of the kind that `topology` names."""
        # Only now, since that imports this.
        from .server import Server, is_address

        return super().__new__(Server if cls is Client and is_address(topology) else cls)  # type: ignore[return-value]

    def __init__(self, topology: Topology | str | Path, box: int | None = None, **options: Any) -> None:
        """Of a topology, its file or controllers (`http://HOST:PORT`), asking `box`, or the one with the lowest number: nothing is sent until it is
        used. Or of a server, which is connected to at once, with the options of `Server`: `timeout` (seconds), `login`, `tls_ca`, `tls_cert`."""
        if options:
            raise TypeError(f"{', '.join(options)}: options of a server's client, and {topology} is the name of a topology")
        self._topology = topology if isinstance(topology, Topology) else Topology.find(topology)
        self._tuning = self._topology.tuning
        self._box_id = self._topology.box(box)
        self._box = self._topology.boxes[self._box_id]
        self._lock = threading.Lock()
        self._id = secrets.randbits(64) or 1
        self._link: Link | None = Link(self._topology, self._id, self._box_id)
        self._streams = Streams(self._topology) if self._topology.streams else None
        self._next_read = 1
        self._sessions: dict[int, _Session] = {home: _Session() for home in self._topology.homes}
        self._worth = Worth(self._tuning.worth)
        self._silent = 0
        self._bypass_until = 0.0
        # A home said that the box is being drained, and none said since that it is not any more.
        self._around = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it. Homes forget it when they need the room."""
        with self._lock:
            if self._link is not None:
                self._link.close()
                self._link = None
            if self._streams is not None:
                self._streams.close()

    @property
    def stats(self) -> dict[str, int]:
        """Reads that were sent to the box, those that a box answered, and those sent straight to homes since asking is not worth it."""
        return {"asked": self._worth.asked, "answered": self._worth.answered, "direct": self._worth.direct}

    def get(self, key: bytes | str) -> Item | None:
        """The item of `key`; `None`: there is none."""
        reply = self._call(Op.GET, key)
        if not _done(reply, Status.MISS):
            return None
        return Item(reply.value, reply.item_flags, reply.version, bool(reply.flags & Flags.FROM_BOX))

    def set(self, key: bytes | str, value: bytes, life: float | None = None, flags: int = 0) -> int | None:
        """Stores, whatever is there, for `life` seconds or for ever; the version that it made, where the store says it."""
        reply = self._call(Op.SET, key, value, life=life, flags=flags)
        _done(reply)
        return reply.version

    def add(self, key: bytes | str, value: bytes, life: float | None = None, flags: int = 0) -> int | None:
        """Stores where nothing is; `None`: something is."""
        reply = self._call(Op.ADD, key, value, life=life, flags=flags)
        return reply.version if _done(reply, Status.EXISTS) else None

    def replace(self, key: bytes | str, value: bytes, life: float | None = None, flags: int = 0) -> int | None:
        """Stores where something is; `None`: nothing is."""
        reply = self._call(Op.REPLACE, key, value, life=life, flags=flags)
        return reply.version if _done(reply, Status.MISS) else None

    def cas(self, key: bytes | str, version: int, value: bytes, life: float | None = None, flags: int = 0) -> Swap:
        """Stores where `version` is."""
        reply = self._call(Op.CAS, key, value, version=version, life=life, flags=flags)
        stored = _done(reply, Status.EXISTS, Status.MISS)
        return Swap(reply.version if stored else None, reply.status != Status.MISS)

    def delete(self, key: bytes | str) -> bool:
        """Removes; whether something was there."""
        return _done(self._call(Op.DELETE, key), Status.MISS)

    def increment(self, key: bytes | str, by: int = 1, initial: int | None = None) -> int | None:
        """Adds to a number, modulo 2^64; the sum. Where nothing is, stores and says `initial`; without it, `None`."""
        return self._count(Op.INCR, key, by, initial)

    def decrement(self, key: bytes | str, by: int = 1, initial: int | None = None) -> int | None:
        """Subtracts from a number, down to 0. Else as `increment`."""
        return self._count(Op.DECR, key, by, initial)

    def cond_put(self, key: bytes | str, number: int) -> bool:
        """Stores `number` where nothing or a smaller number is; whether it did."""
        return _done(self._call(Op.COND_PUT, key, operand=number), Status.NOT_STORED)

    def min(self, key: bytes | str, number: int) -> int:
        """The smaller of the number and what is there becomes what is there."""
        return self._combine(Op.MIN, key, number)

    def max(self, key: bytes | str, number: int) -> int:
        """The larger."""
        return self._combine(Op.MAX, key, number)

    def or_(self, key: bytes | str, number: int) -> int:
        """Bits of both."""
        return self._combine(Op.OR, key, number)

    def append(self, key: bytes | str, value: bytes, limit: int = 0) -> bool:
        """Appends to what is there; whether something was. Beyond `limit` bytes (0: as many as can be had) it is `Refused`."""
        return _done(self._call(Op.APPEND, key, value, operand=limit), Status.MISS)

    def touch(self, key: bytes | str, life: float | None) -> bool:
        """Gives what is there another life; whether something was."""
        return _done(self._call(Op.TOUCH, key, life=life), Status.MISS)

    def flush(self) -> None:
        """Forgets everything, home by home."""
        for home in self._topology.homes:
            _done(self._call(Op.FLUSH, b"", home=home))

    def _count(self, op: Op, key: bytes | str, by: int, initial: int | None) -> int | None:
        value = b"" if initial is None else str(initial).encode()
        reply = self._call(op, key, value, operand=by)
        return reply.operand if _done(reply, Status.MISS) else None

    def _combine(self, op: Op, key: bytes | str, number: int) -> int:
        reply = self._call(op, key, operand=number)
        _done(reply)
        return reply.operand

    def _call(
        self,
        op: Op,
        key: bytes | str,
        value: bytes = b"",
        *,
        operand: int = 0,
        version: int = 0,
        flags: int = 0,
        life: float | None = None,
        home: int | None = None,
    ) -> Packet:
        """Does any operation, and waits for its outcome: a reply, of the home, of a box, or as they would have given it."""
        key = key.encode() if isinstance(key, str) else bytes(key)
        if not (op == Op.FLUSH or 1 <= len(key) <= MAX_KEY):
            raise ValueError("a key has 1 to 250 bytes")
        most = MAX_VALUE if self._streams is None else self._streams.value_max
        if len(value) > most:
            more = ": the topology's homes have no streams, which carry longer ones" if self._streams is None else ""
            raise ValueError(f"a value has at most {most} bytes{more}")
        if not (0 <= operand < 1 << 64 and 0 <= flags < 1 << 32):
            raise ValueError("numbers have 64 bits and no sign, flags 32")
        request = Packet(op, key, bytes(value), client=self._id, operand=operand, version=version, item_flags=flags)
        request.ttl = NEVER if life is None else max(0, min(int(life * 1e9), NEVER - 2))
        request.home = self._topology.home_of(key_hash(key)) if home is None else home
        with self._lock:
            if self._link is None:
                raise ValueError("the client was closed")
            deadline = time.monotonic() + self._tuning.patience
            if self._streams is not None and len(value) > MAX_VALUE:
                return self._stream(self._streams, request, deadline) or _refused(request)
            reply = self._by_packet(self._link, request, deadline)
            if self._streams is None or not _is_too_long(op, reply):
                return reply
            # It had no effect by packet: by stream it is another operation, with a patience of its own.
            return self._stream(self._streams, request, time.monotonic() + self._tuning.patience) or reply

    def _by_packet(self, link: Link, request: Packet, deadline: float) -> Packet:
        op = Op(request.opcode)
        if op == Op.GET or (op in TRIED and self._tuning.tries_first):
            reply = self._read(link, request, deadline)
            if reply is not None:
                return reply
        return self._write(link, request, deadline)

    @staticmethod
    def _stream(streams: Streams, request: Packet, deadline: float) -> Packet | None:
        """The outcome of what a stream does; `None`: a stream cannot."""
        said = streams.ask(request, deadline)
        if said is None:
            return None
        return replace(request, value=said.value, item_flags=said.flags, version=said.version, flags=Flags.NONE, status=said.status)

    def _read(self, link: Link, request: Packet, deadline: float) -> Packet | None:
        """The outcome of what is asked as a read; `None`: it would change something."""
        request.operation = self._next_read | READ
        request.request = request.operation & 0xFFFF
        self._next_read += 1
        plain = Flags.NONE if request.opcode == Op.GET else Flags.TRY
        around = self._go_round(request)
        by_box = not around and time.monotonic() >= self._bypass_until and self._worth.asks()

        def route(request: Packet) -> Address:
            if by_box and request.attempt == 0:
                request.flags = plain
                return self._box
            if by_box and request.attempt == 1:
                self._box_was_silent()
            request.flags = plain | Flags.NO_CACHE
            return link.homes[request.home]

        reply = link.ask(request, route, deadline)
        if reply is None:
            raise NotDone
        self._note_draining(reply, around)
        if by_box:
            self._worth.note(bool(reply.flags & Flags.FROM_BOX))
            self._silent = 0 if reply.attempt == request.attempt == 0 else self._silent
        if request.opcode == Op.GET or reply.flags & Flags.TRY or reply.status == Status.NOT_HOME:
            return reply
        # A try that nobody answered: what is there came instead.
        outcome = unchanged(request, reply)
        if outcome is None:
            return None
        reply.status, reply.operand = outcome
        return reply

    def _go_round(self, request: Packet) -> bool:
        """Whether the box is gone round: then the request asks the home how it is with that box."""
        if self._around:
            request.box = self._box_id
        return self._around

    def _note_draining(self, reply: Packet, around: bool) -> None:
        """What a reply says of the box; `around`: its request asked."""
        if reply.flags & Flags.DRAINING or (around and not reply.flags & Flags.FROM_BOX):
            self._around = bool(reply.flags & Flags.DRAINING)

    def _box_was_silent(self) -> None:
        self._silent += 1
        if self._silent >= _SILENT:
            self._bypass_until = time.monotonic() + self._tuning.bypass
            self._silent = 0

    def _write(self, link: Link, request: Packet, deadline: float) -> Packet:
        """The outcome of what only the home does."""
        session = self._sessions[request.home]
        if session.number is None:
            session.begin(self._ask_session(link, request.home, session.last, deadline))
        request.round, request.operation = session.take()
        request.request = request.operation & 0xFFFF
        around = self._go_round(request)
        request.attempt, request.flags = 0, Flags.NO_CACHE if around else Flags.NONE
        reply = link.ask(request, lambda _: link.homes[request.home], deadline)
        if reply is None:
            raise Unknown
        self._note_draining(reply, around)
        if reply.status == Status.FORGOTTEN:
            # The home may have done it before it forgot.
            session.number = None
            raise Unknown
        return reply

    def _ask_session(self, link: Link, home: int, last: int, deadline: float) -> int:
        """A session that the home knows: one that is newer than `last`."""
        while True:
            request = Packet(Op.SESSION, client=self._id, home=home, operation=self._next_read | READ)
            request.request = request.operation & 0xFFFF
            self._next_read += 1
            reply = link.ask(request, lambda _: link.homes[home], deadline)
            if reply is None:
                raise NotDone
            if reply.status != Status.OK:
                raise Refused(Status(reply.status))
            if reply.round > last:
                return reply.round


class _Session:
    """The client's session with a home, and the numbers of its writes there."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.last = 0
        self._next = 1

    def begin(self, number: int) -> None:
        self.number, self.last, self._next = number, number, 1

    def take(self) -> tuple[int, int]:
        """The session, and a number in it for a write."""
        assert self.number is not None, "a write begins in a session"
        self._next += 1
        return self.number, self._next - 1


def _is_too_long(op: Op, reply: Packet) -> bool:
    """Whether a packet could not carry it, or what it would make."""
    return (op, reply.status) in ((Op.GET, Status.TOO_LARGE), (Op.APPEND, Status.NO_ROOM))


def _refused(request: Packet) -> Packet:
    """As a home would answer what neither a packet nor a stream can carry."""
    return replace(request, status=Status.TOO_LARGE)


def _done(reply: Packet, *otherwise: Status) -> bool:
    """Whether it was done; false where the status is one of those that the operation may well end with."""
    if reply.status == Status.OK:
        return True
    if reply.status in otherwise:
        return False
    raise Refused(Status(reply.status))
