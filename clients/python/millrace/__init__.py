"""Clients of millrace: of one key-value server, of a cluster's store (keys and transactions of a chain of replicas) and of its in-network cache.

For example, with the file that the members have:

    from millrace import Cluster

    with Cluster.from_file("cluster.toml") as cluster:
        cluster.set("colour", b"blue")
        print(cluster.get("colour").value)

`Client` is the client of a key-value server by its address, `Client("shm:/run/millrace.shm")`, or of the in-network cache alone, with all its operations.
`Channel` calls methods of RPC. Servers and channels are reached by libmillrace; all else is plain Python.
"""

from pkgutil import extend_path

from .channel import CallFailed, Channel
from .client import Client, Item, Swap
from .cluster import Cluster
from .errors import Across, BadNumber, BadTopology, Claimed, MillraceError, NoRoom, NotDone, NotFound, Refused, Rejected, TooLong, Unknown
from .operations import Pending
from .server import Server
from .shards import Shards
from .store import Store
from .topology import Topology
from .txn import Abort, Durability, Found, Outcome, State, Transaction, Why
from .wire import Status

# protoc makes `millrace/options_pb2.py` of .proto files with our options, which stubs import from here.
__path__ = extend_path(__path__, __name__)

__all__ = [
    "Abort", "Across", "BadNumber", "BadTopology", "CallFailed", "Channel", "Claimed", "Client", "Cluster", "Durability", "Found", "Item", "MillraceError", "NoRoom", "NotDone",
    "NotFound", "Outcome", "Pending", "Refused", "Rejected", "Server", "Shards", "State", "Status", "Store", "Swap", "TooLong", "Topology", "Transaction", "Unknown",
    "Why",
]  # fmt: skip
