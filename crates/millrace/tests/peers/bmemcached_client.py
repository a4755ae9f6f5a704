"""bmemcached (PyPI python-binary-memcached), a client of the binary protocol, against a server on 127.0.0.1: arguments are its port, and user and
password where clients log in.

Prints "bmemcached: all is well" at the end; anything unexpected raises.
"""

import sys

import bmemcached

# Seconds for an answer: a machine that is busy with other tests is slow.
PATIENCE = 30


def client(*login):
    return bmemcached.Client((f"127.0.0.1:{sys.argv[1]}",), *login, socket_timeout=PATIENCE)


def check(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


login = sys.argv[2:]
if login:
    # Each of these hears that it may not, as this client shows it: nothing is there.
    for wrong in [[login[0], login[1] + "x"], ["nobody", login[1]], []]:
        try:
            check(client(*wrong).set("k", "v"), False, f"a set of {wrong}")
        except bmemcached.exceptions.MemcachedException as refused:
            check("Auth failure" in str(refused) or "auth" in str(refused).lower(), True, str(refused))

c = client(*login)
check(c.flush_all(), True, "flush_all")
check(c.get("absent"), None, "miss")
for name, value in [("text", "hello"), ("bytes", b"\r\nEND\r\n\0\xff"), ("number", 42), ("dict", {"a": [1, 2]}), ("large", "x" * 300_000)]:
    check(c.set(name, value, time=100), True, f"set {name}")
    check(c.get(name), value, f"get {name}")
check(c.add("text", "other"), False, "add of what is there")
check(c.add("fresh", "new"), True, "add")
check(c.replace("fresh", "newer"), True, "replace")
check(c.replace("nothing", "x"), False, "replace of nothing")
many = {f"many{i}": f"value {i}" for i in range(200)}
check(c.set_multi(many), [], "many sets")
check(c.get_multi([*many, "absent"]), many, "many gets")
value, cas = c.gets("fresh")
check(value, "newer", "gets")
check(c.cas("fresh", "newest", cas), True, "cas")
check(c.cas("fresh", "lost", cas), False, "cas of an old version")
check(c.get("fresh"), "newest", "after cas")
check(c.incr("count", 5, default=7), 7, "incr makes it")
check(c.incr("count", 5), 12, "incr")
check(c.decr("count", 20), 0, "decr stops at 0")
check(c.delete("fresh"), True, "delete")
check(c.get("fresh"), None, "after delete")
(stats,) = c.stats().values()
check(int(stats["curr_connections"]) > 0, True, "stats")
if login:
    check(int(stats["auth_cmds"]) > int(stats["auth_errors"]) >= 2, True, "logins are counted")
check(c.flush_all(), True, "flush_all")
check(c.get("text"), None, "after flush_all")
c.disconnect_all()
print("bmemcached: all is well")
