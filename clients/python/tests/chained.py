"""Replicas that say what a test tells them to, at ports of their own: the fabric's wire from the server's side."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable

from millrace.fabric import Frame, emit, parse
from millrace.protobuf import Writer, data, fields, number
from millrace.txn import Refused

METHODS = ["Execute", "Open", "Close", "Status", "Info", "Export"]
SESSION = b"0123456789abcdef"


class Hangs(Exception):
    """The call is not answered."""


class Ends(Exception):
    """The connection ends instead of an answer."""


class Denies(Exception):
    """The call is answered with PERMISSION_DENIED, and this text."""


Answer = Callable[[str, bytes], bytes]
"""The reply to a method's request; or it raises what happens instead."""


def welcome() -> bytes:
    """The first frame of a server with one service."""
    name = b"millrace.Txn"
    body = struct.pack("<H16sQII", 1, bytes(16), 1, 16, 16) + struct.pack("<H", 1)
    body += struct.pack("<H", len(name)) + name + bytes(8) + struct.pack("<H", len(METHODS))
    for index, method in enumerate(METHODS):
        body += struct.pack("<H", len(method)) + method.encode() + struct.pack("<HB", 10 + index, 0)
    return emit(2, body)


class Replica:
    """A listener, and a thread for each connection."""

    def __init__(self, replica: int, answer: Answer, chain: int = 7, tls: ssl.SSLContext | None = None) -> None:
        self.replica, self.chain, self.answer = replica, chain, answer
        self.epoch = 1
        self.members: list[tuple[int, str]] = []
        self.heard: list[tuple[str, bytes]] = []
        self.pings = 0
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._tls = tls
        self.address = f"{'tcp' if tls is None else 'tls'}:127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Closes all of it. What connects then is refused."""
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # It has ended before.
            connection.close()

    def asked(self, method: str) -> list[bytes]:
        """The requests of this method, in their order."""
        return [body for heard, body in self.heard if heard == method]

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._tls is not None:
                try:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                except OSError:
                    connection.close()
                    continue
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = connection.makefile("rb")
        try:
            while head := reader.read(4):
                frame = parse(reader.read(*struct.unpack("<I", head)))
                if frame.kind == 1:
                    # A ping that overtakes nothing: whoever waits for the answer to a call has to answer it.
                    connection.sendall(welcome() + emit(10, aux=77))
                elif frame.kind == 11:
                    self.pings += frame.aux == 77
                elif frame.kind == 4:
                    self._reply(connection, frame)
        except (OSError, ValueError, Ends):
            pass
        finally:
            reader.close()
            connection.close()

    def _reply(self, connection: socket.socket, frame: Frame) -> None:
        method = METHODS[frame.method - 10]
        if method == "Info":
            connection.sendall(emit(7, self.info(), call=frame.call))
            return
        self.heard.append((method, frame.body))
        try:
            connection.sendall(emit(7, self.answer(method, frame.body), call=frame.call))
        except Hangs:
            pass
        except Denies as why:
            connection.sendall(emit(7, str(why).encode(), method=7, call=frame.call))

    def info(self) -> bytes:
        """What it says of itself."""
        out = Writer()
        out.number(1, self.chain)
        out.number(2, self.replica)
        out.number(4, self.epoch)
        for replica, address in self.members or [(self.replica, self.address)]:
            member = Writer()
            member.number(1, replica)
            member.data(4, address.encode())
            out.data(5, member.done())
        return out.done()


def opened(session: bytes = SESSION) -> bytes:
    """A session, with room for 64."""
    out = Writer()
    out.data(1, session)
    out.number(2, 64)
    return out.done()


def outcome(lsn: int = 9, sums: tuple[int, ...] = ()) -> bytes:
    """It was done."""
    out = Writer()
    out.number(1, lsn)
    for total in sums:
        out.signed(4, total, always=True)
    out.number(6, 3)
    return out.done()


def done(lsn: int = 9, sums: tuple[int, ...] = ()) -> bytes:
    """The same, as `Execute` answers it."""
    out = Writer()
    out.data(1, outcome(lsn, sums), always=True)
    return out.done()


def refused(why: Refused, replica: int | None = None, field: int = 2) -> bytes:
    """It was not answered here; in `Open` and `Status` that is field 3."""
    refusal = Writer()
    refusal.number(1, why)
    if replica is not None:
        refusal.number(2, replica, always=True)
    refusal.data(4, why.name.lower().encode())
    out = Writer()
    out.data(field, refusal.done())
    return out.done()


def numbers(request: bytes) -> tuple[bytes, int]:
    """Session and sequence of a request."""
    session, sequence = b"", 0
    for field, value in fields(request):
        if field == 1:
            session = data(value)
        elif field == 2:
            sequence = number(value)
    return session, sequence
