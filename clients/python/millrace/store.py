"""Keys and transactions of a chain of replicas: durable, strictly serializable.

    reads       asked of the tail, and again of others, until the deadline: they change nothing
    writes      a session of the chain, then the write under its number, again and of others until the deadline: done once or not at all

Every operation ends by its deadline: with its outcome, as `NotDone`, or as `Unknown`: then `status` tells what became of it. Replicas that die,
move or join are followed: each that answers says who is in the chain, and when nobody can be reached they are looked for where they were
found first. docs/design/006-chain.md says why that is enough.

Where the home of boxes has claimed the chain a write that did not come by it is not done, and the chain remembers that; so it is asked for again under a
new number, at the home. Where the home is gone the chain is asked, under the same number: either is the answer. docs/design/011-durability.md.
"""

import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from . import txn
from .errors import MillraceError, NotDone, NotFound, Rejected, Unknown
from .fabric import Connection, Denied, Failed, Lost
from .find import Finder
from .operations import Operations
from .protobuf import Malformed
from .txn import Info, Outcome, Refusal, Refused, State, Status, Transaction, Why

_SERVICE = "millrace.Txn"
_ATTEMPT, _ATTEMPT_MAX = 0.5, 4.0
"""Seconds for one answer; twice that the next time."""
_PAUSE, _PAUSE_MAX = 0.01, 0.2
"""Seconds before a replica that is busy, or does not know who answers, is asked again."""
_CLAIMED = 16
"""Times that the chain may say that a home has claimed it, before that is the outcome."""
_MAX_REPLICAS = 64
_SEARCH_PAUSE = 0.5

_Reply = TypeVar("_Reply")


class Store(Operations):
    """A client of one chain. Threads may share it: one operation is under way at a time."""

    def __init__(self, finder: Finder, deadline: float = 10.0) -> None:
        """Of the chain that is found there. Operations end within `deadline` seconds. Raises `NotFound` where nobody is."""
        self.deadline = deadline
        self._finder = finder
        self._lock = threading.RLock()
        self._chain = finder.chain
        self._places: dict[int, str] = {}
        self._connections: dict[int, Connection] = {}
        self._order: list[int] = []
        self._epoch = -1
        self._head = self._tail = 0
        self._home: str | None = None
        """Where the home of boxes takes writes, if one has claimed the chain."""
        self._at_home: Connection | None = None
        self._session = b""
        self._sequence = 0
        self._searched = float("-inf")
        self._is_closed = False
        self._search(time.monotonic() + finder.timeout)

    def close(self) -> None:
        """Ends it; the chain forgets its session."""
        with self._lock:
            if self._session and not self._is_closed and (connection := self._connections.get(self._head)) is not None:
                try:
                    connection.call("Close", txn.session_request(self._session), time.monotonic() + _ATTEMPT)
                except (Lost, Failed):
                    pass  # The chain forgets it when it needs the room.
            self._is_closed = True
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()
            self._leave_home()

    @property
    def session(self) -> bytes:
        """The session that it writes in; empty before the first write. Whoever knows it can write in it."""
        return self._session

    @property
    def sequence(self) -> int:
        """The number of its last write in the session."""
        return self._sequence

    @property
    def replicas(self) -> dict[int, str]:
        """The replicas that it knows, and where they serve."""
        return dict(self._places)

    def execute(self, transaction: Transaction, deadline: float | None = None) -> Outcome:
        """Does a transaction, within `deadline` seconds. That it was aborted is an outcome, which is false."""
        with self._lock:
            self._check()
            until = time.monotonic() + (self.deadline if deadline is None else deadline)
            body = transaction.emit()
            return self._read(body, until) if transaction.only_reads else self._write(body, until)

    def status(self, session: bytes, sequence: int, deadline: float | None = None) -> Status:
        """What became of a write that ended as `Unknown`, of this program or another."""
        with self._lock:
            self._check()
            until = time.monotonic() + (self.deadline if deadline is None else deadline)
            asking = _Asking(self._head)
            said = self._ask("Status", txn.session_request(session, sequence), txn.status, asking, until)
            if isinstance(said, Status):
                return said
            if said is not None and said.why in (Refused.NO_SESSION, Refused.FORGOTTEN):
                return Status(State.FORGOTTEN)
            raise NotDone(f"nobody tells what became of it: {asking.trouble}")

    def _check(self) -> None:
        if self._is_closed:
            raise ValueError("the store was closed")

    def _read(self, body: bytes, until: float) -> Outcome:
        asking = _Asking(self._tail)
        said = self._ask("Execute", txn.request(b"", 0, body), txn.answer, asking, until)
        if isinstance(said, Outcome):
            self._tail = asking.whom
            return said
        if said is None:
            raise NotDone(f"not done, and it will not be: {asking.trouble}")
        raise Rejected(said.text or said.why.name)

    def _write(self, body: bytes, until: float) -> Outcome:
        claimed, pause = 0, _PAUSE
        while True:
            self._open_session(until)
            self._sequence += 1
            session, sequence, asking = self._session, self._sequence, _Asking(self._head)
            request = txn.request(session, sequence, body)
            said = self._ask_home(request, asking, until)
            is_of_home = said is not None
            if said is None:
                said = self._ask("Execute", request, txn.answer, asking, until)
            if isinstance(said, Outcome):
                self._head = self._head if is_of_home else asking.whom
                if said.abort is None or said.abort.why != Why.CLAIMED or claimed == _CLAIMED:
                    return said
                # Under this number it will not be done.
                claimed += 1
                if is_of_home:
                    # It was replaced; the chain knows by whom.
                    self._leave_home()
                    continue
                if claimed > 1:
                    pause = self._rest(pause, until)
                if not self._find_home(until):
                    return said
                continue
            unknown = Unknown(asking.trouble, session, sequence)
            if said is None:
                if asking.sent == 0:
                    raise NotDone(f"not done, and it will not be: {asking.trouble}")
                raise unknown
            # An earlier copy may have met other rights, and been done.
            if said.why == Refused.MALFORMED or said.why == Refused.DENIED and asking.sent <= 1:
                raise Rejected(said.text)
            if said.why == Refused.NO_SESSION:
                self._session = b""
                if asking.sent == 1:
                    # The one copy that was sent is the one that was refused: in a new session it is done once.
                    continue
            # An earlier copy may have been done before it was forgotten.
            raise unknown

    def _ask_home(self, request: bytes, asking: "_Asking", until: float) -> Outcome | Refusal | None:
        """What the home of boxes answers; `None` where there is none, or it is gone: then the chain is asked."""
        pause = _PAUSE
        while self._home is not None and (now := time.monotonic()) < until:
            try:
                if self._at_home is None or not self._at_home.is_open:
                    self._at_home = Connection(self._home, _SERVICE, min(until, now + self._finder.timeout), self._finder.tls)
                asking.sent += 1
                # It may wait for boxes: while it lives, so do we.
                said = txn.answer(self._at_home.call("Execute", request, until))
            except Denied as cause:
                return asking.denied(cause)
            except (Lost, Failed, Malformed) as cause:
                asking.trouble = f"the home at {self._home}: {cause}"
                self._leave_home()
                return None
            if isinstance(said, Refusal) and said.why == Refused.ELSEWHERE:
                self._leave_home()
                return None
            if isinstance(said, Outcome) or said.why != Refused.BUSY:
                return said
            asking.trouble = f"the home at {self._home}: {said.text or said.why.name}"
            pause = self._rest(pause, until)
        return None

    def _find_home(self, until: float) -> bool:
        """Looks where the home is that has claimed the chain. False where nobody says; one that has gone meanwhile is none."""
        try:
            found = self._read(Transaction().read(txn.CLAIM).emit(), until).reads
        except (NotDone, Rejected):
            return False
        self._leave_home()
        if found and found[0] is not None:
            self._home = txn.home_of(found[0].value)
            return self._home is not None
        return True

    def _leave_home(self) -> None:
        if self._at_home is not None:
            self._at_home.close()
        self._home = self._at_home = None

    def _open_session(self, until: float) -> None:
        if self._session:
            return
        asking = _Asking(self._head)
        said = self._ask("Open", b"", txn.opened, asking, until)
        if said is None or isinstance(said, Refusal):
            raise NotDone(f"not done, and it will not be: {asking.trouble if said is None else said.text}")
        self._head = asking.whom
        self._session, _ = said
        self._sequence = 0

    def _ask(
        self, method: str, body: bytes, parse: Callable[[bytes], _Reply], asking: "_Asking", until: float
    ) -> _Reply | Refusal | None:
        """What a replica answers, whichever may; a refusal for good; or `None`: nobody answered by then."""
        timeout, pause, failures, hops = _ATTEMPT, _PAUSE, 0, 0
        while (now := time.monotonic()) < until:
            whom = asking.whom
            try:
                connection = self._connection(whom, until)
                asking.sent += 1
                said: Any = parse(connection.call(method, body, min(until, now + timeout)))
            except Denied as cause:
                return asking.denied(cause)
            except (Lost, Failed, Malformed) as cause:
                asking.trouble = f"replica {whom} at {self._places.get(whom, '?')}: {cause}"
                if not isinstance(cause, Failed):
                    self._drop(whom)
                timeout, failures = min(2 * timeout, _ATTEMPT_MAX), failures + 1
                asking.whom = self._after(whom)
                if failures % max(1, len(self._places)) == 0:
                    # All were asked: perhaps there are others now.
                    self._search_again(until)
                    pause = self._rest(pause, until)
                continue
            if not isinstance(said, Refusal) or said.why not in (Refused.ELSEWHERE, Refused.BUSY):
                return said
            asking.trouble = f"replica {whom}: {said.text or said.why.name}"
            if said.why == Refused.BUSY:
                pause = self._rest(pause, until)
            elif said.replica in self._places and said.replica != whom and hops < 4:
                asking.whom, hops = said.replica, hops + 1
            else:
                if said.replica not in self._places:
                    self._search_again(until)
                known = said.replica in self._places and said.replica != whom
                asking.whom, hops = said.replica if known and said.replica else self._after(whom), 0
                pause = self._rest(pause, until)
        return None

    def _rest(self, pause: float, until: float) -> float:
        time.sleep(max(0.0, min(pause, until - time.monotonic())))
        return min(2 * pause, _PAUSE_MAX)

    def _connection(self, replica: int, until: float) -> Connection:
        """A connection to a replica, made if there is none; raises `Lost`."""
        connection = self._connections.get(replica)
        if connection is not None and connection.is_open and not connection.is_draining:
            return connection
        self._drop(replica)
        address = self._places.get(replica)
        if address is None:
            raise Lost("nobody knows where it is")
        until = min(until, time.monotonic() + self._finder.timeout)
        connection, info = _opened(address, until, self._finder.tls)
        if info.replica != replica or info.chain != self._chain:
            connection.close()
            raise Lost(f"replica {info.replica} of chain {info.chain} is there")
        self._connections[replica] = connection
        self._learn(info)
        return connection

    def _drop(self, replica: int) -> None:
        if (connection := self._connections.pop(replica, None)) is not None:
            connection.close()

    def _after(self, replica: int) -> int:
        """Whom to ask instead, in the order of the chain."""
        known = [*(member for member in self._order if member in self._places)]
        known += [other for other in self._places if other not in known]
        if replica not in known:
            return known[0]
        return known[(known.index(replica) + 1) % len(known)]

    def _learn(self, info: Info) -> None:
        """Hears of who is in the chain."""
        if info.epoch < self._epoch:
            return
        if info.epoch > self._epoch:
            serving = [member.replica for member in info.members if not member.syncing]
            if serving:
                self._head, self._tail = serving[0], serving[-1]
        self._epoch = info.epoch
        self._order = [member.replica for member in info.members]
        for member in info.members:
            if member.address and member.replica not in self._connections:
                self._meet(member.replica, member.address)

    def _meet(self, replica: int, address: str) -> None:
        if replica not in self._places and len(self._places) >= _MAX_REPLICAS:
            # Who is not in the chain any more makes room.
            gone = next((known for known in self._places if known not in self._order), None)
            if gone is None:
                return
            self._drop(gone)
            del self._places[gone]
        self._places[replica] = address

    def _search_again(self, until: float) -> None:
        """Looks for replicas anew, where they were found first; not too often, and without complaint."""
        if time.monotonic() < self._searched + _SEARCH_PAUSE:
            return
        try:
            self._search(until)
        except MillraceError:
            pass

    def _search(self, until: float) -> None:
        """Looks for replicas; raises `NotFound` where none answers."""
        self._searched = time.monotonic()
        failures = []
        # A source that is silent must not take more than what is left.
        timeout = max(0.01, min(self._finder.timeout, until - self._searched))
        for address in replace(self._finder, timeout=timeout).addresses():
            try:
                connection, info = _opened(address, min(until, time.monotonic() + self._finder.timeout), self._finder.tls)
            except (Lost, Failed, Malformed) as cause:
                failures.append(f"{address}: {cause}")
                continue
            if self._chain not in (None, info.chain):
                connection.close()
                raise NotFound(f"{address} is a replica of chain {info.chain}, and not of {self._chain}")
            self._chain = info.chain
            self._drop(info.replica)
            self._meet(info.replica, address)
            self._connections[info.replica] = connection
            if self._head == 0:
                self._head = self._tail = info.replica
            self._learn(info)
            # One that lives is enough: it tells of the others.
            return
        raise NotFound("no replica was reached: " + "; ".join(failures))


class _Asking:
    """How an operation goes."""

    def __init__(self, whom: int) -> None:
        self.whom = whom
        self.sent = 0
        """Copies that may have arrived."""
        self.trouble = "no replica answered in time"

    def denied(self, cause: Denied) -> Refusal:
        """There is no right to it, which is for good."""
        self.trouble = str(cause)
        return Refusal(Refused.DENIED, None, str(cause))


def _opened(address: str, until: float, tls: ssl.SSLContext | None) -> tuple[Connection, Info]:
    """A connection, and what the replica there says of itself."""
    connection = Connection(address, _SERVICE, until, tls)
    try:
        return connection, Info.parse(connection.call("Info", b"", until))
    except BaseException:
        connection.close()
        raise
