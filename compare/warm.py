#!/usr/bin/env python3
"""A cache node is restarted: how long until it answers, and until it hits as often as before, warm and cold.

    compare/warm.py MILLRACE [--gib 1] [--value 1000] [--rounds 3] [--folder /dev/shm] [--without-memcached]

Per round each way is restarted once, in changing order: millrace warm (--memory-file, SIGTERM), millrace cold (no file), memcached warm (-e,
SIGUSR1) where it is installed. Before, all keys are set; afterwards one client asks for random keys in pipelines of 100 and sets those that it
misses, as if the database behind answered at once. So a cold node is filled as fast as this client can; a real one takes longer.

Printed per way, median [least..most]: seconds from the signal to the end of the old process, from the start of the new one to its first answer, and
from there until 99 of 100 of the last 20,000 asked for were hits; and how many keys had been set again by then.
"""

import argparse
import collections
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PIPELINE = 100
WINDOW = 20_000
HIT_RATE = 0.99
MINUTES_MAX = 10


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", buffering=1 << 20)

    def set(self, keys, value):
        """Sets them all; the last one is answered when all are done."""
        lines = [b"set %s 0 0 %d noreply\r\n%s\r\n" % (key, len(value), value) for key in keys]
        self.socket.sendall(b"".join(lines) + b"mn\r\n")
        if self.file.readline() != b"MN\r\n":
            sys.exit("a set failed")

    def missing(self, keys):
        """Those that are not there."""
        self.socket.sendall(b"".join(b"mg %s v\r\n" % key for key in keys))
        missing = []
        for key in keys:
            line = self.file.readline()
            if line.startswith(b"VA "):
                self.file.read(int(line.split()[1]) + 2)
            elif line == b"EN\r\n":
                missing.append(key)
            else:
                sys.exit(f"{key}: {line}")
        return missing


class Way:
    def __init__(self, name, program, arguments, stop, port):
        self.name, self.stop, self.port = name, stop, port
        self.command = [program, *arguments, "-p", str(port)]
        self.rows = []

    def start(self):
        """The process, a client of it, and the seconds to its first answer."""
        begun = time.monotonic()
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=open(os.devnull, "w"))
        while True:
            try:
                client = Client(self.port)
                client.missing([b"first"])
                return client, time.monotonic() - begun
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"{' '.join(self.command)} ended with {self.process.returncode}")
                time.sleep(0.002)

    def end(self):
        begun = time.monotonic()
        self.process.send_signal(self.stop)
        self.process.wait()
        return time.monotonic() - begun

    def round(self, keys, value, seed):
        client, _ = self.start()
        for at in range(0, keys, 1000):
            client.set([b"key%d" % n for n in range(at, min(at + 1000, keys))], value)
        there = keys - sum(len(client.missing(some)) for some in sample(keys, 20_000, seed)) * keys // 20_000
        # Whoever stops waits for no client.
        del client
        ended = self.end()
        # memcached 1.6.18 takes a start within the second of the stop for a clock that was set back, and starts cold.
        time.sleep(2)
        client, first = self.start()
        begun, filled = time.monotonic(), 0
        hits = collections.deque(maxlen=WINDOW)
        chosen = random.Random(seed)
        while time.monotonic() - begun < 60 * MINUTES_MAX:
            some = [b"key%d" % chosen.randrange(keys) for _ in range(PIPELINE)]
            missing = client.missing(some)
            if missing:
                client.set(missing, value)
            filled += len(missing)
            hits.extend([1] * (PIPELINE - len(missing)) + [0] * len(missing))
            if len(hits) == WINDOW and sum(hits) >= HIT_RATE * WINDOW:
                break
        self.rows.append((ended, first, time.monotonic() - begun, filled, there))
        del client
        self.end()


def sample(keys, count, seed):
    chosen = random.Random(seed)
    for _ in range(count // PIPELINE):
        yield [b"key%d" % chosen.randrange(keys) for _ in range(PIPELINE)]


def text(values, digits=2):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--value", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--without-memcached", action="store_true")
    options = parser.parse_args()
    keys = int(options.gib * (1 << 30)) // (options.value + 40)
    # A half more than the items take: none is evicted by either.
    limit = str(int(options.gib * 1536))
    folder = tempfile.mkdtemp(prefix="millrace-warm-", dir=options.folder)
    try:
        ours = ["up", "-m", limit, "-t", "1"]
        ways = [
            Way("millrace warm", options.millrace, [*ours, "-e", f"{folder}/memory"], signal.SIGTERM, 21901),
            Way("millrace cold", options.millrace, ours, signal.SIGTERM, 21902),
        ]
        if shutil.which("memcached") and not options.without_memcached:
            theirs = ["-m", limit, "-t", "1", "-U", "0", "-l", "127.0.0.1", "-u", "root", "-e", f"{folder}/memcached"]
            ways.append(Way("memcached warm", "memcached", theirs, signal.SIGUSR1, 21903))
        for number in range(options.rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                way.round(keys, b"v" * options.value, number)
                for name in os.listdir(folder):
                    path = f"{folder}/{name}"
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        print(f"{keys:,} keys of {options.value} bytes, {options.rounds} rounds\n")
        print("| | old process ends, s | first answer, s | then to 99 % hits, s | keys set again |\n|---|---|---|---|---|")
        for way in ways:
            ended, first, full, filled, there = zip(*way.rows)
            print(f"| {way.name} | {text(ended)} | {text(first)} | {text(full)} | {text(filled, 0)} |")
            if min(there) < 0.99 * keys:
                print(f"(only {min(there):,} of them were there before)", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
