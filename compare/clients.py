#!/usr/bin/env python3
"""What a get and a set cost a program of C, Python or Go: by libmillrace over shared memory, beside clients of memcached over TCP on loopback.

    compare/clients.py MILLRACE LIBRARY [--rounds 15] [--slice-ms 150]

MILLRACE is the program and LIBRARY libmillrace.so, both of one build (`cargo build --release -p millrace -p millrace-client-c`). The peers are libmemcached
(Debian: libmemcached-dev), pymemcache and pylibmc (of this Python) and gomemcache (Go, by its module proxy), each with memcached itself with one thread
(`-t 1`); what is not there is left out, and said so. 1,000 keys, values of 64 bytes, one request at a time, every value checked to be there.

All run all the time; in each round every side has its turn with get and with set, in random order. Printed: nanoseconds for one operation, median and
10th to 90th percentile of the rounds, and the peer's time by ours, of the same round.
"""

import argparse
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PATIENCE_S = 20
OPERATIONS = ("get", "set")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(what, process, is_there):
    until = time.monotonic() + PATIENCE_S
    while not is_there():
        if time.monotonic() > until or process.poll() is not None:
            sys.exit(f"{what} does not start")
        time.sleep(0.02)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def built(name, command, **options):
    """Whether a side could be built; why not is printed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, **options)
    except FileNotFoundError as error:
        print(f"left out: {name}: {error}")
        return False
    if done.returncode != 0:
        print(f"left out: {name}: {done.stderr.strip().splitlines()[-1]}")
    return done.returncode == 0


def sides(folder, library):
    """Commands of all that can be had, by language and name; ours first."""
    os.symlink(os.path.abspath(library), os.path.join(folder, "libmillrace.so"))
    soname = next(line.split("[")[1].rstrip("]\n") for line in os.popen(f"readelf -d {library}") if "SONAME" in line)
    os.symlink(os.path.abspath(library), os.path.join(folder, soname))
    include = os.path.join(ROOT, "crates/client-c/include")
    with open(os.path.join(ROOT, "crates/client-c/millrace.pc.in")) as template, open(os.path.join(folder, "millrace.pc"), "w") as written:
        text = template.read().replace("${prefix}/@libdir@", folder).replace("${prefix}/@includedir@", include)
        written.write(text.replace("@prefix@", folder).replace("@version@", "0"))
    # Go keeps what pkg-config said of another folder, and notices only its own variables.
    environment = dict(os.environ, CGO_LDFLAGS=f"-L{folder}", MILLRACE_LIB=library, LD_LIBRARY_PATH=folder, PKG_CONFIG_PATH=folder, CGO_ENABLED="1",
                       PYTHONPATH=os.path.join(ROOT, "clients/python"))
    found = []
    source, cc = os.path.join(HERE, "clients/side.c"), ["cc", "-std=gnu11", "-O2", "-o"]
    for name, flags in (("libmillrace", [f"-I{include}", f"-L{folder}", "-lmillrace"]), ("libmemcached", ["-DLIBMEMCACHED", "-lmemcached"])):
        program = os.path.join(folder, name)
        if built(name, [*cc, program, source, *flags]):
            found.append(("C", name, [program], environment))
    for name in ("millrace", "pymemcache", "pylibmc"):
        if built(name, [sys.executable, "-c", f"import {name}"], env=environment):
            found.append(("Python", name, [sys.executable, os.path.join(HERE, "clients/side.py"), name], environment))
    program, module = os.path.join(folder, "go-side"), os.path.join(HERE, "clients/go")
    if shutil.which("go") is None:
        print("left out: Go: no go here (golang-go)")
    elif built("Go", ["go", "build", "-o", program, "."], cwd=module, env=environment):
        found += [("Go", name, [program, name], environment) for name in ("millrace", "gomemcache")]
    return found


class Side:
    def __init__(self, language, name, command, environment, shm, port):
        self.language, self.name = language, name
        self.is_ours = "millrace" in name
        address = [f"shm:{shm}", "0"] if self.is_ours else ["127.0.0.1", str(port)]
        self.process = subprocess.Popen([*command, *address], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.count = {operation: 100 for operation in OPERATIONS}
        self.ns = {operation: [] for operation in OPERATIONS}

    def turn(self, operation):
        count = self.count[operation]
        print(f"{operation} {count}", file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.language}, {self.name}: it ended with {self.process.wait()}")
        return int(line) / count

    def settle(self, slice_ns):
        """As many operations as fill a slice."""
        for operation in OPERATIONS:
            for _ in range(3):
                self.count[operation] = max(100, int(slice_ns / self.turn(operation)))


def spread(values, digits):
    tenths = statistics.quantiles(values, n=10)
    return f"{statistics.median(values):,.{digits}f} ({tenths[0]:,.{digits}f} to {tenths[-1]:,.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--slice-ms", type=int, default=150)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = sides(folder, os.path.abspath(args.library))
        shm, port = os.path.join(folder, "m.shm"), free_port()
        servers = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for words in (
            [args.millrace, "up", "-p", "0", "--shm", shm], ["memcached", "-u", "root", "-t", "1", "-l", "127.0.0.1", "-p", str(port)])]
        all_sides = []
        try:
            wait_for("millrace", servers[0], lambda: os.path.exists(shm))
            wait_for("memcached", servers[1], lambda: listens(port))
            all_sides = [Side(*command, shm, port) for command in commands]
            for side in all_sides:
                side.settle(args.slice_ms * 1e6)
            for _ in range(args.rounds):
                turns = [(side, operation) for side in all_sides for operation in OPERATIONS]
                random.shuffle(turns)
                for side, operation in turns:
                    side.ns[operation].append(side.turn(operation))
        finally:
            for process in [side.process for side in all_sides] + servers:
                process.kill()
        print(f"{'':8}{'client':14}{'':5}{'ns/operation':>28}{'by ours':>26}")
        for side in all_sides:
            ours = next(other for other in all_sides if other.is_ours and other.language == side.language)
            for operation in OPERATIONS:
                ratio = "" if side.is_ours else spread([a / b for a, b in zip(side.ns[operation], ours.ns[operation])], 2)
                print(f"{side.language:8}{side.name:14}{operation:5}{spread(side.ns[operation], 0):>28}{ratio:>26}")


if __name__ == "__main__":
    main()
