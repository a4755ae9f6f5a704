"""A meta-protocol client (PyPI meta-memcache) against a node on 127.0.0.1: arguments are its port, the bytes of a large
value, and whether it is a proxy, whose versions have more bits than this client reads: it takes them for none.

Prints "meta client: all is well" at the end; anything unexpected raises.
"""

import sys

from meta_memcache import CacheClient, Key, ServerAddress, connection_pool_factory_builder
from meta_memcache.configuration import LeasePolicy, RecachePolicy, StalePolicy
from meta_memcache.protocol import SetMode

# Seconds for an answer. By itself this client waits one; a chain of which no controller leads does not read for the four that another takes to take over.
PATIENCE = 30.0

c = CacheClient.cache_client_from_servers(
    [ServerAddress("127.0.0.1", int(sys.argv[1]))],
    connection_pool_factory_builder(connection_timeout=PATIENCE, recv_timeout=PATIENCE),
)


def check(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


# Values of several types; keys that travel as base64; a large value.
check(c.get(key=Key("absent")), None, "miss")
for name, value in [("text", "hello"), ("bytes", b"\r\nEND\r\n\0\xff"), ("number", 42), ("dict", {"a": [1, 2]})]:
    check(c.set(key=Key(name), value=value, ttl=100), True, f"set {name}")
    check(c.get(key=Key(name)), value, f"get {name}")
unicode = Key("schlüssel mit leerzeichen")
check(c.set(key=unicode, value="ok", ttl=100), True, "set of a binary key")
check(c.get(key=unicode), "ok", "get of a binary key")
large = (bytes(range(256)) * 3000)[: int(sys.argv[2])]
check(c.set(key=Key("large"), value=large, ttl=100), True, "large set")
check(c.get(key=Key("large")), large, "large get")

# Many at once: pipelined.
for i in range(200):
    check(c.set(key=Key(f"many{i}"), value=i, ttl=100), True, "set")
many = c.multi_get(keys=[Key(f"many{i}") for i in range(300)])
check([many[Key(f"many{i}")] for i in range(300)], [*range(200), *[None] * 100], "multi_get")

# Modes.
check(c.set(key=Key("text"), value="x", ttl=100, set_mode=SetMode.ADD), False, "add where it is")
check(c.set(key=Key("new"), value="x", ttl=100, set_mode=SetMode.ADD), True, "add where it is not")
check(c.set(key=Key("nowhere"), value="x", ttl=100, set_mode=SetMode.REPLACE), False, "replace where it is not")
check(c.set(key=Key("new"), value=b"a", ttl=100, set_mode=SetMode.SET), True, "set")
check(c.set(key=Key("new"), value=b"b", ttl=100, set_mode=SetMode.APPEND), True, "append")
check(c.set(key=Key("new"), value=b"c", ttl=100, set_mode=SetMode.PREPEND), True, "prepend")
check(c.get(key=Key("new")), b"cab", "after append and prepend")

# Versions.
value, token = c.get_cas(key=Key("text"))
check(value, "hello", "get_cas")
check(c.set(key=Key("text"), value="second", ttl=100, cas_token=token), True, "the version is the same")
if sys.argv[3] != "proxy":
    check(c.set(key=Key("text"), value="third", ttl=100, cas_token=token), False, "the version has changed")
check(c.get(key=Key("text")), "second", "the conflict changed nothing")

# Counting.
check(c.delta(key=Key("count"), delta=1), False, "nothing to count on")
check(c.delta_initialize(key=Key("count"), delta=1, initial_value=10, initial_ttl=100), True, "initialised")
check(c.delta_and_get(key=Key("count"), delta=5), 15, "up")
check(c.delta_and_get(key=Key("count"), delta=-7), 8, "down")
check(c.delta_initialize_and_get(key=Key("count2"), delta=1, initial_value=3, initial_ttl=100), 3, "initialised")

# Touch, delete.
check(c.touch(key=Key("text"), ttl=200), True, "touch")
check(c.touch(key=Key("absent"), ttl=200), False, "touch of nothing")
check(c.get(key=Key("text"), touch_ttl=300), "second", "get and touch")
check(c.delete(key=Key("text")), True, "delete")
check(c.get(key=Key("text")), None, "after delete")

# Invalidation: one client is told to refill and sees a miss, the others get the stale value meanwhile.
stale = StalePolicy(mark_stale_on_deletion_ttl=30, mark_stale_on_cas_mismatch=True)
check(c.set(key=Key("page"), value="old", ttl=100), True, "set")
_, before = c.get_cas(key=Key("page"))
check(c.invalidate(key=Key("page"), stale_policy=stale), True, "invalidate")
recache = RecachePolicy(ttl=30)
check(c.get(key=Key("page"), recache_policy=recache), None, "the winner")
check(c.get(key=Key("page"), recache_policy=recache), "old", "the others")
check(c.set(key=Key("page"), value="late", ttl=100, cas_token=before, stale_policy=stale), True, "a late writer")
check(c.set(key=Key("page"), value="new", ttl=100), True, "refilled")
check(c.get(key=Key("page"), recache_policy=recache), "new", "after the refill")

# Lease: the first to miss is told to fill, with a version to fill under.
lease = LeasePolicy(ttl=30, miss_retries=1, miss_retry_wait=0.001)
value, token = c.get_or_lease_cas(key=Key("leased"), lease_policy=lease)
check(value, None, "the winner of the lease")
check(c.get_or_lease(key=Key("leased"), lease_policy=lease), None, "another, who waited in vain")
check(c.set(key=Key("leased"), value="filled", ttl=100, cas_token=token), True, "filled under the lease")
check(c.get_or_lease(key=Key("leased"), lease_policy=lease), "filled", "everybody")

print("meta client: all is well")
