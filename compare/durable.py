#!/usr/bin/env python3
"""Acknowledged SETs that survive a loss of power, a second: millrace beside redis, etcd and, as a bound, what keeps nothing; on the same disk.

    compare/durable.py MILLRACE [--folder DIR] [--under-way 1,8,64,256] [--value 100] [--seconds 1] [--rounds 7] [--plot FILE.svg]
                       [--way "NAME=COMMAND {port} {folder} {admin}"]... [--only NAME,...]

| way | what it is |
|---|---|
| log | millrace up --durability log |
| chain | millrace up --durability chain, behind it the three replicas of `millrace chain up --data` on this disk: four processes, three logs |
| chain-memory | the same replicas without --data: what is acknowledged survives the end of two of them, and no loss of power |
| none | millrace up: keeps nothing |
| redis | redis-server with appendonly, appendfsync always; it never rewrites its file |
| etcd | one member, as its packages run it: a put is durable when it is answered |
| etcd-three | three members on this machine and disk: what `chain` is to be compared with |
| memcached | keeps nothing: what a server that waits for no disk does here |

--way adds a command line of a server that speaks memcached's protocol at {port}; what it starts is stopped with it. Servers run all the time; each has a
slice of each load in each round, in an order drawn anew. *Under way* is the number of SETs that are not answered yet: that many connections with one each,
or (`in one`) one connection with that many. etcd has one connection of gRPC with that many streams, which is how its own clients do it. The load generator
is `millrace bench`, for etcd a thread of this program; the CPU of both is printed, so one can see that it is not the generator that is measured.

Printed: SETs a second, median [least..most] of the rounds; for `log` and what --way adds the ratio to each of the others by round, and, where the command
has an {admin} port that says it, SETs for each sync, warm-up included. The folder's disk is what is measured: say one that is no tmpfs.
"""

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

import plot

KEYS = 10_000
PATIENCE_S = 60
WARMUP_S = 0.2


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Way:
    """A server, and the `millrace bench` that drives it."""

    def __init__(self, name, command, millrace, target="{host}", is_measured=False, behind=(), chain=False):
        self.name, self.command, self.millrace, self.target = name, command, millrace, target
        # Ratios to all others are printed.
        self.is_measured = is_measured
        # What is started before it; with `chain`, it must answer at {chain}.
        self.behind, self.chain = behind, chain
        self.processes = []

    def start(self, folder):
        self.port = free_port()
        self.admin = free_port()
        names = {"port": self.port, "admin": self.admin, "folder": folder, "chain": free_port()}
        names |= {name: free_port() for name in ("peer", "port2", "peer2", "port3", "peer3")}
        self.said = open(os.path.join(folder, "said"), "wb")
        for command in self.behind:
            self.run([word.format(**names) for word in command])
        words = [word.format(**names) for word in self.command]
        if self.chain:
            # Who listens need not be in the chain yet.
            asked = [self.millrace, "txn", "--connect", f"tcp:127.0.0.1:{names['chain']}", "get key0"]
            self.wait(words, lambda: subprocess.run(asked, capture_output=True).returncode == 0)
        self.run(words)
        self.wait(words, lambda: socket.create_connection(("127.0.0.1", self.port)).close() is None)

    def run(self, words):
        # A group of its own: what it starts ends with it.
        self.processes.append(subprocess.Popen(words, stdout=self.said, stderr=self.said, start_new_session=True))

    def wait(self, words, is_there):
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                if is_there():
                    return
            except OSError:
                pass
            if any(process.poll() is not None for process in self.processes) or time.monotonic() > until:
                self.stop()
                with open(self.said.name, errors="replace") as said:
                    sys.exit(f"{shlex.join(words)} does not answer:\n{said.read()}")
            time.sleep(0.01)

    def syncs(self):
        """How often its log was made durable; none where it does not say."""
        if not any("{admin}" in word for word in self.command):
            return None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/stats.json") as answer:
                return ((json.load(answer).get("kv") or {}).get("durable") or {}).get("syncs")
        except OSError:
            return None

    def stop(self):
        # Who asks before who is asked.
        for process in reversed(self.processes):
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            process.wait()
        self.said.close()

    def load(self, under_way, in_one, value, seconds):
        """SETs a second, and microseconds of CPU of the generator for each."""
        shape = ["-c", "1", "-P", str(under_way), "--batch", "1"] if in_one else ["-c", str(under_way), "-P", "1"]
        target = self.target.format(host=f"127.0.0.1:{self.port}")
        words = [self.millrace, "bench", target, "--set", "1", *shape, "-v", str(value), "-k", str(KEYS)]
        words += ["--dist", "uniform", "--no-preload", "--warmup", f"{int(WARMUP_S * 1000)}ms", "-d", f"{int(seconds * 1000)}ms", "--json"]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{self.name}: {shlex.join(words)}\n{done.stdout}{done.stderr}")
        summary = json.loads(done.stdout)["outcome"]["single"]
        if summary["failed"]:
            sys.exit(f"{self.name} failed: {summary['failed']} {summary['examples']}")
        return summary["ops_per_sec"], summary["client_cpu_us_per_op"]


def literal(name, value):
    """A header of HPACK that no table is needed for."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


class Etcd(Way):
    """Puts over gRPC: frames of HTTP/2 written by hand, so that the generator is cheap."""

    DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
    END_STREAM, END_HEADERS, ACK = 1, 4, 1

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def put(self, stream, value):
        key = b"key%d" % random.randrange(KEYS)
        body = b"\x0a" + bytes([len(key)]) + key + b"\x12" + varint(len(value)) + value
        headers = self.frame(self.HEADERS, self.END_HEADERS, stream, self.head)
        return headers + self.frame(self.DATA, self.END_STREAM, stream, b"\0" + struct.pack(">I", len(body)) + body)

    def load(self, under_way, _in_one, value, seconds):
        value = os.urandom(value // 2 + 1).hex().encode()[:value]
        self.head = b"".join(
            [b"\x83\x86", literal(b":path", b"/etcdserverpb.KV/Put"), literal(b":authority", b"localhost")]
            + [literal(b"content-type", b"application/grpc"), literal(b"te", b"trailers")]
        )
        one = socket.create_connection(("127.0.0.1", self.port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wide = self.frame(self.WINDOW, 0, 0, struct.pack(">I", 2**31 - 1 - 65535))
        streams = iter(range(1, 2**31, 2))
        out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(self.SETTINGS, 0, 0, b"") + wide
        one.sendall(out + b"".join(self.put(next(streams), value) for _ in range(under_way)))
        buffer, answered, done = b"", set(), 0
        begun = before = None
        start = time.monotonic()
        while True:
            now = time.monotonic()
            if begun is None and now - start >= WARMUP_S:
                begun, done, before = now, 0, time.process_time()
            if begun is not None and now - begun >= seconds:
                break
            came = one.recv(1 << 18)
            if not came:
                sys.exit("etcd closed the connection")
            buffer, out, at = buffer + came, [], 0
            while len(buffer) - at >= 9:
                length = int.from_bytes(buffer[at : at + 3], "big")
                kind, flags = buffer[at + 3], buffer[at + 4]
                stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
                if len(buffer) - at < 9 + length:
                    break
                payload = buffer[at + 9 : at + 9 + length]
                at += 9 + length
                if kind == self.DATA and length > 5:
                    answered.add(stream)
                if kind in (self.SETTINGS, self.PING) and not flags & self.ACK:
                    out.append(self.frame(kind, self.ACK, 0, payload if kind == self.PING else b""))
                if kind in (self.RESET, self.GOAWAY):
                    sys.exit(f"etcd ended a stream or the connection: {payload!r}")
                if kind in (self.DATA, self.HEADERS) and flags & self.END_STREAM:
                    # An error has trailers and no message.
                    if stream not in answered:
                        sys.exit("etcd refused a put")
                    answered.discard(stream)
                    done += 1
                    out.append(self.put(next(streams), value))
            buffer = buffer[at:]
            if out:
                one.sendall(b"".join(out))
        one.close()
        return done / (now - begun), (time.process_time() - before) * 1e6 / max(1, done)


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def ways(given):
    """Those that there are here."""
    up = [given.millrace, "up", "-p", "{port}", "-m", "256", "-t", "1"]
    log = [*up, "--admin", "{admin}", "--durability", "log", "--data-dir", "{folder}/data", "--set", "log.size=256m"]
    # A rewrite of its file would fall into some slices and not into others: it never makes one.
    always = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
    always += ["--save", "", "--daemonize", "no"]
    redis = [given.redis, "--port", "{port}", "--bind", "127.0.0.1", "--dir", "{folder}", *always]
    memcached = [given.memcached, "-p", "{port}", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-m", "256", "-c", "2048", "-u", "root"]

    def etcd(number, members):
        client, peer = f"http://127.0.0.1:{{port{number}}}", f"http://127.0.0.1:{{peer{number}}}"
        words = [given.etcd, "--name", f"m{number}", "--data-dir", f"{{folder}}/data{number}", "--log-level", "error"]
        words += ["--initial-cluster", ",".join(f"m{n}=http://127.0.0.1:{{peer{n}}}" for n in members)]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        return words + ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]

    three = ("", "2", "3")
    chain = [*up, "--admin", "{admin}", "--durability", "chain", "--chain", "tcp:127.0.0.1:{chain}"]
    replicas = [given.millrace, "chain", "up", "--port", "{chain}", "--replicas", "3", "--log-size", "256m"]
    all_of = [
        Way("log", log, given.millrace, is_measured=True),
        Way("chain", chain, given.millrace, is_measured=True, behind=[[*replicas, "--data", "{folder}/chain"]], chain=True),
        Way("chain-memory", chain, given.millrace, is_measured=True, behind=[replicas], chain=True),
        Way("none", up, given.millrace),
    ]
    for text in given.way:
        name, _, command = text.partition("=")
        if not name or "{port}" not in command:
            sys.exit(f"--way {text!r}: it is NAME=COMMAND, with {{port}} where the port stands")
        all_of.append(Way(name, shlex.split(command), given.millrace, is_measured=True))
    peers = [
        (given.redis, Way("redis", redis, given.millrace, "redis://{host}")),
        (given.etcd, Etcd("etcd", etcd("", [""]), given.millrace)),
        (given.etcd, Etcd("etcd-three", etcd("", three), given.millrace, behind=[etcd(n, three) for n in three[1:]])),
        (given.memcached, Way("memcached", memcached, given.millrace)),
    ]
    for program, way in peers:
        if shutil.which(program):
            all_of.append(way)
        else:
            print(f"{program} is not installed: without it", file=sys.stderr)
    names = given.only.split(",") if given.only else [way.name for way in all_of]
    return [way for way in all_of if way.name in names]


def spread(values, digits=0):
    return f"{statistics.median(values):,.{digits}f} [{min(values):,.{digits}f}..{max(values):,.{digits}f}]"


def show(rows, loads, rates, cpu, per_sync):
    names = [name for name, _, _ in rows]
    head = "| SETs under way |" + "".join(f" {under_way} |" for under_way in loads)
    rule = "|---|" + "---|" * len(loads)
    print(f"SETs a second\n\n{head}\n{rule}")
    for name in names:
        print(f"| {name} |" + "".join(f" {spread(rates[name, under_way])} |" for under_way in loads))
    for base in [name for name, way, in_one in rows if way.is_measured]:
        print(f"\n{base} / other, by round\n\n{head}\n{rule}")
        for name in names:
            if name != base:
                pairs = ((under_way, zip(rates[base, under_way], rates[name, under_way])) for under_way in loads)
                print(f"| {name} |" + "".join(f" {spread([a / b for a, b in pair], 2)} |" for _, pair in pairs))
    if per_sync:
        print(f"\nSETs for a sync\n\n{head}\n{rule}")
        for name in (name for name in names if all((name, n) in per_sync for n in loads)):
            print(f"| {name} |" + "".join(f" {spread(per_sync[name, n], 1)} |" for n in loads))
    print(f"\nCPU of the load generator, of a core\n\n{head}\n{rule}")
    for name in names:
        shares = [statistics.median([r * c / 1e6 for r, c in zip(rates[name, n], cpu[name, n])]) for n in loads]
        print(f"| {name} |" + "".join(f" {share:.2f} |" for share in shares))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("--redis", default="redis-server")
    parser.add_argument("--etcd", default="etcd")
    parser.add_argument("--memcached", default="memcached")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--under-way", default="1,8,64,256")
    parser.add_argument("--value", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--way", action="append", default=[])
    parser.add_argument("--only")
    parser.add_argument("--plot")
    given = parser.parse_args()
    random.seed(given.seed)
    loads = [int(text) for text in given.under_way.split(",")]
    all_of = ways(given)
    rows = [(way.name, way, False) for way in all_of]
    rows += [(f"{way.name}, in one", way, True) for way in all_of if not isinstance(way, Etcd)]
    rates, cpu, per_sync = {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="millrace-durable-", dir=given.folder) as folder:
        started = []
        try:
            for way in all_of:
                os.mkdir(f"{folder}/{way.name}")
                way.start(f"{folder}/{way.name}")
                started.append(way)
            for _ in range(given.rounds):
                for under_way in loads:
                    for name, way, in_one in random.sample(rows, len(rows)):
                        before = way.syncs()
                        rate, each = way.load(under_way, in_one, given.value, given.seconds)
                        if before is not None and (syncs := way.syncs() - before) > 0:
                            per_sync.setdefault((name, under_way), []).append(rate * (given.seconds + WARMUP_S) / syncs)
                        rates.setdefault((name, under_way), []).append(rate)
                        cpu.setdefault((name, under_way), []).append(each)
        finally:
            for way in started:
                way.stop()
    show(rows, loads, rates, cpu, per_sync)
    if given.plot:
        series = {
            name: [(n, statistics.median(rates[name, n]), min(rates[name, n]), max(rates[name, n])) for n in loads]
            for name, way, in_one in rows
            if not in_one or way.is_measured
        }
        drawn = plot.lines("Acknowledged SETs a second", "SETs under way", "SETs/s", series, True, True, loads)
        with open(given.plot, "w") as file:
            file.write(drawn)


if __name__ == "__main__":
    main()
