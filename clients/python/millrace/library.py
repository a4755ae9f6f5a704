"""libmillrace, the client library in C, which speaks to servers over shared memory and sockets: where it is, and its functions as ctypes has them.

Its header, `millrace.h`, says what each function does. Looked for, in this order: the file that MILLRACE_LIB names, beside this package, where the
system has libraries. Nothing is loaded before a client wants it.
"""

import ctypes
import functools
import os
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from enum import IntEnum
from pathlib import Path

from .errors import NotFound

VERSION = "0.2"
"""Of libmillrace that this package knows: programs for one do not run with another."""

_SONAME = f"libmillrace.so.{VERSION}"


class Code(IntEnum):
    """How a function ended: `enum millrace_status`."""

    OK = 0
    NOT_FOUND = 1
    NOT_STORED = 2
    EXISTS = 3
    ARGUMENT = -1
    UNREACHABLE = -2
    GONE = -3
    TIMED_OUT = -4
    BUSY = -5
    FULL = -6
    TOO_LARGE = -7
    NOT_A_NUMBER = -8
    LOGIN = -9
    REFUSED = -10
    PROTOCOL = -11
    INTERNAL = -12


class Options(Structure):
    """`millrace_options`."""

    _fields_ = [("timeout_ms", c_uint32), ("tls_ca", c_char_p), ("tls_cert", c_char_p), ("tls_key", c_char_p)]


class Item(Structure):
    """`millrace_item`."""

    _fields_ = [("value", c_void_p), ("value_len", c_size_t), ("version", c_uint64), ("flags", c_uint32)]


class Key(Structure):
    """`millrace_key`."""

    _fields_ = [("key", c_char_p), ("key_len", c_size_t)]


class Metadata(Structure):
    """`millrace_metadata`."""

    _fields_ = [("key", c_char_p), ("value", c_char_p), ("value_len", c_size_t)]


class Reply(Structure):
    """`millrace_reply`."""

    _fields_ = [("code", c_uint32), ("is_lost", c_uint32), ("body", c_void_p), ("body_len", c_size_t), ("message", c_char_p)]


_BYTES = (c_char_p, c_size_t)
_STORE = (c_void_p, *_BYTES, *_BYTES, c_uint32, c_int64)
_READ = (c_void_p, *_BYTES, POINTER(Item))
_COUNT = (c_void_p, *_BYTES, c_uint64, POINTER(c_uint64))
_OPEN = (c_char_p, POINTER(Options), POINTER(c_void_p))

_SIGNATURES: dict[str, tuple[object, ...]] = {
    "open": _OPEN,
    "close": (c_void_p,),
    "set_timeout": (c_void_p, c_uint32),
    "login": (c_void_p, c_char_p, c_char_p),
    "get": _READ,
    "gets": _READ,
    "gat": (c_void_p, *_BYTES, c_int64, POINTER(Item)),
    "multi_get": (c_void_p, POINTER(Key), c_size_t, POINTER(Item)),
    "set": _STORE,
    "add": _STORE,
    "replace": _STORE,
    "cas": (*_STORE, c_uint64),
    "append": (c_void_p, *_BYTES, *_BYTES),
    "prepend": (c_void_p, *_BYTES, *_BYTES),
    "delete": (c_void_p, *_BYTES),
    "touch": (c_void_p, *_BYTES, c_int64),
    "incr": _COUNT,
    "decr": _COUNT,
    "channel_open": _OPEN,
    "channel_close": (c_void_p,),
    "call": (c_void_p, c_char_p, *_BYTES, POINTER(Metadata), c_size_t, c_uint32, POINTER(Reply)),
}
"""Functions that end with a status, without `millrace_`, and what they take."""

_TEXTS: dict[str, tuple[object, ...]] = {"error": (c_void_p,), "channel_error": (c_void_p,), "strerror": (c_int,), "version": ()}
"""Those that end with a text."""


@functools.cache
def library() -> ctypes.CDLL:
    """The library, loaded once."""
    loaded, tried = None, []
    for place in _places():
        try:
            loaded = ctypes.CDLL(place)
            break
        except OSError as error:
            tried.append(str(error))
    if loaded is None:
        raise NotFound(
            f"shared memory and sockets of servers need {_SONAME}, which was not found ({'; '.join(tried)}): install millrace's package, or build it with "
            "`cargo build --release -p millrace-client-c` and say MILLRACE_LIB=target/release/libmillrace.so"
        )
    for names, result in ((_SIGNATURES, c_int), (_TEXTS, c_char_p)):
        for name, takes in names.items():
            function = getattr(loaded, f"millrace_{name}")
            function.argtypes, function.restype = takes, result
    version = loaded.millrace_version().decode()
    if not version.startswith(f"{VERSION}."):
        raise NotFound(f"{loaded._name} is libmillrace {version}, and this package is for {VERSION}: install both of one release")
    return loaded


def _places() -> list[str]:
    named = os.environ.get("MILLRACE_LIB")
    if named:
        return [named]
    return [str(Path(__file__).with_name(_SONAME)), str(Path(__file__).with_name("libmillrace.so")), _SONAME]


def options(timeout: float, tls_ca: str | os.PathLike[str] | None, tls_cert: tuple[str, str] | None) -> Options:
    """How a session or a channel is opened."""
    cert, key = tls_cert or (None, None)
    return Options(milliseconds(timeout), _path(tls_ca), _path(cert), _path(key))


def milliseconds(seconds: float) -> int:
    """A timeout as the library has it, which takes 0 for its own default."""
    if not seconds > 0:
        raise ValueError("a timeout is longer than 0 seconds")
    return max(1, min(int(seconds * 1000), 0xFFFFFFFF))


def _path(path: str | os.PathLike[str] | None) -> bytes | None:
    return None if path is None else os.fsencode(path)
