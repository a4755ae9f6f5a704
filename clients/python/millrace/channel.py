"""Calls of RPC over shared memory, and over any other transport of the fabric, by libmillrace; with stubs that protoc made for gRPC.

    import millrace, shop_pb2, shop_pb2_grpc

    with millrace.Channel("shm:/run/shop.sock") as channel:
        reply = shop_pb2_grpc.CartStub(channel).Add(shop_pb2.Item(name="tea"), timeout=1)

A `tcp:` or `tls:` port of a server speaks gRPC as well: there `grpc.insecure_channel("HOST:PORT")` does, with the same stubs, and with streams.
"""

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

from . import library
from .errors import MillraceError, NotFound
from .library import Code

_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""Of gRPC, by their numbers."""

Pairs = Sequence[tuple[str, str | bytes]]
"""Metadata: names and values."""


class CallFailed(MillraceError):
    """A call did not end with a reply. Where gRPC is imported, it is a `grpc.RpcError` as well."""

    def __init__(self, number: int, details: str, is_lost: bool) -> None:
        super().__init__(f"{_name(number)}: {details}" + ("; it may have taken effect" if is_lost else ""))
        self._number = number
        self._details = details
        self.is_lost = is_lost
        """The connection broke: the call may have taken effect."""

    def code(self) -> Any:
        """gRPC's status code: of `grpc.StatusCode` where gRPC is imported, else its name."""
        grpc = sys.modules.get("grpc")
        return _name(self._number) if grpc is None else getattr(grpc.StatusCode, _name(self._number))

    def details(self) -> str:
        """Why, in English."""
        return self._details


def _name(number: int) -> str:
    return _CODES[number] if number < len(_CODES) else "UNKNOWN"


@functools.cache
def _failure_of_grpc(error: type) -> type[CallFailed]:
    return type("CallFailed", (CallFailed, error), {"__doc__": CallFailed.__doc__})


def _failed(number: int, details: str, is_lost: bool) -> CallFailed:
    grpc = sys.modules.get("grpc")
    kind = CallFailed if grpc is None else _failure_of_grpc(grpc.RpcError)
    return kind(number, details, is_lost)


class Channel:
    """A channel to a server of the fabric, as stubs of gRPC want one. Threads may share it: one call is under way at a time. It connects again when its
    server comes back; a call that was lost is not repeated."""

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 5.0,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: tuple[str, str] | None = None,
    ) -> None:
        """To `shm:PATH`, `unix:PATH`, `tcp:HOST:PORT`, `tls:HOST:PORT` or `udp:HOST:PORT`; `timeout` is of connecting, and of calls that say none."""
        self._library = library.library()
        self._lock = threading.Lock()
        self._reply = library.Reply()
        self._channel: ctypes.c_void_p | None = None
        channel = ctypes.c_void_p()
        options = library.options(timeout, tls_ca, tls_cert)
        code = self._library.millrace_channel_open(address.encode(), ctypes.byref(options), ctypes.byref(channel))
        if code != Code.OK:
            why = self._library.millrace_channel_error(None).decode()
            raise ValueError(why) if code == Code.ARGUMENT else NotFound(why)
        self._channel = channel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_channel", None) is not None:
            self.close()

    def close(self) -> None:
        """Ends it."""
        with self._lock:
            channel, self._channel = self._channel, None
            if channel is not None:
                self._library.millrace_channel_close(channel)

    def call(self, method: str, body: bytes, timeout: float | None = None, metadata: Pairs = ()) -> bytes:
        """Calls a unary method, as `/shop.Cart/Add`, with an encoded message; the encoded reply. Else it raises `CallFailed`."""
        milliseconds = 0 if timeout is None else library.milliseconds(timeout)
        values = [(key.encode(), value.encode() if isinstance(value, str) else value) for key, value in metadata]
        pairs = (library.Metadata * len(values))(*(library.Metadata(key, value, len(value)) for key, value in values)) if values else None
        with self._lock:
            if self._channel is None:
                raise ValueError("the channel was closed")
            reply = self._reply
            code = self._library.millrace_call(
                self._channel, method.encode(), body, len(body), pairs, len(values), milliseconds, ctypes.byref(reply)
            )
            if code != Code.OK:
                why = self._library.millrace_channel_error(self._channel).decode()
                raise ValueError(why) if code == Code.ARGUMENT else MillraceError(why)
            if reply.code != 0:
                raise _failed(reply.code, reply.message.decode(), bool(reply.is_lost))
            return ctypes.string_at(reply.body, reply.body_len)

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> "Unary":
        """What a stub calls."""
        return Unary(self, method, request_serializer or bytes, response_deserializer or bytes)

    def unary_stream(self, method: str, *_: object, **__: object) -> "Stream":
        """A stub may have it; calls of it are refused."""
        return Stream(method)

    def stream_unary(self, method: str, *_: object, **__: object) -> "Stream":
        """A stub may have it; calls of it are refused."""
        return Stream(method)

    def stream_stream(self, method: str, *_: object, **__: object) -> "Stream":
        """A stub may have it; calls of it are refused."""
        return Stream(method)


class Unary:
    """A method with one request and one reply."""

    def __init__(
        self, channel: Channel, method: str, serializer: Callable[[Any], bytes], deserializer: Callable[[bytes], Any]
    ) -> None:
        self._channel = channel
        self._method = method
        self._serializer = serializer
        self._deserializer = deserializer

    def __call__(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Pairs | None = None,
        credentials: object = None,
        wait_for_ready: bool | None = None,
        compression: object = None,
    ) -> Any:
        """The reply. Credentials and compression are of gRPC's own connections, and refused here."""
        if credentials is not None or compression is not None:
            raise ValueError("credentials and compression are of gRPC's connections: use grpc.secure_channel at the server's tcp: or tls: port")
        body = self._serializer(request)
        return self._deserializer(self._channel.call(self._method, body, timeout, metadata or ()))


class Stream:
    """A method with a stream, which goes by gRPC alone."""

    def __init__(self, method: str) -> None:
        self._method = method

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise _failed(
            _CODES.index("UNIMPLEMENTED"),
            f"{self._method} streams, which this channel does not: use grpc.insecure_channel at the server's tcp: port, which speaks gRPC",
            False,
        )
