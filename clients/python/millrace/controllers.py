"""The file of a cluster as the controllers of its rack have it: `GET /topology` of their admin ports, with homes where they are now.

Wherever a client takes the path of a file it takes `http://HOST:PORT[,HOST:PORT…]` as well, or `https://`. All are asked at once, and the first that has the file is believed.
"""

import os
import queue
import ssl
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from . import find
from .errors import BadTopology, NotFound

KEY = "MILLRACE_CLIENT_KEY"
"""The variable that says where a client has its key, whose file is a controller's."""
TIMEOUT = 2.0
"""Seconds for all of them, unless somebody says another time."""
_MOST = 16
_PAGE_BYTES = 1 << 20
_T = TypeVar("_T")


def named(file: str | Path) -> list[str] | None:
    """The URLs of controllers, where these are given as the file; `None`: it is a path. Raises `BadTopology`."""
    text = str(file)
    scheme, found, _ = text.partition("://")
    if not isinstance(file, str) or not found or not scheme.isalnum():
        return None
    if scheme == "etcd":
        raise BadTopology(f"{text!r}: a rack is not in etcd, only its file and its controllers know it: write http://HOST:PORT of a controller's admin port")
    if scheme not in ("http", "https"):
        raise BadTopology(f"{text!r} is no controller's admin port: write http://HOST:PORT or https://HOST:PORT")
    # What is said of the first counts for those behind it that say nothing.
    return urls(place if "://" in place else f"{scheme}://{place.strip()}" for place in text.split(","))


def urls(places: Iterable[str], tls: ssl.SSLContext | None = None) -> list[str]:
    """Of `HOST:PORT`, by https where somebody's certificates are believed, or URLs; raises `BadTopology`."""
    found = []
    for place in places:
        said, found_scheme, rest = place.strip().rstrip("/").rpartition("://")
        host, _, port = rest.split("/")[0].rpartition(":")
        is_host = bool(host) and (host.startswith("[") or ":" not in host) and "@" not in host
        if not (is_host and port.isdecimal() and 0 < int(port) < 1 << 16 and rest.isascii() and rest.isprintable()) or said not in ("", "http", "https"):
            raise BadTopology(f"{place!r} is no controller's admin port: write HOST:PORT, as its --admin says")
        found.append(f"{said if found_scheme else find.scheme(tls)}://{rest}")
    if not 0 < len(found) <= _MOST:
        raise BadTopology(f"{len(found)} controllers: name between 1 and {_MOST}")
    return found


def text(places: list[str], timeout: float = TIMEOUT, tls: ssl.SSLContext | None = None) -> str:
    """The file's text; raises `NotFound` where none of them has it."""
    return first(places, timeout, lambda text: text, tls)


def first(places: list[str], timeout: float, read: Callable[[str], _T], tls: ssl.SSLContext | None = None) -> _T:
    """What `read` makes of the first text that it makes something of; raises `NotFound`."""
    answers: queue.SimpleQueue[tuple[str, str | Exception]] = queue.SimpleQueue()
    for place in places:
        threading.Thread(target=lambda place=place: answers.put((place, _ask(place, timeout, tls))), daemon=True).start()
    failures = []
    for _ in places:
        place, said = answers.get()
        try:
            if isinstance(said, Exception):
                raise said
            return read(said)
        except (NotFound, BadTopology, OSError) as cause:
            failures.append(f"the controller at {place}: {cause}")
    raise NotFound("; ".join(failures))


def has_file(place: str, timeout: float = TIMEOUT, tls: ssl.SSLContext | None = None) -> bool | None:
    """Whether the controller there has the file; `None`: it does not answer."""
    try:
        return find.asked(f"{place}/topology", timeout, _PAGE_BYTES, tls)[0] == 200
    except (NotFound, OSError):
        return None


def key_here() -> Path | None:
    """Where this machine has the clients' key, if somebody says so."""
    here = os.environ.get(KEY)
    return Path(here) if here else None


def _ask(place: str, timeout: float, tls: ssl.SSLContext | None) -> str | Exception:
    try:
        status, page = find.asked(f"{place}/topology", timeout, _PAGE_BYTES, tls)
        if status != 200:
            return NotFound(f"{status} for /topology: is this the admin port of a rack's controller?")
        return page.decode()
    except (NotFound, OSError, UnicodeDecodeError) as cause:
        return cause if isinstance(cause, NotFound | OSError) else NotFound("what is there is no text")
