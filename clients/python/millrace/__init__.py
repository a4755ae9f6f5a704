"""A client of millrace's in-network cache, in plain Python.

For example, with the file that the nodes have:

    from millrace import Client

    with Client("rack.toml") as cache:
        cache.set("colour", b"blue", life=60)
        print(cache.get("colour").value)
"""

from .client import Client, Item, Swap
from .errors import BadTopology, MillraceError, NotDone, Refused, Unknown
from .topology import Topology
from .wire import Status

__all__ = [
    "BadTopology", "Client", "Item", "MillraceError", "NotDone", "Refused", "Status", "Swap", "Topology", "Unknown",
]  # fmt: skip
