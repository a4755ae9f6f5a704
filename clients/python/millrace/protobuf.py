"""Protobuf's wire format, as much of it as the messages of `txn.proto` need: varints, fixed numbers, and bytes.

Unknown fields are skipped, as protobuf wants it. What does not parse raises `Malformed`.
"""

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_U64 = 2**64 - 1


class Malformed(Exception):
    """Bytes that are no message."""


class Writer:
    """A message that is being written. What has its default is left out, unless it is in a `oneof`."""

    def __init__(self) -> None:
        self._out = bytearray()

    def number(self, field: int, value: int, *, always: bool = False) -> None:
        """An unsigned number, an enum or a bool."""
        if value or always:
            self._varint(field << 3 | VARINT)
            self._varint(value)

    def signed(self, field: int, value: int, *, always: bool = False) -> None:
        """A `sint64`."""
        self.number(field, (value << 1) ^ (value >> 63), always=always)

    def data(self, field: int, value: bytes, *, always: bool = False) -> None:
        """Bytes, a string, or a message that is written."""
        if value or always:
            self._varint(field << 3 | BYTES)
            self._varint(len(value))
            self._out += value

    def done(self) -> bytes:
        """The message."""
        return bytes(self._out)

    def _varint(self, value: int) -> None:
        if not 0 <= value <= _U64:
            raise ValueError(f"{value} does not fit 64 bits")
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in their order: numbers of varints and fixed ones, bytes of all else."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        field, kind = key >> 3, key & 7
        if not 0 < field < 1 << 29:
            raise Malformed(f"no field has the number {field}")
        match kind:
            case 0:
                value, at = _varint(message, at)
                yield field, value
            case 2:
                length, at = _varint(message, at)
                yield field, _taken(message, at, length)
                at += length
            case 1:
                yield field, struct.unpack("<Q", _taken(message, at, 8))[0]
                at += 8
            case 5:
                yield field, struct.unpack("<I", _taken(message, at, 4))[0]
                at += 4
            case _:
                raise Malformed(f"field {field} has the wire type {kind}, which is none")


def number(value: int | bytes) -> int:
    """A field that is a number."""
    if not isinstance(value, int):
        raise Malformed("bytes where a number belongs")
    return value


def signed(value: int | bytes) -> int:
    """A field that is a `sint64`."""
    plain = number(value)
    return (plain >> 1) ^ -(plain & 1)


def data(value: int | bytes) -> bytes:
    """A field that is bytes or a message."""
    if isinstance(value, int):
        raise Malformed("a number where bytes belong")
    return value


def text(value: int | bytes) -> str:
    """A field that is a string."""
    try:
        return data(value).decode()
    except UnicodeDecodeError:
        raise Malformed("a string that is not UTF-8") from None


def packed(value: int | bytes) -> Iterator[int]:
    """A repeated field of varints, packed or one of them."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        one, at = _varint(value, at)
        yield one


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _U64, at
    raise Malformed("a number that does not end")


def _taken(message: bytes, at: int, length: int) -> bytes:
    if length > len(message) - at:
        raise Malformed("a field that ends beyond its message")
    return message[at : at + length]
