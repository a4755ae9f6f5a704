#!/usr/bin/env python3
"""Acknowledged SETs that survive a loss of power, a second: millrace with a log beside redis with `appendfsync always`, on the same disk.

    compare/durable.py MILLRACE [--folder DIR] [--value 100] [--seconds 3] [--rounds 3] [--redis redis-server]

Ways: millrace log (--durability log), redis always, and as a ceiling for this client millrace none. Loads: one SET under way; 64 in one pipeline; 64
connections with one each. Ways take turns in each round, in changing order; printed is the median [least..most] of SETs a second, and for millrace how
many there were for each sync. The folder's disk is what is measured: say one that is no tmpfs.
"""

import argparse
import json
import os
import random
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

LOADS = [("1", 1, 1), ("64 in a pipeline", 1, 64), ("64 connections", 64, 1)]
KEYS = 10_000


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connect(port, process):
    while True:
        try:
            one = socket.create_connection(("127.0.0.1", port))
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return one
        except OSError:
            if process.poll() is not None:
                sys.exit(f"{process.args} ended with {process.returncode}")
            time.sleep(0.01)


class Millrace:
    reply = b"STORED\r\n"

    def __init__(self, name, program, durable):
        self.name, self.program, self.durable = name, program, durable

    def command(self, port, folder):
        self.admin = free_port()
        log = ["--durability", "log", "--data-dir", folder, "--set", "log.size=256m"] if self.durable else []
        return [self.program, "up", "-p", str(port), "-m", "256", "--admin", str(self.admin), *log]

    def set(self, key, value):
        return b"set key%d 0 0 %d\r\n%s\r\n" % (key, len(value), value)

    def syncs(self, process):
        while True:
            connect(self.admin, process).close()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/stats.json") as answer:
                    log = json.load(answer)["kv"]["durable"]
                return log["syncs"] if log else None
            except urllib.error.HTTPError:
                # The port is there before what it shows.
                time.sleep(0.01)


class Redis:
    reply = b"+OK\r\n"

    def __init__(self, name, program):
        self.name, self.program = name, program

    def command(self, port, folder):
        always = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"]
        return [self.program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, *always]

    def set(self, key, value):
        key = b"key%d" % key
        return b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value)

    def syncs(self, _process):
        return None


def load(way, sockets, pipeline, value, seconds):
    """SETs a second; each connection sends its next batch when all of the last were acknowledged."""
    poll = select.epoll()
    waiting = {}
    by_number = {one.fileno(): one for one in sockets}

    def send(number):
        by_number[number].sendall(b"".join(way.set(random.randrange(KEYS), value) for _ in range(pipeline)))
        waiting[number] = pipeline * len(way.reply)

    for number in by_number:
        poll.register(number, select.EPOLLIN)
    begun, done = time.monotonic(), 0
    for number in by_number:
        send(number)
    while (now := time.monotonic()) - begun < seconds:
        for number, _ in poll.poll(1):
            came = by_number[number].recv(1 << 16)
            if not came or b"ERR" in came:
                sys.exit(f"{way.name} says {came!r}")
            waiting[number] -= len(came)
            if waiting[number] == 0:
                done += pipeline
                send(number)
    while any(waiting.values()):
        for number, _ in poll.poll(1):
            waiting[number] -= len(by_number[number].recv(1 << 16))
    return done / (now - begun)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("millrace")
    arguments.add_argument("--redis", default="redis-server")
    arguments.add_argument("--folder", default=".")
    arguments.add_argument("--value", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=3)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    ways = [Millrace("millrace log", given.millrace, True), Millrace("millrace none", given.millrace, False)]
    if shutil.which(given.redis):
        ways.append(Redis("redis always", given.redis))
    else:
        print(f"{given.redis} is not installed: without it")
    rows = {(way.name, name): [] for way in ways for name, _, _ in LOADS}
    per_sync = {}
    for _ in range(given.rounds):
        random.shuffle(ways)
        for way in ways:
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                port = free_port()
                process = subprocess.Popen(way.command(port, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                try:
                    for name, connections, pipeline in LOADS:
                        sockets = [connect(port, process) for _ in range(connections)]
                        value = os.urandom(given.value // 2).hex().encode()
                        before = way.syncs(process)
                        rate = load(way, sockets, pipeline, value, given.seconds)
                        rows[way.name, name].append(rate)
                        if before is not None:
                            per_sync[name] = rate * given.seconds / max(1, way.syncs(process) - before)
                        [one.close() for one in sockets]
                finally:
                    process.terminate()
                    process.wait()
    print(f"{'SETs a second':18}" + "".join(f"{name:>32}" for name, _, _ in LOADS))
    for way in sorted(way.name for way in ways):
        cells = []
        for name, _, _ in LOADS:
            all_of = rows[way, name]
            cells.append(f"{statistics.median(all_of):,.0f} [{min(all_of):,.0f}..{max(all_of):,.0f}]")
        print(f"{way:18}" + "".join(f"{cell:>32}" for cell in cells))
    print(f"{'SETs for a sync':18}" + "".join(f"{per_sync[name]:>32.1f}" for name, _, _ in LOADS))


main()
