"""The hash of keys and the sum over packets, as docs/wire.md gives them in C."""

import struct
from collections.abc import Sequence

_MASK = 2**64 - 1
_HASH_BASE = 0x9E3779B97F4A7C15
_HASH_END = 0xD6E8FEB86659FD93
SUM_BASE = 0xD1342543DE82EF95


def padded(length: int) -> int:
    """The length with the filler that follows it: the next multiple of 8."""
    return (length + 7) // 8 * 8


def key_hash(key: bytes) -> int:
    """The 32 bits by which a key's home and its place in tables are found."""
    words = struct.unpack(f"<{padded(len(key)) // 8}Q", key.ljust(padded(len(key)), b"\0"))
    mixed = len(key) * _HASH_END & _MASK
    for word in words:
        mixed = (mixed ^ word) * _HASH_BASE & _MASK
        mixed ^= mixed >> 32
    mixed = mixed * _HASH_END & _MASK
    mixed = (mixed ^ mixed >> 32) * _HASH_END & _MASK
    return mixed >> 32


def extend(before: int, words: Sequence[int]) -> int:
    """The sum of what had the sum `before`, followed by these words of 32 bits."""
    total = before
    for word in words:
        total = (total * SUM_BASE + word) & _MASK
    return total


def checksum(packet: bytes | bytearray) -> int:
    """The checksum of header, key, value and their filler; the checksum's own bytes must be 0 in `packet`."""
    words = struct.unpack(f"<{len(packet) // 4}I", packet)
    return extend(0, words) * SUM_BASE & _MASK
