"""A cluster, found by its file, a controller, etcd or replicas: its store (a chain of replicas) and its in-network cache.

    with Cluster.from_file("cluster.toml") as cluster:
        cluster.set("ann", b"10")
        moved = cluster.transaction().expect_at_least("ann", 4).add("ann", -4).add("bob", 4).commit()

A file may have both, and then `store` and `cache` are both there, and keys of the one are no keys of the other: the operations of the cluster itself
go to the store, if there is one.
"""

import ssl
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from . import controllers, find
from .client import Client, Item, Swap
from .errors import BadTopology, MillraceError
from .find import Finder, Source
from .operations import Pending
from .shards import Shards
from .store import Store
from .topology import Topology
from .txn import Found, Key


class Cluster:
    """What was found. Threads may share it: one operation of the store and one of the cache are under way at a time."""

    def __init__(self, store: Store | Shards | None, cache: Client | None) -> None:
        self._store = store
        self._cache = cache

    @classmethod
    def from_file(
        cls, path: str | Path, *, chain: int | None = None, box: int | None = None, tls: ssl.SSLContext | None = None, **store: float
    ) -> Self:
        """By `cluster.toml`, or as the controllers of its rack have it (`http://HOST:PORT` or `https://`): its chains (or the one of this number alone) and
        its rack, asking `box`; `tls` says whose certificates are believed at `tls:` addresses and by https, and which is shown, else the environment does
        (`trust`). Raises `OSError`, `BadTopology`, `NotFound`."""
        try:
            tables = tomllib.loads(find.file_text(path, tls=tls))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
            raise BadTopology(f"the cluster's file {path} makes no sense: {cause}") from None
        has_cache, has_store = "box" in tables or "home" in tables, "chain" in tables
        if not has_cache and not has_store:
            raise BadTopology(f"the cluster's file {path} has neither a [[chain]] nor a [[box]] and a [[home]]")
        cache = Client(Topology.find(path, tls=tls), box) if has_cache else None
        try:
            return cls(_stores(path, tables, chain, tls, **store) if has_store else None, cache)
        except BaseException:
            if cache is not None:
                cache.close()
            raise

    @classmethod
    def from_controller(
        cls, *places: str, chain: int | None = None, box: int | None = None, tls: ssl.SSLContext | None = None, **store: float
    ) -> Self:
        """By controllers, `HOST:PORT` of their admin ports: of a chain, or of a rack, which have the file of the cluster; by https where `tls` or the
        environment says whose certificates are believed. Raises `NotFound`."""
        if with_file := _with_file(places, tls):
            return cls.from_file(with_file, chain=chain, box=box, tls=tls, **store)
        return cls(_store([find.controller(place) for place in places], chain, tls, **store), None)

    @classmethod
    def from_etcd(
        cls,
        endpoints: str | Iterable[str],
        *,
        chain: int = 1,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        **store: float,
    ) -> Self:
        """By the etcd in which the controllers of a chain keep its configuration: `http://HOST:PORT` of its members, or `https://` with `tls`,
        which counts for replicas at `tls:` addresses, too. Raises `NotFound`."""
        return cls(_store([find.etcd(endpoints, login, tls)], chain, tls, **store), None)

    @classmethod
    def from_replicas(cls, *addresses: str, chain: int | None = None, tls: ssl.SSLContext | None = None, **store: float) -> Self:
        """By replicas, `tcp:HOST:PORT`, `tls:HOST:PORT` or `unix:/path`; one that lives is enough. Raises `NotFound`."""
        return cls(_store([find.replicas(addresses)], chain, tls, **store), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it."""
        for part in (self._store, self._cache):
            if part is not None:
                part.close()

    @property
    def store(self) -> Store | Shards:
        """Keys and transactions of its chain, or of all that its file has: durable. Raises `MillraceError` where it has none."""
        if self._store is None:
            raise MillraceError("the cluster has no store: its file has no [[chain]]")
        return self._store

    @property
    def cache(self) -> Client:
        """Its in-network cache. Raises `MillraceError` where it has none."""
        if self._cache is None:
            raise MillraceError("the cluster has no in-network cache: its file says where one is, with [[box]] and [[home]], or a controller of the rack")
        return self._cache

    def get(self, key: Key) -> Found | Item | None:
        """The item of `key`, with `value` and `version`; `None`: there is none."""
        return self._main.get(key)

    def set(self, key: Key, value: bytes) -> int:
        """Stores, whatever is there; the version that it made."""
        return self._main.set(key, value)

    def add(self, key: Key, value: bytes) -> int | None:
        """Stores where nothing is; `None`: something is."""
        return self._main.add(key, value)

    def replace(self, key: Key, value: bytes) -> int | None:
        """Stores where something is; `None`: nothing is."""
        return self._main.replace(key, value)

    def cas(self, key: Key, version: int, value: bytes) -> Swap:
        """Stores where `version` is."""
        return self._main.cas(key, version, value)

    def delete(self, key: Key) -> bool:
        """Removes; whether something was there."""
        return self._main.delete(key)

    def increment(self, key: Key, by: int = 1) -> int:
        """Adds to a number; the sum. Where nothing is, that counts as 0."""
        if self._store is not None:
            return self._store.increment(key, by)
        total = self.cache.increment(key, by, initial=by)
        assert total is not None, "where nothing is, the first is stored"
        return total

    def transaction(self) -> Pending:
        """A transaction of the store, to be filled and committed."""
        return self.store.transaction()

    @property
    def _main(self) -> Any:
        return self.cache if self._store is None else self._store


def _with_file(places: tuple[str, ...], tls: ssl.SSLContext | None) -> str | None:
    """What stands for the file, if one of these controllers has it: those that have it, and those that are silent now."""
    try:
        urls = controllers.urls(places, tls)
    except BadTopology:
        return None  # What is wrong with a place is said where replicas are looked for there.
    with ThreadPoolExecutor(len(urls)) as threads:
        said = list(threads.map(lambda url: controllers.has_file(url, tls=tls), urls))
    return ",".join(url for url, has in zip(urls, said, strict=True) if has is not False) if True in said else None


def _store(
    sources: list[Source], chain: int | None, tls: ssl.SSLContext | None, *, deadline: float = 10.0, connect_timeout: float = 2.0
) -> Store:
    return Store(Finder(sources, chain, connect_timeout, tls), deadline)


def _stores(
    path: str | Path,
    tables: dict[str, Any],
    chain: int | None,
    tls: ssl.SSLContext | None,
    *,
    deadline: float = 10.0,
    connect_timeout: float = 2.0,
) -> Store | Shards:
    """Of the chain of this number, or of all that the file has."""
    try:
        chains = find.chains_of(tables)
    except BadTopology as cause:
        raise BadTopology(f"the cluster's file {path} makes no sense: {cause}") from None
    if chain is not None or len(chains) == 1:
        return _store([find.file(path)], chain, tls, deadline=deadline, connect_timeout=connect_timeout)
    return Shards(path, chains, deadline, connect_timeout, tls)
