"""How the replicas of a chain are found: addresses, the cluster's file, a controller's admin port, etcd.

Every source is a help: what counts is what a replica says of itself. One source that names one living replica is enough.
"""

import base64
import http.client
import json
import ssl
import tomllib
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import trust
from .errors import BadTopology, NotFound
from .slots import SLOTS, Ranges, ranges, share, table

_PAGE_BYTES = 64 << 10
_USUAL_CHAIN = 1
"""The chain that etcd is asked for if none is named: what controllers call theirs then."""

Source = Callable[["Finder"], list[str]]
"""Addresses of replicas; raises `NotFound`, `BadTopology` or `OSError`."""


@dataclass
class Finder:
    """Looks for the replicas of one chain."""

    sources: list[Source] = field(default_factory=list)
    chain: int | None = None
    """Its number; `None`: the only one that a source knows of."""
    timeout: float = 2.0
    """Seconds that a source may take."""
    tls: ssl.SSLContext | None = None
    """Whose certificates are believed, and which is shown; `None`: what the environment says (`trust`)."""

    def addresses(self) -> list[str]:
        """Where replicas may be, as all sources say that say something; raises `NotFound` where none does."""
        found: dict[str, None] = {}
        failures = []
        for source in self.sources:
            try:
                found.update(dict.fromkeys(source(self)))
            except (NotFound, BadTopology, OSError) as cause:
                failures.append(str(cause))
        if not found:
            raise NotFound("; ".join(failures) or "no replica is named: give addresses, the cluster's file, a controller or etcd")
        return list(found)


def replicas(addresses: Iterable[str]) -> Source:
    """These."""
    all_of_them = list(addresses)
    return lambda _: all_of_them


def file_text(path: str | Path, timeout: float = 2.0, tls: ssl.SSLContext | None = None) -> str:
    """The text of the cluster's file, or as the controllers have it that are named instead; raises `OSError`, `BadTopology` or `NotFound`."""
    from . import controllers  # which asks pages by this module

    places = controllers.named(path)
    return Path(path).read_text() if places is None else controllers.text(places, timeout, tls)


def file(path: str | Path) -> Source:
    """The file of the cluster, read again whenever replicas are looked for."""

    def read(finder: Finder) -> list[str]:
        try:
            tables = tomllib.loads(file_text(path, finder.timeout, finder.tls))
            return [address for _, address in chain_of(tables, finder.chain).replicas]
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, BadTopology) as cause:
            raise BadTopology(f"the cluster's file {path} makes no sense: {cause}") from None

    return read


@dataclass(frozen=True)
class Chain:
    """A chain of a cluster's file."""

    number: int
    slots: Ranges
    """The slots whose keys it has."""
    replicas: list[tuple[int, str]]
    """From head to tail."""


def chains_of(tables: dict[str, Any]) -> list[Chain]:
    """The chains in a cluster's file, between which all slots are; raises `BadTopology`."""
    chains = tables.get("chain", [])
    if not isinstance(chains, list) or not all(isinstance(chain, dict) for chain in chains):
        raise BadTopology("chain must be tables: [[chain]]")
    found: dict[int, Chain] = {}
    for at, chain in enumerate(chains):
        number = chain.get("number")
        if not isinstance(number, int) or not 0 <= number < 1 << 32:
            raise BadTopology("a chain needs number, of 32 bits")
        if number in found:
            raise BadTopology(f"there is a chain {number} already: numbers are given once")
        found[number] = Chain(number, _slots(chain, at, len(chains)), _replicas(chain))
    try:
        if found:
            table({chain.number: chain.slots for chain in found.values()})
    except ValueError as cause:
        raise BadTopology(str(cause)) from None
    return list(found.values())


def _slots(chain: dict[str, Any], at: int, count: int) -> Ranges:
    text = chain.get("slots", share(0, 1) if count == 1 else None)
    if text is None:
        raise BadTopology(
            f"chain {chain.get('number')} is one of {count}, and the file does not say which keys are in it: write its hash slots, as "
            f'slots = "{share(at, count)}"; each of the {SLOTS} slots is one chain\'s'
        )
    try:
        return ranges(text)
    except (ValueError, AttributeError) as cause:
        raise BadTopology(f"slots cannot be {text!r}: {cause}") from None


def _replicas(chain: dict[str, Any]) -> list[tuple[int, str]]:
    places = chain.get("replica", [])
    if not isinstance(places, list) or not places:
        raise BadTopology(f"chain {chain.get('number')} needs a replica: [[chain.replica]]")
    found = []
    for place in places:
        replica, address = (place.get("id"), place.get("address")) if isinstance(place, dict) else (None, None)
        if not isinstance(replica, int) or not 0 < replica < 1 << 16 or not isinstance(address, str) or ":" not in address:
            raise BadTopology(f"a replica of chain {chain.get('number')} needs id, from 1, and address, such as tcp:10.0.0.1:7401")
        found.append((replica, address))
    return found


def chain_of(tables: dict[str, Any], number: int | None) -> Chain:
    """A chain in a cluster's file, of this number or the only one; raises `BadTopology`."""
    chains = chains_of(tables)
    there = {chain.number: chain for chain in chains}
    if number is None and len(chains) == 1:
        return chains[0]
    if number in there:
        return there[number]
    named = ", ".join(str(name) for name in there) or "none"
    wanted = "say which chain" if number is None else f"there is no chain {number}"
    raise BadTopology(f"{wanted}: its chains are {named}")


def controller(place: str) -> Source:
    """A controller's admin port: `HOST:PORT`, asked by https where somebody's certificates are believed; or a URL of it."""
    has_scheme = place.startswith(("http://", "https://"))
    if "://" in place and not has_scheme or place.startswith(("tcp:", "tls:")):
        raise ValueError(f"{place!r} is no controller's admin port: write HOST:PORT, as its --admin says")

    def ask(finder: Finder) -> list[str]:
        url = place if has_scheme else f"{scheme(finder.tls)}://{place}"
        try:
            status, text = _asked(f"{url.rstrip('/')}/chain", _Asking(finder.timeout, finder.tls))
            if status != 200:
                raise NotFound(f"{status} for /chain: is this a chain controller's admin port?")
            return _directory(text, finder)
        except (NotFound, OSError) as cause:
            raise NotFound(f"the controller at {url}: {cause}") from None

    return ask


def etcd(endpoints: str | Iterable[str], login: tuple[str, str] | None = None, tls: ssl.SSLContext | None = None) -> Source:
    """The etcd in which the chain's controllers keep their configuration: `http://HOST:PORT` of its members, or `https://` with `tls`, which says
    whose certificates are believed and what is shown; as a user, if it has users."""
    urls = [endpoints] if isinstance(endpoints, str) else list(endpoints)
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no etcd endpoint: write http://HOST:PORT or https://HOST:PORT")
        if url.startswith("https://") and trust.believed(tls) is None:
            raise ValueError(f"{url}: whose certificates are believed? Give tls=ssl.create_default_context(cafile=FILE), or name the file in {trust.CA}")
    if not urls:
        raise ValueError("no etcd endpoint is named: write http://HOST:PORT")

    def ask(finder: Finder) -> list[str]:
        key = f"/millrace/chain/{_USUAL_CHAIN if finder.chain is None else finder.chain}/directory"
        failures = []
        for url in urls:
            try:
                found = _range(url.rstrip("/"), key, login, _Asking(finder.timeout / len(urls), tls))
            except (NotFound, OSError) as cause:
                failures.append(f"{url} ({cause})")
                continue
            if found is None:
                raise NotFound(f"etcd has no {key}: a controller that leads writes it; does one run, and is this its chain?")
            return _directory(found, finder)
        raise NotFound(f"etcd does not answer: {', '.join(failures)}")

    return ask


@dataclass(frozen=True)
class _Asking:
    """How long an answer may take, in seconds, and whose certificates are believed."""

    timeout: float
    tls: ssl.SSLContext | None = None
    most: int = _PAGE_BYTES
    """Bytes of the longest answer."""


def _range(url: str, key: str, login: tuple[str, str] | None, asking: _Asking) -> bytes | None:
    """What is at a key of etcd, over its JSON gateway."""
    token = None
    if login is not None:
        user, password = login
        token = _json(f"{url}/v3/auth/authenticate", {"name": user, "password": password}, None, asking).get("token")
    answer = _json(f"{url}/v3/kv/range", {"key": base64.b64encode(key.encode()).decode()}, token, asking)
    pairs = answer.get("kvs")
    if not isinstance(pairs, list) or not pairs:
        return None
    try:
        return base64.b64decode(pairs[0]["value"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise NotFound("its answer is not understood") from None


def _json(url: str, body: dict[str, str], token: str | None, asking: _Asking) -> dict[str, Any]:
    headers = {"content-type": "application/json"} | ({} if token is None else {"authorization": token})
    status, text = _asked(url, asking, json.dumps(body).encode(), headers)
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise NotFound(f"{status}, and no JSON of etcd")
    if status != 200:
        raise NotFound(f"{status}: {str(answer.get('error', ''))[:200]}")
    return answer


def scheme(tls: ssl.SSLContext | None) -> str:
    """How an admin port is asked of which nobody says it."""
    return "http" if trust.believed(tls) is None else "https"


def asked(url: str, timeout: float, most: int, tls: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    """Status and text of a page, of so many bytes at most; raises `NotFound` or `OSError`."""
    return _asked(url, _Asking(timeout, tls, most))


def _asked(url: str, asking: _Asking, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Status and text of a page: no proxy, no redirect."""
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "", parts.port
    context = trust.believed(asking.tls) if parts.scheme == "https" else None
    if parts.scheme == "https" and context is None:
        raise NotFound(f"whose certificates are believed? Give tls=ssl.create_default_context(cafile=FILE), or name the file in {trust.CA}")
    connection = (
        http.client.HTTPSConnection(host, port, timeout=asking.timeout, context=context)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=asking.timeout)
    )
    try:
        connection.request("GET" if body is None else "POST", parts.path, body, headers or {})
        answer = connection.getresponse()
        text = answer.read(asking.most + 1)
    except http.client.HTTPException as cause:
        raise NotFound(f"no HTTP answers there ({type(cause).__name__})") from None
    finally:
        connection.close()
    if len(text) > asking.most:
        raise NotFound(f"its answer has more than {asking.most} bytes")
    return answer.status, text


def _directory(text: bytes, finder: Finder) -> list[str]:
    """Where the replicas serve: what a controller says at its admin port and in etcd."""
    try:
        found = json.loads(text)
        chain, places = int(found["chain"]), [str(place["address"]) for place in found["replicas"]]
    except (ValueError, KeyError, TypeError):
        raise NotFound("what is there is no directory of a chain's replicas") from None
    if finder.chain not in (None, chain):
        raise NotFound(f"it is about chain {chain}, and not about {finder.chain}")
    if not places:
        raise NotFound("no replica has said yet where it serves")
    return places
