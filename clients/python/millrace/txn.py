"""Transactions, and what they are answered: the messages of `crates/client/proto/txn.proto`, to and from bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self, TypeVar

from . import protobuf
from .protobuf import Malformed, Writer, fields

Key = bytes | str

MAX_KEY = 250
MAX_VALUE = 64 << 10


CLAIM = b"\0\0"
"""The key at which a chain has the claim of a home of boxes."""


class Why(IntEnum):
    """Why a transaction was aborted, and nothing written."""

    UNSPECIFIED = 0
    CONDITION = 1
    """The condition at `place` does not hold."""
    NOT_A_NUMBER = 2
    """The write at `place` adds to something that is no number."""
    OVERFLOW = 3
    """The write at `place` adds beyond 64 bits."""
    NO_ROOM = 4
    """The chain has no room for what is written."""
    LONG_REPLY = 5
    """What the reads found is too much for one reply."""
    CLAIMED = 6
    """Boxes have copies of the chain's items, and it did not come by their home."""


class Durability(IntEnum):
    """What an outcome survives."""

    VOLATILE = 0
    PROCESS_CRASH = 1
    POWER_LOSS = 2


@dataclass(frozen=True)
class Abort:
    """Nothing was written, because of this."""

    why: Why
    place: int = 0
    """Which condition or write, from 0."""


@dataclass(frozen=True)
class Found:
    """What a read found."""

    value: bytes
    version: int
    """The transaction that wrote it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a transaction, for good. True where it was done."""

    lsn: int
    """Its place in the order, and the version of what it wrote; of one that only reads: it saw the state after this."""
    abort: Abort | None = None
    reads: tuple[Found | None, ...] = ()
    """In the order of the reads; also where it was aborted."""
    sums: tuple[int, ...] = ()
    """What each addition came to, in the order of the additions."""
    durability: Durability = Durability.VOLATILE
    copies: int = 0
    """In how many replicas it is; 1 for what only reads."""

    def __bool__(self) -> bool:
        return self.abort is None

    @classmethod
    def parse(cls, message: bytes) -> Self:
        lsn, abort, durability, copies = 0, None, 0, 0
        reads: list[Found | None] = []
        sums: list[int] = []
        for number, value in fields(message):
            match number:
                case 1:
                    lsn = protobuf.number(value)
                case 2:
                    abort = _abort(protobuf.data(value))
                case 3:
                    reads.append(_found(protobuf.data(value)))
                case 4:
                    sums.extend(map(protobuf.signed, protobuf.packed(value)))
                case 5:
                    durability = protobuf.number(value)
                case 6:
                    copies = protobuf.number(value)
        return cls(lsn, abort, tuple(reads), tuple(sums), _known(Durability, durability), copies)


class Refused(IntEnum):
    """Why a replica did not answer here and now."""

    UNSPECIFIED = 0
    ELSEWHERE = 1
    BUSY = 2
    MALFORMED = 3
    NO_SESSION = 4
    FORGOTTEN = 5
    DENIED = 6


@dataclass(frozen=True)
class Refusal:
    """A replica did not answer, because of this."""

    why: Refused
    replica: int | None = None
    """Whom to ask instead, if that is known."""
    text: str = ""


@dataclass
class Transaction:
    """Conditions, reads and writes. All conditions and reads see the moment before it; if every condition holds all writes are done at once."""

    conditions: list[tuple[bytes, str, bytes | int | bool]] = field(default_factory=list)
    reads: list[bytes] = field(default_factory=list)
    writes: list[tuple[bytes, str, bytes | int | bool]] = field(default_factory=list)

    def read(self, key: Key) -> Self:
        """Reads a key: `Outcome.reads` has what was found."""
        self.reads.append(as_key(key))
        return self

    def expect_version(self, key: Key, version: int) -> Self:
        """It has this version."""
        return self._expect(key, "version", version)

    def expect_absent(self, key: Key) -> Self:
        """Nothing is there."""
        return self._expect(key, "version", 0)

    def expect_exists(self, key: Key) -> Self:
        """Something is there."""
        return self._expect(key, "exists", True)

    def expect_value(self, key: Key, value: bytes) -> Self:
        """It has this value."""
        return self._expect(key, "value", as_value(value))

    def expect_at_least(self, key: Key, least: int) -> Self:
        """It is a number of at least this much; what is absent counts as 0."""
        return self._expect(key, "at_least", as_number(least))

    def put(self, key: Key, value: bytes) -> Self:
        """It has this value then."""
        return self._change(key, "put", as_value(value))

    def delete(self, key: Key) -> Self:
        """Nothing is there then."""
        return self._change(key, "delete", True)

    def add(self, key: Key, by: int) -> Self:
        """It is a number and becomes larger by this much: `Outcome.sums` has what it came to."""
        return self._change(key, "add", as_number(by))

    @property
    def only_reads(self) -> bool:
        """It writes nothing: any replica can answer it."""
        return not self.writes

    def keys(self) -> Iterator[bytes]:
        """What it looks at and what it writes; a key may be there more than once."""
        yield from (key for key, *_ in self.conditions)
        yield from self.reads
        yield from (key for key, *_ in self.writes)

    def emit(self) -> bytes:
        """As bytes."""
        out = Writer()
        for key, what, value in self.conditions:
            out.data(1, _operation(key, _CONDITIONS[what], value))
        for key in self.reads:
            out.data(2, key, always=True)
        for key, what, value in self.writes:
            out.data(3, _operation(key, _WRITES[what], value))
        return out.done()

    def _expect(self, key: Key, what: str, value: bytes | int | bool) -> Self:
        self.conditions.append((as_key(key), what, value))
        return self

    def _change(self, key: Key, what: str, value: bytes | int | bool) -> Self:
        self.writes.append((as_key(key), what, value))
        return self


_CONDITIONS = {"version": (2, "number"), "exists": (3, "number"), "value": (4, "data"), "at_least": (5, "signed")}
_WRITES = {"put": (2, "data"), "delete": (3, "number"), "add": (4, "signed")}


def _operation(key: bytes, kind: tuple[int, str], value: bytes | int | bool) -> bytes:
    out = Writer()
    out.data(1, key)
    number, writes = kind
    getattr(out, writes)(number, value, always=True)
    return out.done()


def as_key(key: Key) -> bytes:
    """A key as bytes; raises `ValueError` where none has its length."""
    key = key.encode() if isinstance(key, str) else bytes(key)
    if not 1 <= len(key) <= MAX_KEY:
        raise ValueError(f"a key has 1 to {MAX_KEY} bytes; this one has {len(key)}")
    return key


def as_value(value: bytes) -> bytes:
    """A value; raises `ValueError` where it is too long for a chain."""
    if len(value) > MAX_VALUE:
        raise ValueError(f"a value has at most {MAX_VALUE} bytes in a chain; this one has {len(value)}")
    return bytes(value)


def as_number(number: int) -> int:
    """A number of 64 bits with a sign; raises `ValueError`."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} does not fit 64 bits with a sign")
    return number


def home_of(claim: bytes) -> str | None:
    """Where the home takes writes that made this claim, as the chain has it; `None` for what is no claim."""
    # A format, a number of eight bytes, an address.
    if len(claim) < 9 or claim[0] != 1 or not any(claim[1:9]):
        return None
    try:
        return claim[9:].decode()
    except UnicodeDecodeError:
        return None


def request(session: bytes, sequence: int, transaction: bytes) -> bytes:
    """What is asked in `Execute`."""
    out = Writer()
    out.data(1, session)
    out.number(2, sequence)
    out.data(3, transaction, always=True)
    return out.done()


def answer(message: bytes) -> Outcome | Refusal:
    """What is answered in `Execute`."""
    for number, value in fields(message):
        if number == 1:
            return Outcome.parse(protobuf.data(value))
        if number == 2:
            return refusal(protobuf.data(value))
    raise Malformed("the reply is empty")


def refusal(message: bytes) -> Refusal:
    """Why it was not answered."""
    why, replica, text = 0, None, ""
    for number, value in fields(message):
        match number:
            case 1:
                why = protobuf.number(value)
            case 2:
                replica = protobuf.number(value)
            case 4:
                text = protobuf.text(value)
    return Refusal(_known(Refused, why), replica, text)


def opened(message: bytes) -> tuple[bytes, int] | Refusal:
    """What is answered in `Open`: a session, and how many may be under way in it."""
    session, window = b"", 0
    for number, value in fields(message):
        match number:
            case 1:
                session = protobuf.data(value)
            case 2:
                window = protobuf.number(value)
            case 3:
                return refusal(protobuf.data(value))
    if len(session) != 16 or window < 1:
        raise Malformed("the reply has no session, or no window")
    return session, window


def session_request(session: bytes, sequence: int = 0) -> bytes:
    """What is asked in `Close` and `Status`."""
    out = Writer()
    out.data(1, session)
    out.number(2, sequence)
    return out.done()


class State(IntEnum):
    """What is known of a transaction whose answer was lost."""

    DONE = 1
    UNKNOWN = 2
    """Nothing came of it yet; it may still be done."""
    FORGOTTEN = 3
    """What came of it cannot be told any more."""


@dataclass(frozen=True)
class Status:
    """What became of a transaction."""

    state: State
    outcome: Outcome | None = None
    """If it was done."""


def status(message: bytes) -> Status | Refusal:
    """What is answered in `Status`."""
    state, outcome = 0, None
    for number, value in fields(message):
        match number:
            case 1:
                state = protobuf.number(value)
            case 2:
                outcome = Outcome.parse(protobuf.data(value))
            case 3:
                return refusal(protobuf.data(value))
    if (state == State.DONE) != (outcome is not None):
        raise Malformed("done, but it does not say how")
    return Status(_known(State, state), outcome)


@dataclass(frozen=True)
class Member:
    """A replica of a chain, as another one knows it."""

    replica: int
    syncing: bool
    address: str
    """Where it serves clients; empty if that is not known."""


@dataclass(frozen=True)
class Info:
    """What a replica says of itself and its chain."""

    chain: int
    replica: int
    epoch: int
    members: tuple[Member, ...]
    """From head to tail."""

    @classmethod
    def parse(cls, message: bytes) -> Self:
        chain = replica = epoch = 0
        members = []
        for number, value in fields(message):
            match number:
                case 1:
                    chain = protobuf.number(value)
                case 2:
                    replica = protobuf.number(value)
                case 4:
                    epoch = protobuf.number(value)
                case 5:
                    members.append(_member(protobuf.data(value)))
        return cls(chain, replica, epoch, tuple(members))


def _member(message: bytes) -> Member:
    replica, syncing, address = 0, False, ""
    for number, value in fields(message):
        match number:
            case 1:
                replica = protobuf.number(value)
            case 3:
                syncing = bool(protobuf.number(value))
            case 4:
                address = protobuf.text(value)
    return Member(replica, syncing, address)


def _abort(message: bytes) -> Abort:
    why = place = 0
    for number, value in fields(message):
        match number:
            case 1:
                why = protobuf.number(value)
            case 2:
                place = protobuf.number(value)
    return Abort(_known(Why, why), place)


def _found(message: bytes) -> Found | None:
    version, found = 0, b""
    for number, value in fields(message):
        match number:
            case 1:
                version = protobuf.number(value)
            case 2:
                found = protobuf.data(value)
    return Found(found, version) if version else None


_Word = TypeVar("_Word", bound=IntEnum)


def _known(words: type[_Word], number: int) -> _Word:
    try:
        return words(number)
    except ValueError:
        raise Malformed(f"no {words.__name__} is known with the number {number}: the chain is newer than this client") from None
