#!/usr/bin/env python3
"""Two builds of millrace in turns: what got slower from one commit to the next.

    compare/versions.py OLD NEW [--rounds 9] [node rpc cache cache-keyed txn rec]

OLD and NEW are programs (build one in a worktree of the old commit, with the same profile). Each round takes a slice of either, in changing order, so
that both see the same machine. Printed are medians and the ratio NEW/OLD of neighbours, median [10th..90th percentile]. Memcached clients are NEW's
for both sides; elsewhere each side brings its own client. Processor time is that of the server's threads.
"""

import argparse
import atexit
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SLICE = "700ms"
running = []
atexit.register(lambda: [process.kill() for process in running])


def processor_ns(process):
    """What all threads of a process have run for."""
    tasks = f"/proc/{process.pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks))


def start(command, folder, log):
    process = subprocess.Popen(command, stdout=open(f"{folder}/{log}", "w"), stderr=subprocess.STDOUT, cwd=folder)
    running.append(process)
    time.sleep(1)
    if process.poll() is not None:
        sys.exit(f"{' '.join(command)}: {open(f'{folder}/{log}').read()}")
    return process


def stop(processes):
    for process in processes:
        process.terminate()
        process.wait()
        running.remove(process)


def ask(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def show(name, rounds):
    """rounds: a pair for each, of the same figures of OLD and NEW."""
    for figure in rounds[0][0]:
        old, new = ([side[figure] for side in sides] for sides in zip(*rounds))
        ratios = [n / o for o, n in zip(old, new) if o]
        print(
            f"| {name} | {figure} | {statistics.median(old):.2f} | {statistics.median(new):.2f} | {statistics.median(ratios):.3f} "
            f"[{quantile(ratios, 0.1):.3f}..{quantile(ratios, 0.9):.3f}] |",
            flush=True,
        )


def turns(measure, rounds):
    pairs = []
    for number in range(rounds):
        figures = {}
        for side in ("old", "new") if number % 2 == 0 else ("new", "old"):
            figures[side] = measure(side)
        pairs.append((figures["old"], figures["new"]))
    return pairs


def memcached_figures(command, server):
    before = processor_ns(server)
    result = ask(command)["outcome"]["single"]
    used = processor_ns(server) - before
    return {"ops/s": result["ops_per_sec"], "p50 us": result["all"]["p50_us"], "server us/op": used / 1e3 / result["ops"]}


def node(programs, rounds, folder):
    ports = {"old": 7711, "new": 7712}
    servers = {s: start([programs[s], "up", "-p", str(ports[s]), "-m", "256"], folder, f"node.{s}") for s in programs}
    for connections, pipeline in ((1, 1), (16, 1), (4, 32)):
        def measure(side):
            target = f"127.0.0.1:{ports[side]}"
            load = ["-c", str(connections), "-P", str(pipeline), "-d", SLICE, "--json"]
            return memcached_figures([programs["new"], "bench", target, *load], servers[side])
        show(f"memcached, {connections} x {pipeline}", turns(measure, rounds))
    stop(servers.values())


def rpc(programs, rounds, folder):
    for transport in ("unix", "tcp", "shm"):
        def address(side):
            return f"tcp:127.0.0.1:{7721 + (side == 'new')}" if transport == "tcp" else f"{transport}:{folder}/{side}.{transport}"
        servers = {s: start([programs[s], "rpc", "serve", "--listen", address(s)], folder, f"rpc.{s}") for s in programs}
        for window in (1, 32):
            def measure(side):
                before = processor_ns(servers[side])
                load = ["-w", str(window), "-d", SLICE, "--warmup", "100ms", "--json"]
                result = ask([programs[side], "rpc", "bench", address(side), *load])
                used = processor_ns(servers[side]) - before
                return {
                    "calls/s": result["replies_per_sec"],
                    "p50 us": dict(result["latency_us"])[0.5],
                    "server us/call": used / 1e3 / result["replies"],
                }
            show(f"rpc {transport}, {window} under way", turns(measure, rounds))
        stop(servers.values())


def cache(programs, rounds, folder, keyed):
    """The in-network cache: boxes, a home and a controller in one process. A program from before keys has none in either case."""
    servers, topologies = {}, {}
    for number, side in enumerate(programs):
        place = f"{folder}/cache-{side}-{keyed}"
        os.makedirs(place)
        words = [programs[side], "inc", "topology", "--port", str(7750 + 20 * number)]
        text = subprocess.run(words, capture_output=True, text=True, cwd=place, check=True).stdout
        knows_keys = "[cluster]" in text
        if not keyed:
            text = text.replace('[cluster]\nkey = "cluster.key"\n', "")
        elif knows_keys and not os.path.exists(f"{place}/cluster.key"):
            subprocess.run([programs[side], "key", "new", "cluster.key"], cwd=place, check=True)
        topologies[side] = f"{place}/topology.toml"
        open(topologies[side], "w").write(text)
        run = [programs[side], "inc", "run", "--topology", topologies[side], "--all"]
        servers[side] = start(run + (["--no-key"] if knows_keys and not keyed else []), place, "log")
    for window in (1, 16):
        def measure(side):
            load = ["-k", "2000", "-c", "1", "-P", str(window), "-d", SLICE, "--json"]
            return memcached_figures([programs[side], "bench", f"inc:{topologies[side]}", *load], servers[side])
        show(f"in-network cache, {'key' if keyed else 'no key'}, {window} under way", turns(measure, rounds))
    stop(servers.values())


def lines(programs, rounds, command, name, figures):
    """Benches that start their own servers and print a list of lines."""
    pairs = {}
    def measure(side):
        return {name(line): figures(line) for line in ask([programs[side], *command])["lines"]}
    for old, new in turns(measure, rounds):
        for line in old:
            pairs.setdefault(line, []).append((old[line], new[line]))
    for line, sides in pairs.items():
        show(line, sides)


def txn(programs, rounds, folder):
    command = "txn bench --workloads 0-1,4-2 --values 64 --modes combined --replicas 2 --media memory,file --rounds 2 --slice 300ms --keys 1k --json"
    def name(line):
        load = "one at a time" if line["load"] == "OneByOne" else "many under way"
        return f"transactions {line['workload']['kind']}, {line['group']}, {load}"
    def figures(line):
        return {"txn/s": statistics.mean(sample["per_second"] for sample in line["samples"]), "p50 us": line["latency"]["p50_us"]}
    lines(programs, max(5, rounds // 2), command.split(), name, figures)


def rec(programs, rounds, folder):
    command = f"rec bench --local --rows 100k --batches 1,16 -d {SLICE} --json"
    def name(line):
        return f"rec {line['name'].split(':')[0]}, batch {line['batch']}"
    def figures(line):
        return {"queries/s": line["queries_per_sec"], "p50 us": line["latency"]["p50_us"]}
    lines(programs, max(5, rounds // 2), command.split(), name, figures)


def main():
    parts = {
        "node": node,
        "rpc": rpc,
        "cache": lambda *all: cache(*all, keyed=False),
        "cache-keyed": lambda *all: cache(*all, keyed=True),
        "txn": txn,
        "rec": rec,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(parts)}; without any, all")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_intermixed_args()
    unknown = [part for part in args.parts if part not in parts]
    if unknown:
        parser.error(f"there is no {unknown[0]}: {', '.join(parts)}")
    programs = {"old": os.path.abspath(args.old), "new": os.path.abspath(args.new)}
    print("| what | figure | old | new | new/old |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for part in args.parts or parts:
            parts[part](programs, args.rounds, folder)


if __name__ == "__main__":
    main()
