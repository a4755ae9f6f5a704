"""Who wrote a packet: tags under a key that nodes and clients share, as docs/wire.md has them."""

import itertools
import struct

PROOF_BYTES = 32
CLIENT, BOX, HOME, CONTROLLER = 1, 2, 3, 4
"""What a sender or receiver is."""
_MASK = 2**64 - 1


def tag(key: bytes, *parts: bytes) -> bytes:
    """SipHash-2-4 with 128 bits of these parts, each after its length."""
    return siphash(key, b"".join(struct.pack("<Q", len(part)) + part for part in parts))


def siphash(key: bytes, data: bytes) -> bytes:
    """SipHash-2-4 with 128 bits (Aumasson and Bernstein)."""
    k0, k1 = struct.unpack("<2Q", key)
    state = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    last = data[len(data) // 8 * 8 :].ljust(7, b"\0") + bytes([len(data) & 0xFF])
    for word in struct.unpack(f"<{len(data) // 8 + 1}Q", data[: len(data) // 8 * 8] + last):
        state[3] ^= word
        _mix(state, 2)
        state[0] ^= word
    state[2] ^= 0xEE
    _mix(state, 4)
    first = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= 0xDD
    _mix(state, 4)
    return struct.pack("<2Q", first, state[0] ^ state[1] ^ state[2] ^ state[3])


def _mix(state: list[int], rounds: int) -> None:
    a, b, c, d = state
    for _ in range(rounds):
        a = (a + b) & _MASK
        b = (b << 13 & _MASK | b >> 51) ^ a
        a = a << 32 & _MASK | a >> 32
        c = (c + d) & _MASK
        d = (d << 16 & _MASK | d >> 48) ^ c
        a = (a + d) & _MASK
        d = (d << 21 & _MASK | d >> 43) ^ a
        c = (c + b) & _MASK
        b = (b << 17 & _MASK | b >> 47) ^ c
        c = c << 32 & _MASK | c >> 32
    state[:] = a, b, c, d


def client_key(cluster: bytes) -> bytes:
    """What clients get of a cluster's key."""
    return tag(cluster, b"derive", b"cache/client")


class Seal:
    """A client's proofs, and what it believes of others'."""

    def __init__(self, key: bytes, client: int) -> None:
        self._key = key
        self._me = struct.pack("<B7xQ", CLIENT, client)
        self._counter = itertools.count(1)

    def prove(self, packet: bytes, to: tuple[int, int]) -> bytes:
        """The proof of a packet (without it, and without padding) for a node: what it is, and its number."""
        said = struct.pack("<B7xQ", CLIENT, next(self._counter))
        return said + tag(self._key, packet, said, struct.pack("<BxH12x", *to))

    def believes(self, packet: bytes, proof: bytes, sender: tuple[int, int]) -> bool:
        """Whether that node wrote the packet, and for this client."""
        role, number = struct.unpack_from("<BxH", proof)
        return (role, number) == sender and tag(self._key, packet, proof[:16], self._me) == proof[16:]
