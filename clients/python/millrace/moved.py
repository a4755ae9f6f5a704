"""Homes that are at another address than the file says, by order of an operator: as boxes say it, and as a client remembers it.

A home keeps its number and its slots. Of two places of one home the one of the higher epoch counts, in whatever order they are heard of. Shape on the wire, in
the value of a packet of kind HOMES, before whatever else it says: a count (2 bytes), six of 0; for each home, numbers little-endian: home (2), port (2),
epoch (4), address (16; of IPv4 the mapped one). Homes rise.
"""

import ipaddress
import struct
from collections.abc import Collection
from dataclasses import dataclass

from .wire import Kind, Packet

_HEAD = struct.Struct("<H6s")
_HOME = struct.Struct("<HHI16s")


@dataclass(frozen=True)
class Place:
    """Where a home is, and since which table."""

    host: str
    port: int
    epoch: int


Moved = dict[int, Place]
"""Of each home that has moved."""


def told(packet: Packet, homes: Collection[int]) -> Moved | None:
    """What a packet says of these homes; `None` for what makes no sense."""
    if packet.kind != Kind.HOMES:
        return {}
    if len(packet.value) < _HEAD.size:
        return None
    count, filler = _HEAD.unpack_from(packet.value)
    if any(filler) or len(packet.value) < _HEAD.size + count * _HOME.size:
        return None
    found: Moved = {}
    last = 0
    for at in range(count):
        home, port, epoch, address = _HOME.unpack_from(packet.value, _HEAD.size + at * _HOME.size)
        ip = ipaddress.IPv6Address(address)
        host = ip.ipv4_mapped or ip
        if home <= last or home not in homes or port == 0 or host.is_unspecified:
            return None
        found[home], last = Place(str(host), port, epoch), home
    return found


def emit(moved: Moved) -> bytes:
    """As packets carry it: what `told` reads."""
    homes = b"".join(
        _HOME.pack(home, place.port, place.epoch, _mapped(place.host)) for home, place in sorted(moved.items())
    )
    return _HEAD.pack(len(moved), bytes(6)) + homes


def learn(known: Moved, heard: Moved) -> set[int]:
    """Takes what is news; of which homes anything is."""
    news = {home for home, place in heard.items() if home not in known or known[home].epoch < place.epoch}
    known.update({home: heard[home] for home in news})
    return news


def _mapped(host: str) -> bytes:
    ip = ipaddress.ip_address(host)
    return ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
