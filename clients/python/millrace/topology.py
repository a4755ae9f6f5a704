"""The file that all nodes and clients have: who is where, which home a key has, and how clients are tuned.

A client needs homes in the order of the file, addresses, and some registers of `[coherence]`. What only nodes care about
(who is above whom, controllers) is read for its addresses and otherwise left to them to check.
"""

import ipaddress
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import BadTopology

Address = tuple[str, int]


@dataclass(frozen=True)
class Tuning:
    """The registers that a client goes by; times in seconds. `millrace registers --inc` explains them."""

    retransmit: float = 0.005
    retransmit_max: float = 0.1
    patience: float = 3.0
    bypass: float = 0.5
    worth: int = 10
    tries_first: bool = True


@dataclass(frozen=True)
class Topology:
    """A file that makes sense."""

    slots: int
    homes: dict[int, Address]
    """In the order of the file, which gives keys their homes."""
    boxes: dict[int, Address]
    others: frozenset[Address] = frozenset()
    """Where controllers are."""
    tuning: Tuning = field(default_factory=Tuning)

    @classmethod
    def read(cls, path: str | Path) -> "Topology":
        """Of a file; raises `OSError` or `BadTopology`."""
        try:
            return cls.parse(tomllib.loads(Path(path).read_text()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, BadTopology) as cause:
            raise BadTopology(f"the topology {path} makes no sense: {cause}") from None

    @classmethod
    def parse(cls, file: dict[str, Any]) -> "Topology":
        """Of what a file says; raises `BadTopology`."""
        slots = file.get("slots", 64)
        if not isinstance(slots, int) or slots < 1 or slots > 1 << 16 or slots & (slots - 1):
            raise BadTopology(f"{slots} slots: must be a power of two up to 65536")
        boxes, homes = _numbered(file, "box"), _numbered(file, "home")
        if not boxes or not homes:
            raise BadTopology("it needs at least one box and one home")
        others = frozenset(_address(entry) for entry in _tables(file, "controller"))
        return cls(slots, homes, boxes, others, _tuning(file.get("coherence", {})))

    def home_of(self, hashed: int) -> int:
        """The home of the keys with this hash."""
        slot = hashed * self.slots >> 32
        return list(self.homes)[slot % len(self.homes)]

    def box(self, box: int | None) -> int:
        """This box, or the one with the lowest number; raises `BadTopology` where there is none."""
        if box is None:
            return min(self.boxes)
        if box not in self.boxes:
            there = ", ".join(map(str, sorted(self.boxes)))
            raise BadTopology(f"the topology has no box {box} to ask; its boxes are {there}")
        return box

    def addresses(self) -> set[Address]:
        """Of all nodes."""
        return {*self.boxes.values(), *self.homes.values(), *self.others}


def _tables(file: dict[str, Any], name: str) -> list[dict[str, Any]]:
    entries = file.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadTopology(f"{name} must be tables: [[{name}]]")
    return entries


def _numbered(file: dict[str, Any], name: str) -> dict[int, Address]:
    found: dict[int, Address] = {}
    for entry in _tables(file, name):
        number = entry.get("id")
        if not isinstance(number, int) or number in found or not 0 < number < 1 << 16:
            raise BadTopology(f"{name} {number}: each has an id of its own, a number above 0")
        found[number] = _address(entry)
    return found


def _address(entry: dict[str, Any]) -> Address:
    """`host:port`, with brackets about an IPv6 address; as sockets name it."""
    text = entry.get("address", "")
    host, _, port = str(text).rpartition(":")
    try:
        address = str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        address = "", 0
    if not 0 < address[1] < 1 << 16:
        raise BadTopology(f"{text!r} is no address; write for example 127.0.0.1:7101")
    return address


def _tuning(registers: dict[str, Any]) -> Tuning:
    """Registers are numbers of microseconds, percents and words; a file may have them in quotes."""

    def number(name: str, default: float) -> int:
        try:
            return int(registers.get(name, default))
        except (TypeError, ValueError):
            raise BadTopology(f"coherence.{name} must be a whole number") from None

    plain = Tuning()
    spans = {name: number(name, getattr(plain, name) * 1e6) / 1e6 for name in ("retransmit", "retransmit_max", "patience", "bypass")}
    tries_first = registers.get("compute", "try_first") == "try_first"
    return Tuning(worth=number("worth", plain.worth), tries_first=tries_first, **spans)
