"""One side of compare/clients.py, in Python: `side.py millrace|pymemcache|pylibmc ADDRESS PORT`, as side.c."""

import sys
import time

kind, address, port = sys.argv[1:]
keys = [f"key-{i}" for i in range(1000)]
value = b"v" * 64
if kind == "millrace":
    from millrace import Client

    client = Client(address)

    def is_value(found):
        return found.value == value
elif kind == "pymemcache":
    from pymemcache.client.base import Client

    client = Client((address, int(port)), no_delay=True, default_noreply=False)

    def is_value(found):
        return found == value
else:
    import pylibmc

    client = pylibmc.Client([f"{address}:{port}"], behaviors={"tcp_nodelay": True})

    def is_value(found):
        return found == value

for key in keys:
    client.set(key, value)
assert is_value(client.get(keys[0]))
for line in sys.stdin:
    operation, count = line.split()
    get, set_ = client.get, client.set
    begun = time.perf_counter_ns()
    if operation == "get":
        for i in range(int(count)):
            get(keys[i % 1000])
    else:
        for i in range(int(count)):
            set_(keys[i % 1000], value)
    print(time.perf_counter_ns() - begun, flush=True)
