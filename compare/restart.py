#!/usr/bin/env python3
"""A node is restarted: how long until it answers, and until it hits as often as before: warm, from its log, and cold.

    compare/restart.py MILLRACE [--gib 1] [--value 1000] [--rounds 3] [--folder /dev/shm] [--disk .] [--source 50000] [--plot FILE.svg]
                       [--only NAME,...]

| way | how it ends, and begins again |
|---|---|
| warm | SIGTERM; the memory of items lies in files of --folder (-e) |
| log | kill -9; snapshot and log lie in --disk (--durability log) |
| cold | SIGTERM; with nothing |
| memcached | memcached -e in --folder, SIGUSR1, where it is installed |

Per round each way is restarted once, in changing order. Before, all keys are set; afterwards one client asks for random keys in pipelines of 100, reads
those that it misses from a source that gives --source of them a second at most (0: any), and sets them.

Printed per way, median [least..most]: seconds from the signal to the end of the old process, from the start of the new one to its first answer, and from
the start to 99 of 100 hits among the last 20,000 asked for; and how many keys had been set again by then. The plot has the hit rate of the first round.
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

import plot

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
        """Sets them all, those again that the server has no room for yet."""
        while keys:
            lines = [b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value) for key in keys]
            self.socket.sendall(b"".join(lines))
            replies = [self.file.readline() for _ in keys]
            keys = [key for key, reply in zip(keys, replies) if reply != b"STORED\r\n"]
            if any(reply and not reply.startswith((b"STORED", b"SERVER_ERROR the log is full")) for reply in replies):
                sys.exit(f"a set failed: {next(reply for reply in replies if reply != b'STORED' + bytes([13, 10]))}")

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
        self.rows, self.curve = [], None

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

    def round(self, keys, value, seed, source):
        client, _ = self.start()
        for at in range(0, keys, 200):
            client.set([b"key%d" % n for n in range(at, min(at + 200, keys))], value)
        there = keys - sum(len(client.missing(some)) for some in sample(keys, 20_000, seed)) * keys // 20_000
        # Whoever stops waits for no client.
        del client
        ended = self.end()
        # memcached 1.6.18 takes a start within the second of the stop for a clock that was set back, and starts cold.
        time.sleep(2)
        client, first = self.start()
        begun, filled = time.monotonic(), 0
        hits, curve = collections.deque(maxlen=WINDOW), []
        chosen, since, asked, hit = random.Random(seed), 0, 0, 0
        while (spent := time.monotonic() - begun) < 60 * MINUTES_MAX:
            some = [b"key%d" % chosen.randrange(keys) for _ in range(PIPELINE)]
            missing = client.missing(some)
            if missing:
                filled += len(missing)
                if source:
                    time.sleep(max(0, filled / source - (time.monotonic() - begun)))
                client.set(missing, value)
            hits.extend([1] * (PIPELINE - len(missing)) + [0] * len(missing))
            asked, hit = asked + PIPELINE, hit + PIPELINE - len(missing)
            if spent - since > 0.1 or not curve:
                curve.append((first + spent, 100 * hit / asked))
                since, asked, hit = spent, 0, 0
            if len(hits) == WINDOW and sum(hits) >= HIT_RATE * WINDOW:
                break
        self.rows.append((ended, first, first + time.monotonic() - begun, filled, there))
        self.curve = self.curve or [(first, 0), *curve, (self.rows[-1][2], 100 * sum(hits) / len(hits))]
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
    parser.add_argument("--disk", default=".")
    parser.add_argument("--source", type=float, default=50_000)
    parser.add_argument("--log-size", default="512m")
    parser.add_argument("--plot")
    parser.add_argument("--only")
    options = parser.parse_args()
    keys = int(options.gib * (1 << 30)) // (options.value + 40)
    # A half more than the items take: none is evicted by either.
    limit = str(int(options.gib * 1536))
    folder = tempfile.mkdtemp(prefix="millrace-restart-", dir=options.folder)
    disk = tempfile.mkdtemp(prefix="millrace-restart-", dir=options.disk)
    try:
        ours = ["up", "-m", limit, "-t", "1"]
        log = ["--durability", "log", "--data-dir", f"{disk}/data", "--set", f"log.size={options.log_size}"]
        theirs = ["-m", limit, "-t", "1", "-U", "0", "-l", "127.0.0.1", "-u", "root", "-e", f"{folder}/memcached"]
        ways = [
            Way("warm", options.millrace, [*ours, "-e", f"{folder}/memory"], signal.SIGTERM, 21901),
            Way("log", options.millrace, [*ours, *log], signal.SIGKILL, 21902),
            Way("cold", options.millrace, ours, signal.SIGTERM, 21903),
        ]
        if shutil.which("memcached"):
            ways.append(Way("memcached", "memcached", theirs, signal.SIGUSR1, 21904))
        if options.only:
            ways = [way for way in ways if way.name in options.only.split(",")]
        for number in range(options.rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                way.round(keys, b"v" * options.value, number, options.source)
                for place in (folder, disk):
                    for name in os.listdir(place):
                        path = f"{place}/{name}"
                        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        source = f"{options.source:,.0f} a second from the source" if options.source else "any number from the source"
        print(f"{keys:,} keys of {options.value} bytes, {options.rounds} rounds, {source}\n")
        print("| | old process ends, s | first answer, s | 99 % hits, s | keys set again |\n|---|---|---|---|---|")
        for way in ways:
            ended, first, full, filled, there = zip(*way.rows)
            print(f"| {way.name} | {text(ended)} | {text(first)} | {text(full)} | {text(filled, 0)} |")
            if min(there) < 0.99 * keys:
                print(f"(only {min(there):,} of them were there before)", file=sys.stderr)
        if options.plot:
            curves = {way.name: way.curve for way in ways}
            drawn = plot.lines("Hits after a restart", "seconds since the new process began", "hits, %", curves, log_x=True)
            with open(options.plot, "w") as file:
                file.write(drawn)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(disk, ignore_errors=True)


if __name__ == "__main__":
    main()
