"""A client of one key-value server (`millrace up`, or memcached), over shared memory or sockets, by libmillrace.

It is what `Client` is where it is given an address instead of a topology.
"""

import ctypes
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from math import ceil
from typing import NoReturn

from . import library
from .client import Client, Item, Swap
from .errors import BadNumber, MillraceError, NotDone, NotFound, Refused, Unknown
from .library import Code
from .topology import Topology
from .wire import Status

_RELATIVE_MAX = 30 * 24 * 3600
"""Seconds beyond which memcached takes an expiry for a Unix time."""

_ADDRESS = re.compile(r"(shm|unix|tcp|tls):.+|[^/:]+:\d+|\[[^/]+\]:\d+")


def is_address(topology: object) -> bool:
    """Whether that is a server's address: `shm:PATH`, `unix:PATH`, `HOST:PORT` or `tls:HOST:PORT`; else it names a topology."""
    return isinstance(topology, str) and _ADDRESS.fullmatch(topology) is not None


class Server(Client):
    """A client of one server. Threads may share it: one operation is under way at a time. After a server was gone, the next operation connects again."""

    def __init__(
        self,
        topology: Topology | str | os.PathLike[str],
        box: int | None = None,
        *,
        timeout: float = 1.0,
        login: tuple[str, str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: tuple[str, str] | None = None,
    ) -> None:
        if box is not None:
            raise ValueError("a server has no boxes: leave out box")
        self._address = str(topology)
        self._options = library.options(timeout, tls_ca, tls_cert)
        self._login = login
        self._library = library.library()
        self._lock = threading.Lock()
        self._is_closed = False
        self._session: ctypes.c_void_p | None = None
        self._item = library.Item()
        self._to_item = ctypes.byref(self._item)
        with self._lock:
            self._open()

    def close(self) -> None:
        """Ends it."""
        with self._lock:
            self._is_closed = True
            self._end()

    def __del__(self) -> None:
        # Of one that could not be opened, nothing is there yet.
        if getattr(self, "_session", None) is not None:
            self._end()

    @property
    def stats(self) -> dict[str, int]:
        """As of a client without a box."""
        return {"asked": 0, "answered": 0, "direct": 0}

    def get(self, key: bytes | str) -> Item | None:
        """The item of `key`; `None`: there is none."""
        return self._found(self._library.millrace_gets, _key(key))

    def get_and_touch(self, key: bytes | str, life: float | None) -> Item | None:
        """The item of `key`, which lives so long from now on; `None`: there is none."""
        return self._found(self._library.millrace_gat, _key(key), _expiry(life))

    def get_many(self, keys: Iterable[bytes | str]) -> dict[bytes, Item]:
        """The items of those of the keys that are there, asked for together."""
        names = list(map(_key, keys))
        wanted = (library.Key * len(names))(*(library.Key(name, len(name)) for name in names))
        items = (library.Item * len(names))()
        with self._lock:
            code = self._library.millrace_multi_get(self._open(), wanted, len(names), items)
            self._check(code, is_read=True)
            return {name: _item(item) for name, item in zip(names, items, strict=True) if item.value is not None}

    def set(self, key: bytes | str, value: bytes, life: float | None = None, flags: int = 0) -> None:
        """Stores, whatever is there, for `life` seconds or for ever. A server does not say the version."""
        self._store(self._library.millrace_set, key, value, life, flags)

    def add(self, key: bytes | str, value: bytes, life: float | None = None, flags: int = 0) -> bool:
        """Stores where nothing is; whether it did."""
        return self._store(self._library.millrace_add, key, value, life, flags) == Code.OK

    def replace(self, key: bytes | str, value: bytes, life: float | None = None, flags: int = 0) -> bool:
        """Stores where something is; whether it did."""
        return self._store(self._library.millrace_replace, key, value, life, flags) == Code.OK

    def cas(self, key: bytes | str, version: int, value: bytes, life: float | None = None, flags: int = 0) -> Swap:
        """Stores where `version` is. The version of what is stored then is not said: it is 0 in the result."""
        code = self._store(self._library.millrace_cas, key, value, life, flags, version)
        return Swap(0 if code == Code.OK else None, code != Code.NOT_FOUND)

    def delete(self, key: bytes | str) -> bool:
        """Removes; whether something was there."""
        return self._ask(self._library.millrace_delete, _key(key)) == Code.OK

    def append(self, key: bytes | str, value: bytes, limit: int = 0) -> bool:
        """Appends to what is there; whether something was."""
        if limit:
            raise ValueError("a server knows no limit but that of all items, its -I")
        return self._ask(self._library.millrace_append, _key(key), value, len(value)) == Code.OK

    def prepend(self, key: bytes | str, value: bytes) -> bool:
        """Puts bytes before those that are there; whether some were."""
        return self._ask(self._library.millrace_prepend, _key(key), value, len(value)) == Code.OK

    def touch(self, key: bytes | str, life: float | None) -> bool:
        """Gives what is there another life; whether something was."""
        return self._ask(self._library.millrace_touch, _key(key), _expiry(life)) == Code.OK

    def increment(self, key: bytes | str, by: int = 1, initial: int | None = None) -> int | None:
        """Adds to a number, modulo 2^64; the sum. Where nothing is, stores and says `initial`; without it, `None`."""
        return self._counted(self._library.millrace_incr, key, by, initial)

    def decrement(self, key: bytes | str, by: int = 1, initial: int | None = None) -> int | None:
        """Subtracts from a number, down to 0. Else as `increment`."""
        return self._counted(self._library.millrace_decr, key, by, initial)

    def cond_put(self, key: bytes | str, number: int) -> bool:
        """Only boxes have it."""
        _not_here("cond_put")

    def min(self, key: bytes | str, number: int) -> int:
        """Only boxes have it."""
        _not_here("min")

    def max(self, key: bytes | str, number: int) -> int:
        """Only boxes have it."""
        _not_here("max")

    def or_(self, key: bytes | str, number: int) -> int:
        """Only boxes have it."""
        _not_here("or_")

    def flush(self) -> None:
        """Only boxes have it."""
        _not_here("flush")

    def _counted(self, function: Callable[..., int], key: bytes | str, by: int, initial: int | None) -> int | None:
        if not 0 <= by < 1 << 64:
            raise ValueError("numbers have 64 bits and no sign")
        total = ctypes.c_uint64()
        while self._ask(function, _key(key), by, ctypes.byref(total)) == Code.NOT_FOUND:
            if initial is None:
                return None
            # Somebody else may store first; then that is what is counted on.
            if self.add(key, str(initial).encode()):
                return initial
        return total.value

    def _store(self, function: Callable[..., int], key: bytes | str, value: bytes, life: float | None, flags: int, *more: int) -> int:
        if not 0 <= flags < 1 << 32:
            raise ValueError("flags have 32 bits and no sign")
        return self._ask(function, _key(key), value, len(value), flags, _expiry(life), *more)

    def _ask(self, function: Callable[..., int], key: bytes, *rest: object) -> int:
        """What a write came to."""
        with self._lock:
            code = function(self._session or self._open(), key, len(key), *rest)
            return code if code >= 0 else self._check(code, is_read=False)

    def _found(self, function: Callable[..., int], key: bytes, *rest: object) -> Item | None:
        with self._lock:
            code = function(self._session or self._open(), key, len(key), *rest, self._to_item)
            if code == Code.NOT_FOUND:
                return None
            self._check(code, is_read=True)
            # Before anybody else asks by this session, whose memory the value is in.
            return _item(self._item)

    def _open(self) -> ctypes.c_void_p:
        if self._session is not None:
            return self._session
        if self._is_closed:
            raise ValueError("the client was closed")
        session = ctypes.c_void_p()
        code = self._library.millrace_open(os.fsencode(self._address), ctypes.byref(self._options), ctypes.byref(session))
        if code != Code.OK:
            why = self._library.millrace_error(None).decode()
            raise ValueError(why) if code == Code.ARGUMENT else NotFound(why)
        self._session = session
        if self._login is not None:
            user, password = self._login
            try:
                self._check(self._library.millrace_login(session, user.encode(), password.encode()), is_read=True)
            except MillraceError:
                self._end()
                raise
        return session

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._library.millrace_close(session)

    def _check(self, code: int, *, is_read: bool) -> int:
        """The outcome, or the error that a code stands for."""
        if code >= 0:
            return code
        why = self._library.millrace_error(self._session).decode()
        match code:
            case Code.ARGUMENT:
                raise ValueError(why)
            case Code.NOT_A_NUMBER:
                raise BadNumber(why)
            case Code.TOO_LARGE:
                raise Refused(Status.TOO_LARGE, why)
            case Code.LOGIN | Code.REFUSED:
                raise Refused(None, why)
            case Code.GONE | Code.PROTOCOL:
                self._end()
        if code in (Code.GONE, Code.TIMED_OUT):
            raise NotDone(why) if is_read else Unknown(why)
        raise MillraceError(why)


def _item(found: library.Item) -> Item:
    return Item(ctypes.string_at(found.value, found.value_len), found.flags, found.version, False)


def _key(key: bytes | str) -> bytes:
    return key.encode() if isinstance(key, str) else bytes(key)


def _expiry(life: float | None) -> int:
    """Seconds of life as memcached has them: whole ones, 0 for ever, beyond 30 days a Unix time."""
    if life is None:
        return 0
    if life <= 0:
        return -1
    return ceil(life) if life <= _RELATIVE_MAX else ceil(time.time() + life)


def _not_here(name: str) -> NoReturn:
    raise Refused(None, f"a key-value server has no {name}: it is an operation of the in-network cache, by the file of its rack")
