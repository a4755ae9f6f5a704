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
from .proof import BOX, CONTROLLER, HOME, client_key
from .wire import MAX_VALUE

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
    value_max: int = 1 << 20


@dataclass(frozen=True)
class Topology:
    """A file that makes sense."""

    slots: int
    homes: dict[int, Address]
    """In the order of the file, which gives keys their homes."""
    boxes: dict[int, Address]
    others: tuple[Address, ...] = ()
    """Where controllers are, in their order."""
    streams: dict[int, Address] = field(default_factory=dict)
    """Memcached listeners of homes, for values that are too long for a packet: of all, or of none."""
    tuning: Tuning = field(default_factory=Tuning)
    key: bytes | None = None
    """The clients' key, where no file has it."""
    key_file: Path | None = None
    cluster_key_file: Path | None = None

    @classmethod
    def read(cls, path: str | Path) -> "Topology":
        """Of a file; raises `OSError` or `BadTopology`."""
        try:
            return cls.parse(tomllib.loads(Path(path).read_text()), Path(path).parent)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, BadTopology) as cause:
            raise BadTopology(f"the topology {path} makes no sense: {cause}") from None

    @classmethod
    def parse(cls, file: dict[str, Any], folder: Path = Path()) -> "Topology":
        """Of what a file in this folder says; raises `BadTopology`."""
        slots = file.get("slots", 64)
        if not isinstance(slots, int) or slots < 1 or slots > 1 << 16 or slots & (slots - 1):
            raise BadTopology(f"{slots} slots: must be a power of two up to 65536")
        boxes, homes = _numbered(file, "box"), _numbered(file, "home")
        if not boxes or not homes:
            raise BadTopology("it needs at least one box and one home")
        others = tuple(_address(entry) for entry in _tables(file, "controller"))
        streams = {number: _address(entry, "stream") for number, entry in zip(homes, _tables(file, "home"), strict=True) if "stream" in entry}
        if streams and len(streams) != len(homes):
            raise BadTopology("some homes have a stream and others have not; write all of them or none")
        cluster = file.get("cluster", {})
        named = {name: folder / str(cluster[name]) for name in ("key", "client_key") if name in cluster}
        tuning = _tuning(file.get("coherence", {}))
        return cls(slots, homes, boxes, others, streams, tuning, None, named.get("client_key"), named.get("key"))

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

    def nodes(self) -> dict[Address, tuple[int, int]]:
        """Who is at which address: what it is, and its number."""
        boxes = {address: (BOX, number) for number, address in self.boxes.items()}
        homes = {address: (HOME, number) for number, address in self.homes.items()}
        others = {address: (CONTROLLER, index) for index, address in enumerate(self.others)}
        return {**others, **homes, **boxes}

    def client_key(self) -> bytes | None:
        """What clients prove themselves with; `None`: the file names no key. Raises `OSError` or `BadTopology`."""
        if self.key is not None:
            return self.key
        if self.key_file is not None:
            return _read_key(self.key_file)
        return None if self.cluster_key_file is None else client_key(_read_key(self.cluster_key_file))


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


def _address(entry: dict[str, Any], name: str = "address") -> Address:
    """`host:port`, with brackets about an IPv6 address; as sockets name it."""
    text = entry.get(name, "")
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
    value_max = max(_size(registers.get("value_max", plain.value_max)), MAX_VALUE)
    return Tuning(worth=number("worth", plain.worth), tries_first=tries_first, value_max=value_max, **spans)


def _size(said: Any) -> int:
    """Bytes: a number, or a text as registers show it, such as 512KiB."""
    units = {"": 1, "kib": 1 << 10, "k": 1 << 10, "mib": 1 << 20, "m": 1 << 20, "gib": 1 << 30, "g": 1 << 30, "b": 1}
    text = str(said).strip().lower()
    digits = text.rstrip("bgikm ")
    if not digits.isdigit() or (unit := text[len(digits) :].strip()) not in units:
        raise BadTopology(f"coherence.value_max cannot be {said!r}: write a number of bytes, or for example 512KiB")
    return int(digits) * units[unit]


def _read_key(path: Path) -> bytes:
    """The key in a file that only its owner can read; raises `OSError` or `BadTopology`."""
    if path.stat().st_mode & 0o077:
        raise BadTopology(f"others can read the key file {path}: chmod 600 {path}")
    try:
        key = bytes.fromhex(path.read_text().strip())
    except ValueError:
        key = b""
    if len(key) != 16:
        raise BadTopology(f"the key file {path} must hold 32 hexadecimal digits")
    return key
