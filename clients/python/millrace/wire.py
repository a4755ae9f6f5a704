"""The in-network packet, written from docs/wire.md: `Packet` is its meaning, `emit` and `parse` its bytes.

A packet that `parse` returned can be emitted again, to the same bytes without the padding's contents. What is no packet
raises `Malformed`, which says why; whoever gets one drops it.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from .hash import checksum, key_hash, padded
from .proof import BOX, CLIENT, CONTROLLER, HOME, PROOF_BYTES

MAGIC = b"mlrinc"
PROTOCOL = 1
HEADER_BYTES = 160
MAX_KEY = 250
MAX_VALUE = 65056
MAX_DATAGRAM = 65507
NEVER = 2**64 - 1
"""A `ttl` that does not end. One less: as long as what was there before."""
REPLY = 0x40
"""The bit of an opcode that makes a request's the reply's."""

_HEADER = struct.Struct("<H6sBBHI7Q5I4B3H2s16s4H4Q")
_CHECKSUM = slice(16, 24)


class Op(IntEnum):
    """What is asked for."""

    GET = 0x01
    SET = 0x02
    ADD = 0x03
    REPLACE = 0x04
    CAS = 0x05
    DELETE = 0x06
    INCR = 0x07
    DECR = 0x08
    COND_PUT = 0x09
    MIN = 0x0A
    MAX = 0x0B
    OR = 0x0C
    APPEND = 0x0D
    TOUCH = 0x0E
    FLUSH = 0x0F
    NOOP = 0x10
    SESSION = 0x11


class Control(IntEnum):
    """What nodes say to each other; no business of clients."""

    INVALIDATE = 0x80
    INVALIDATE_ACK = 0x81
    RETURN = 0x82
    RETURN_ACK = 0x83
    TABLE = 0x86
    TABLE_ACK = 0x87
    HEARTBEAT = 0x88
    HEARTBEAT_ACK = 0x89


class Flags(IntFlag):
    """Bits of a packet."""

    NONE = 0
    NO_CACHE = 1
    FROM_BOX = 2
    TRY = 4
    OWNABLE = 8
    OWNED = 16
    SEALED = 32
    DRAINING = 64


class Status(IntEnum):
    """How it went."""

    OK = 0
    MISS = 1
    EXISTS = 2
    NOT_STORED = 3
    TOO_LARGE = 4
    BAD = 5
    BUSY = 6
    NOT_HOME = 7
    WRONG_EPOCH = 8
    UNSUPPORTED = 9
    NOT_NUMBER = 10
    NO_ROOM = 11
    TOO_LATE = 12
    FORGOTTEN = 13
    UNPROVEN = 14
    PAD = 15


class Kind(IntEnum):
    """What a value is."""

    BYTES = 0
    NUMBER = 1
    TABLE = 2
    STALE = 3
    CLAIMED = 4
    STALE_CLAIMED = 5
    HOMES = 6


class Malformed(Exception):
    """Bytes that are no packet."""


@dataclass
class Packet:
    """All fields but those that follow from them: lengths, hash and checksum."""

    opcode: int
    key: bytes = b""
    value: bytes = b""
    padding: int = 0
    """Bytes after the value, which say nothing."""
    request: int = 0
    flags: int = 0
    version: int = 0
    client: int = 0
    operation: int = 0
    operand: int = 0
    round: int = 0
    ttl: int = NEVER
    epoch: int = 0
    item_flags: int = 0
    deadline: int = 0
    incarnation: int = 0
    kind: int = 0
    status: int = 0
    hops: int = 0
    box: int = 0
    home: int = 0
    attempt: int = 0
    port: int = 0
    address: bytes = bytes(16)
    sharer_boxes: tuple[int, ...] = (0, 0, 0, 0)
    sharer_tokens: tuple[int, ...] = (0, 0, 0, 0)
    proof: bytes = b""
    """Who wrote it: 32 bytes, or none. Flag SEALED says so in the packet, and is not among `flags`."""

    def emit(self) -> bytes:
        """The datagram."""
        return self.body() + self.proof + bytes(self.padding)

    def body(self, sealed: bool = False) -> bytes:
        """Header, key and value, which a proof is of."""
        flags = self.flags | (Flags.SEALED if sealed or self.proof else 0)
        head = _HEADER.pack(
            self.request, MAGIC, PROTOCOL, self.opcode, flags, key_hash(self.key),
            0, self.version, self.client, self.operation, self.operand, self.round, self.ttl,
            self.epoch, self.item_flags, self.deadline, self.incarnation, len(self.value),
            len(self.key), self.kind, self.status, self.hops,
            self.box, self.home, self.attempt, self.port.to_bytes(2, "big"), self.address,
            *self.sharer_boxes, *self.sharer_tokens,
        )  # fmt: skip
        packet = bytearray(head + _filled(self.key) + _filled(self.value))
        packet[_CHECKSUM] = checksum(packet).to_bytes(8, "little")
        return bytes(packet)


def parse(datagram: bytes) -> Packet:
    """The packet in a datagram; raises `Malformed`."""
    if len(datagram) < HEADER_BYTES:
        raise Malformed("shorter than a header")
    (
        request, magic, protocol, opcode, flags, hashed,
        summed, version, client, operation, operand, round_, ttl,
        epoch, item_flags, deadline, incarnation, value_len,
        key_len, kind, status, hops,
        box, home, attempt, port, address, *sharers,
    ) = _HEADER.unpack_from(datagram)  # fmt: skip
    if magic != MAGIC or protocol != PROTOCOL:
        raise Malformed("of another protocol, or of another version of it")
    value_at = HEADER_BYTES + padded(key_len)
    end = value_at + padded(value_len)
    if value_len > MAX_VALUE or end > len(datagram) or len(datagram) > MAX_DATAGRAM:
        raise Malformed("key and value do not fit the datagram")
    summed_over = bytearray(datagram[:end])
    summed_over[_CHECKSUM] = bytes(8)
    if checksum(summed_over) != summed:
        raise Malformed("changed on its way")
    key = datagram[HEADER_BYTES : HEADER_BYTES + key_len]
    value = datagram[value_at : value_at + value_len]
    if datagram[HEADER_BYTES:end] != _filled(key) + _filled(value):
        raise Malformed("filler that is not 0")
    if hashed != key_hash(key):
        raise Malformed("the hash of another key")
    proof = datagram[end : end + PROOF_BYTES] if flags & Flags.SEALED else b""
    if flags & Flags.SEALED and len(proof) < PROOF_BYTES:
        raise Malformed("too short for its proof")
    packet = Packet(
        opcode, key, value, len(datagram) - end - len(proof), request, flags & ~int(Flags.SEALED), version, client, operation, operand, round_,
        ttl, epoch, item_flags, deadline, incarnation, kind, status, hops, box, home, attempt,
        int.from_bytes(port, "big"), address, tuple(sharers[:4]), tuple(sharers[4:]), proof,
    )  # fmt: skip
    _check(packet)
    return packet


_CODES = {*Op, *(op | REPLY for op in Op), *Control}
_KEYLESS = {Op.FLUSH, Op.NOOP, Op.SESSION, Control.TABLE, Control.TABLE_ACK, Control.HEARTBEAT, Control.HEARTBEAT_ACK}
_MAYBE_KEYLESS = {Control.INVALIDATE, Control.INVALIDATE_ACK}
_KINDS, _STATUSES = set(Kind), set(Status)
_FLAGS = int(Flags.NO_CACHE | Flags.FROM_BOX | Flags.TRY | Flags.OWNABLE | Flags.OWNED | Flags.DRAINING)


def _check(packet: Packet) -> None:
    """Whether the fields make sense."""
    if packet.opcode not in _CODES:
        raise Malformed(f"no opcode is {packet.opcode:#04x}")
    if packet.flags & ~_FLAGS:
        raise Malformed(f"flags {packet.flags:#06x} have bits without meaning")
    if packet.kind not in _KINDS or packet.status not in _STATUSES:
        raise Malformed("a kind or status that nothing has")
    code = packet.opcode if packet.opcode & 0x80 else packet.opcode & ~REPLY
    least, most = (0, 0) if code in _KEYLESS else (int(code not in _MAYBE_KEYLESS), MAX_KEY)
    if not least <= len(packet.key) <= most:
        raise Malformed("no key of this length belongs to this opcode")
    if packet.port == 0 and any(packet.address):
        raise Malformed("an address without a port")
    used = next((i for i, box in enumerate(packet.sharer_boxes) if box == 0), 4)
    free = (*packet.sharer_boxes[used:], *packet.sharer_tokens[used:])
    if any(free) or len(set(packet.sharer_boxes[:used])) != used:
        raise Malformed("sharers with gaps, remains or a box twice")
    if packet.proof and not _is_somebody(packet.proof):
        raise Malformed("a proof of no sender")


def _is_somebody(proof: bytes) -> bool:
    role, zero, number = proof[0], proof[1], proof[2:4]
    return zero == 0 and (role in (BOX, HOME, CONTROLLER) or (role == CLIENT and number == bytes(2)))


def _filled(data: bytes) -> bytes:
    return data.ljust(padded(len(data)), b"\0")
