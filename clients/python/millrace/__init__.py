"""Clients of millrace, in plain Python: a cluster's store (keys and transactions of a chain of replicas) and its in-network cache.

For example, with the file that the members have:

    from millrace import Cluster

    with Cluster.from_file("cluster.toml") as cluster:
        cluster.set("colour", b"blue")
        print(cluster.get("colour").value)

`Client` is the client of the in-network cache alone, with all its operations.
"""

from .client import Client, Item, Swap
from .cluster import Cluster
from .errors import Across, BadNumber, BadTopology, Claimed, MillraceError, NoRoom, NotDone, NotFound, Refused, Rejected, TooLong, Unknown
from .operations import Pending
from .shards import Shards
from .store import Store
from .topology import Topology
from .txn import Abort, Durability, Found, Outcome, State, Transaction, Why
from .wire import Status

__all__ = [
    "Abort", "Across", "BadNumber", "BadTopology", "Claimed", "Client", "Cluster", "Durability", "Found", "Item", "MillraceError", "NoRoom", "NotDone",
    "NotFound", "Outcome", "Pending", "Refused", "Rejected", "Shards", "State", "Status", "Store", "Swap", "TooLong", "Topology", "Transaction", "Unknown",
    "Why",
]  # fmt: skip
