#!/usr/bin/env python3
"""What proof costs on each path: RPC over TCP with TLS beside without, and in-network datagrams with the cluster's key (a tag in each) beside without.

    compare/paths.py MILLRACE [--rounds 10] [--slice 300ms]

Needs openssl. (memcached's protocols with TLS, and handshakes: compare/tls.py.) Both sides run all the time and are asked in turns; printed are, for each load, the
CPU of the server per operation and the client's median latency of both, and the median of neighbours' ratios with its 10th and 90th percentile.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from tls import PATIENCE_S, certificates


class Process:
    """A server that says where it is."""

    def __init__(self, command, pattern, folder):
        self.log = os.path.join(folder, "log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        until = time.monotonic() + PATIENCE_S
        while True:
            with open(self.log) as log:
                text = log.read()
            found = re.search(pattern, text)
            if found:
                self.address = found.group(0)
                return
            if time.monotonic() > until or self.process.poll() is not None:
                sys.exit(f"{' '.join(command)} does not start:\n{text}")
            time.sleep(0.05)

    def cpu_ns(self):
        total = 0
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(os.path.join(tasks, task, "schedstat")) as text:
                total += int(text.read().split()[0])
        return total

    def end(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)


def output(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def rpc(args, server, ca, window):
    """CPU per call, µs, and the median latency, µs."""
    before = server.cpu_ns()
    told = output([args.millrace, "rpc", "bench", server.address, "--tls-ca", ca, "-d", args.slice, "--warmup", "0ms",
                   "-w", str(window), "--json"])
    if told["failed"]:
        sys.exit(f"{server.address}: {told['failed']}")
    half = next(latency for quantile, latency in told["latency_us"] if quantile == 0.5)
    return (server.cpu_ns() - before) / told["replies"] / 1000, half


def rack(args, keyed, plain, topologies, load):
    """Pairs of CPU per operation and the median latency of both, µs; CPU is that of all nodes."""
    told = output([args.millrace, "bench", f"inc:{topologies[0]}", "--vs", f"inc:{topologies[1]}", "--pairs", str(args.rounds),
                   "--slice", args.slice, "--server-pid", str(keyed.process.pid), "--vs-server-pid", str(plain.process.pid),
                   "--keys", "1k", "--json", *load])
    pairs = told["outcome"]["versus"]["pairs"]
    return [[(turn["server_cpu_us"], turn["latency"]["p50_us"]) for turn in (pair[side] for pair in pairs)] for side in (0, 1)]


def in_turns(rounds, a, b):
    sides = [[], []]
    for number in range(rounds):
        order = [(0, a), (1, b)] if number % 2 == 0 else [(1, b), (0, a)]
        for side, ask in order:
            sides[side].append(ask())
    return sides


def show(name, sides):
    cells = []
    for what in (0, 1):
        of = [[turn[what] for turn in side] for side in sides]
        ratios = sorted(x / y for x, y in zip(*of))
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        cells += [statistics.median(of[0]), statistics.median(of[1]), statistics.median(ratios), low, high]
    print("| {} | {:.2f} | {:.2f} | {:.2f} ({:.2f} to {:.2f}) | {:.1f} | {:.1f} | {:.2f} ({:.2f} to {:.2f}) |".format(name, *cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--slice", default="300ms")
    args = parser.parse_args()
    running = []
    with tempfile.TemporaryDirectory() as folder:
        ca, cert, key = certificates(folder)

        def start(name, command, pattern):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
            running.append(Process([args.millrace, *command], pattern, os.path.join(folder, name)))
            return running[-1]

        try:
            print("| path | with: CPU µs/op | without | ratio | with: p50 µs | without | ratio |\n|---|---|---|---|---|---|---|")
            tls = start("tls", ["rpc", "serve", "-l", "tls:127.0.0.1:0", "--tls-cert", cert, "--tls-key", key], r"tls:127\.0\.0\.1:\d+")
            tcp = start("tcp", ["rpc", "serve", "-l", "tcp:127.0.0.1:0"], r"tcp:127\.0\.0\.1:\d+")
            for window in (1, 32):
                show(f"RPC over TCP, TLS, {window} under way", in_turns(
                    args.rounds, lambda: rpc(args, tls, ca, window), lambda: rpc(args, tcp, ca, window)))
            topologies = []
            for name in ("keyed", "open"):
                where = os.path.join(folder, name)
                os.makedirs(where)
                text = subprocess.run([args.millrace, "inc", "topology", "--tors", "1", "--roots", "0", "--free-ports"],
                                      stdout=subprocess.PIPE, text=True, check=True).stdout
                if name == "open":
                    text = text.replace('[cluster]\nkey = "cluster.key"\n', "")
                else:
                    subprocess.run([args.millrace, "key", "new", os.path.join(where, "cluster.key")], stdout=subprocess.DEVNULL, check=True)
                topologies.append(os.path.join(where, "rack.toml"))
                with open(topologies[-1], "w") as file:
                    file.write(text)
            words = ["inc", "run", "--all", "--first", "--topology"]
            keyed = start("keyed", [*words, topologies[0]], r"controller:0 at")
            plain = start("open", [*words, topologies[1], "--no-key"], r"controller:0 at")
            for clients, load in [("one client", ["-c", "1"]), ("16 clients", ["-c", "16"])]:
                show(f"in-network datagrams, tags, {clients}", rack(args, keyed, plain, topologies, load))
        finally:
            for process in running:
                process.end()


if __name__ == "__main__":
    main()
