"""What can be done with keys of a store, each operation as one transaction: of a chain, or of several."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Self

from .client import Swap
from .errors import BadNumber, MillraceError, NoRoom, TooLong
from .txn import Found, Key, Outcome, Transaction, Why


class Operations(ABC):
    """Of whoever does transactions."""

    @abstractmethod
    def execute(self, transaction: Transaction, deadline: float | None = None) -> Outcome:
        """Does a transaction, within `deadline` seconds. That it was aborted is an outcome, which is false."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: Key) -> Found | None:
        """The item of `key`; `None`: there is none."""
        return self.get_many([key])[0]

    def get_many(self, keys: Iterable[Key]) -> list[Found | None]:
        """The items of different keys, as they were at one moment."""
        asked = Transaction()
        for key in keys:
            asked.read(key)
        return list(self._done(asked).reads) if asked.reads else []

    def set(self, key: Key, value: bytes) -> int:
        """Stores, whatever is there; the version that it made."""
        return self._done(Transaction().put(key, value)).lsn

    def add(self, key: Key, value: bytes) -> int | None:
        """Stores where nothing is; `None`: something is."""
        return self._if_it_holds(Transaction().expect_absent(key).put(key, value))

    def replace(self, key: Key, value: bytes) -> int | None:
        """Stores where something is; `None`: nothing is."""
        return self._if_it_holds(Transaction().expect_exists(key).put(key, value))

    def cas(self, key: Key, version: int, value: bytes) -> Swap:
        """Stores where `version` is."""
        # Two conditions, so that the one that does not hold says which it was.
        outcome = self.execute(Transaction().expect_exists(key).expect_version(key, version).put(key, value))
        if outcome.abort is None:
            return Swap(outcome.lsn, True)
        if outcome.abort.why != Why.CONDITION:
            raise _of_abort(outcome)
        return Swap(None, outcome.abort.place != 0)

    def delete(self, key: Key) -> bool:
        """Removes; whether something was there."""
        return self._if_it_holds(Transaction().expect_exists(key).delete(key)) is not None

    def increment(self, key: Key, by: int = 1) -> int:
        """Adds to a number of 64 bits with a sign; the sum. Where nothing is, that counts as 0. Raises `BadNumber`, and changes nothing then."""
        sums = self._done(Transaction().add(key, by)).sums
        if not sums:
            raise MillraceError("the chain answered an addition without its sum")
        return sums[0]

    def decrement(self, key: Key, by: int = 1) -> int:
        """Subtracts, below 0 too. Else as `increment`."""
        return self.increment(key, -by)

    def transaction(self) -> "Pending":
        """A transaction, to be filled and committed."""
        return Pending(self)

    def _done(self, asked: Transaction) -> Outcome:
        """The outcome of what has no condition."""
        outcome = self.execute(asked)
        if outcome.abort is not None:
            raise _of_abort(outcome)
        return outcome

    def _if_it_holds(self, asked: Transaction) -> int | None:
        outcome = self.execute(asked)
        if outcome.abort is None:
            return outcome.lsn
        if outcome.abort.why != Why.CONDITION:
            raise _of_abort(outcome)
        return None


class Pending(Transaction):
    """A transaction of a store, which `commit` does: `store.transaction().expect_at_least("ann", 4).add("ann", -4).add("bob", 4).commit()`."""

    def __init__(self, store: Operations) -> None:
        super().__init__()
        self._store = store

    def commit(self, deadline: float | None = None) -> Outcome:
        """Does it, within `deadline` seconds. That it was aborted, because a condition does not hold, is an outcome, which is false."""
        return self._store.execute(self, deadline)


def _of_abort(outcome: Outcome) -> MillraceError:
    """What an abort means for an operation whose condition, if it has one, held."""
    assert outcome.abort is not None, "it was aborted"
    match outcome.abort.why:
        case Why.NOT_A_NUMBER:
            return BadNumber("not done: what is there is no number of 64 bits with a sign")
        case Why.OVERFLOW:
            return BadNumber("not done: the sum does not fit 64 bits with a sign")
        case Why.NO_ROOM:
            return NoRoom()
        case Why.LONG_REPLY:
            return TooLong()
    return MillraceError(f"an abort that is not understood: {outcome.abort.why.name}")


