"""The file that all nodes and clients have: who is where, which home a key has, and how clients are tuned.

A client needs homes in the order of the file, addresses, and some registers of `[coherence]`. What only nodes care about
(who is above whom, controllers) is read for its addresses and otherwise left to them to check.
"""

import ipaddress
import ssl
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import controllers
from .errors import BadTopology, NotFound
from .find import file_text
from .moved import Moved, Place, learn
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
    moved: Moved = field(default_factory=dict)
    """Homes that are at another address than the file said first; `homes` has where they are."""
    admins: tuple[str, ...] = ()
    """Where operators find controllers, of those that say it."""

    @classmethod
    def read(cls, path: str | Path, tls: ssl.SSLContext | None = None) -> "Topology":
        """Of a file, or of the controllers that are named instead, `http://HOST:PORT` or `https://`; raises `OSError`, `BadTopology` or `NotFound`."""
        text = file_text(path, tls=tls)
        told = cls._of_text(text, path)
        here = controllers.key_here()
        return told if controllers.named(path) is None or here is None else replace(told, key_file=here)

    @classmethod
    def find(cls, path: str | Path, timeout: float = controllers.TIMEOUT, tls: ssl.SSLContext | None = None) -> "Topology":
        """The same, with homes where the controllers know them to be that the file names. None of them needs to answer."""
        topology = cls.read(path, tls)
        if not topology.admins or controllers.named(path) is not None:
            return topology

        def moved(text: str) -> Moved:
            told = cls._of_text(text, path)
            stay = [{home: at for home, at in one.homes.items() if home not in {**told.moved, **topology.moved}} for one in (told, topology)]
            if stay[0] != stay[1] or (told.boxes, told.slots, list(told.homes)) != (topology.boxes, topology.slots, list(topology.homes)):
                raise NotFound("it is another rack's")
            return told.moved

        try:
            return topology.with_moved(controllers.first(controllers.urls(topology.admins, tls), timeout, moved, tls))
        except NotFound:
            return topology

    @classmethod
    def _of_text(cls, text: str, path: str | Path) -> "Topology":
        try:
            return cls.parse(tomllib.loads(text), Path(path).parent)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, BadTopology) as cause:
            raise BadTopology(f"the topology {path} makes no sense: {cause}") from None

    def with_moved(self, heard: Moved) -> "Topology":
        """The same, with homes where they are by what was heard, if that is news."""
        moved = dict(self.moved)
        news = learn(moved, heard)
        homes = {home: (moved[home].host, moved[home].port) if home in news else at for home, at in self.homes.items()}
        return replace(self, homes=homes, moved=moved)

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
        moved = {
            number: Place(*homes[number], _epoch(entry)) for number, entry in zip(homes, _tables(file, "home"), strict=True) if "moved" in entry
        }
        admins = tuple(_admin(entry["admin"]) for entry in _tables(file, "controller") if "admin" in entry)
        keys = None, named.get("client_key"), named.get("key")
        return cls(slots, homes, boxes, others, streams, tuning, *keys, moved, admins)

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


def _epoch(entry: dict[str, Any]) -> int:
    epoch = entry["moved"]
    if not isinstance(epoch, int) or not 0 <= epoch < 1 << 32:
        raise BadTopology(f"moved = {epoch!r}: the epoch of an order has 32 bits")
    return epoch


def _admin(said: object) -> str:
    """A port is one of loopback."""
    return f"127.0.0.1:{said}" if str(said).isdecimal() else str(said)


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
