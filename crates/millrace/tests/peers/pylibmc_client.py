"""pylibmc (libmemcached) in the binary protocol, against a server on 127.0.0.1: arguments are its port, and user and password where clients log in.

Prints "pylibmc: all is well" at the end; anything unexpected raises.
"""

import sys

import pylibmc

# Milliseconds for an answer: a machine that is busy with other tests is slow.
PATIENCE = 30_000


def client(*login):
    names = dict(zip(("username", "password"), login))
    behaviors = {"cas": True, "connect_timeout": PATIENCE, "receive_timeout": PATIENCE * 1000}
    return pylibmc.Client([f"127.0.0.1:{sys.argv[1]}"], binary=True, behaviors=behaviors, **names)


def check(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


login = sys.argv[2:]
if login and not pylibmc.support_sasl:
    print("pylibmc: built without SASL")
    sys.exit()
if login:
    for wrong in [[login[0], login[1] + "x"], ["nobody", login[1]], []]:
        try:
            client(*wrong).set("k", "v")
        except pylibmc.Error:
            continue
        raise AssertionError(f"{wrong} may set")

c = client(*login)
check(c.flush_all(), True, "flush_all")
check(c.get("absent"), None, "miss")
for name, value in [("text", "hello"), ("bytes", b"\r\nEND\r\n\0\xff"), ("number", 42), ("dict", {"a": [1, 2]}), ("large", "x" * 300_000)]:
    check(c.set(name, value, 100), True, f"set {name}")
    check(c.get(name), value, f"get {name}")
check(c.add("text", "other"), False, "add of what is there")
check(c.add("fresh", "new"), True, "add")
check(c.replace("fresh", "newer"), True, "replace")
try:
    check(c.replace("nothing", "x"), False, "replace of nothing")
except pylibmc.NotFound:
    pass
many = {f"many{i}": f"value {i}" for i in range(200)}
check(c.set_multi(many), [], "many sets")
check(c.get_multi([*many, "absent"]), many, "many gets")
value, cas = c.gets("fresh")
check(value, "newer", "gets")
check(c.cas("fresh", "newest", cas), True, "cas")
check(c.cas("fresh", "lost", cas), False, "cas of an old version")
check(c.set("joined", "b"), True, "set")
check(c.append("joined", "c") and c.prepend("joined", "a"), True, "append and prepend")
check(c.get("joined"), "abc", "what they made")
check(c.set("count", 7), True, "set of a number")
check(c.incr("count", 5), 12, "incr")
check(c.decr("count", 20), 0, "decr stops at 0")
check(c.touch("count", 100), True, "touch")
check(c.delete("fresh"), True, "delete")
check(c.get("fresh"), None, "after delete")
((_, stats),) = c.get_stats()
stats = {str(name.decode() if isinstance(name, bytes) else name): value for name, value in stats.items()}
check(int(stats["curr_connections"]) > 0, True, "stats")
check(c.flush_all(), True, "flush_all")
check(c.get("text"), None, "after flush_all")
print("pylibmc: all is well")
