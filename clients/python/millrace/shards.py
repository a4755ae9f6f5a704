"""A client of all chains of a cluster: a transaction goes to the one that has the slots of its keys.

There is no agreement between chains: a transaction over two of them raises `Across`, and nothing is sent. A chain that nobody answers for is looked for again
when a key of its own is asked for; the others' keys do not wait for it.
"""

import ssl
from dataclasses import replace
from pathlib import Path
from threading import RLock

from . import slots
from .errors import Across, MillraceError, NotDone, NotFound
from .find import Chain, Finder, file
from .operations import Operations
from .store import Store
from .txn import Key, Outcome, State, Status, Transaction, as_key


class Shards(Operations):
    """Threads may share it: one operation of each chain is under way at a time."""

    def __init__(self, path: str | Path, chains: list[Chain], deadline: float = 10.0, timeout: float = 2.0, tls: ssl.SSLContext | None = None) -> None:
        """Of these chains of the file. Raises `NotFound` where nobody of any is."""
        self.deadline = deadline
        self._finder = Finder([file(path)], None, timeout, tls)
        self._of = slots.table({chain.number: chain.slots for chain in chains})
        self._stores: dict[int, Store | None] = {chain.number: None for chain in chains}
        self._locks = {chain.number: RLock() for chain in chains}
        self._is_closed = False
        failures = []
        for chain in chains:
            try:
                self.store_of(chain.number)
            except NotFound as cause:
                failures.append(str(cause))
        if len(failures) == len(chains):
            raise NotFound("; ".join(failures))

    @property
    def chains(self) -> list[int]:
        """The numbers of its chains."""
        return list(self._stores)

    def chain_of(self, key: Key) -> int:
        """The number of the chain that a key is in; of what is each chain's own, of the first."""
        at = slots.slot(as_key(key))
        return self.chains[0] if at is None else self._of[at]

    def store_of(self, chain: int) -> Store:
        """The store of one chain; raises `NotFound`."""
        with self._locks[chain]:
            if self._is_closed:
                raise ValueError("the store was closed")
            store = self._stores[chain]
            if store is None:
                store = self._stores[chain] = Store(replace(self._finder, chain=chain), self.deadline)
            return store

    def execute(self, transaction: Transaction, deadline: float | None = None) -> Outcome:
        """Does a transaction in the chain that has all of its keys. Raises `Across` where two have, and else as `Store.execute`."""
        store = self.store_of(self._route(transaction))
        return store.execute(transaction, self.deadline if deadline is None else deadline)

    def status(self, session: bytes, sequence: int, deadline: float | None = None) -> Status:
        """What became of a write that ended as `Unknown`: as the chain says that knows the session."""
        silent: MillraceError | None = None
        for chain in self.chains:
            try:
                said = self.store_of(chain).status(session, sequence, self.deadline if deadline is None else deadline)
            except (NotFound, NotDone) as cause:
                silent = cause
                continue
            if said.state != State.FORGOTTEN:
                return said
        if silent is not None:
            raise NotDone(f"nobody tells what became of it: {silent}")
        return Status(State.FORGOTTEN)

    def close(self) -> None:
        """Ends it."""
        self._is_closed = True
        for chain, lock in self._locks.items():
            with lock:
                if (store := self._stores[chain]) is not None:
                    store.close()

    def _route(self, transaction: Transaction) -> int:
        found: tuple[bytes, int] | None = None
        for key in transaction.keys():
            if slots.slot(key) is None:
                continue
            chain = self.chain_of(key)
            if found is not None and found[1] != chain:
                raise Across((found[0], key), (found[1], chain))
            found = (key, chain)
        # What no chain takes, each refuses.
        return self.chains[0] if found is None else found[1]
