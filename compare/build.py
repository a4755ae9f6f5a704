#!/usr/bin/env python3
"""Seconds of processor time that a cold build takes, crate by crate.

    compare/build.py [--tests] [--top N] [--before FILE] [--save FILE]

Builds into a folder of its own, which it removes: with --tests what `cargo test --workspace` builds, else what the README's first command builds. Each
compiler's own user and system time is taken, so that other work on the machine disturbs little: a busy sibling of the core lengthens it by a tenth or so. A
crate that is compiled several times (as a library, as its tests) has one line.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

LOG = "MILLRACE_BUILD_LOG"


def compile_one():
    """As cargo's RUSTC_WRAPPER: runs the compiler, and notes what it took."""
    command = sys.argv[1:]
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, used = os.wait4(pid, 0)
    names = [after for before, after in zip(command, command[1:]) if before == "--crate-name"]
    if names:
        with open(os.environ[LOG], "a") as log:
            log.write(json.dumps([names[0], used.ru_utime + used.ru_stime]) + "\n")
    sys.exit(os.waitstatus_to_exitcode(status))


def measure(tests):
    """Seconds by crate."""
    root = pathlib.Path(__file__).resolve().parent.parent
    what = ["test", "--workspace", "--no-run"] if tests else ["build", "--release"]
    with tempfile.TemporaryDirectory(prefix="millrace-build-") as folder:
        log = pathlib.Path(folder, "log")
        log.touch()
        environment = dict(os.environ, RUSTC_WRAPPER=str(pathlib.Path(__file__).resolve()), CARGO_INCREMENTAL="0")
        environment[LOG] = str(log)
        subprocess.run(["cargo", *what, "--target-dir", folder], cwd=root, env=environment, check=True)
        seconds = collections.Counter()
        for line in log.read_text().splitlines():
            name, time = json.loads(line)
            # Build scripts all have one name.
            seconds["build scripts" if name.startswith("build_script") else name] += time
    return dict(seconds)


def main():
    if LOG in os.environ and len(sys.argv) > 1 and "rustc" in os.path.basename(sys.argv[1]):
        compile_one()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", action="store_true", help="what `cargo test --workspace` builds")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="so many crates by name, the rest in one line (20)")
    parser.add_argument("--before", metavar="FILE", help="a second column, from a file that --save made")
    parser.add_argument("--save", metavar="FILE", help="keep the seconds, as JSON")
    flags = parser.parse_args()
    before = json.loads(pathlib.Path(flags.before).read_text()) if flags.before else None
    now = measure(flags.tests)
    if flags.save:
        pathlib.Path(flags.save).write_text(json.dumps(now, indent=1))
    show(now, before, flags.top)


def show(now, before, top):
    rows = sorted(now, key=now.get, reverse=True)
    named, rest = rows[:top], rows[top:]
    columns = [before, now] if before is not None else [now]
    lines = [(name, [column.get(name, 0) for column in columns]) for name in named]
    others = [sum(time for name, time in column.items() if name not in named) for column in columns]
    lines.append((f"{len(rest)} others", others))
    lines.append(("all", [sum(column.values()) for column in columns]))
    print("| crate | " + " | ".join(["before, s", "s"][-len(columns):]) + " |")
    print("|---|" + "---|" * len(columns))
    for name, seconds in lines:
        print(f"| {name} | " + " | ".join(f"{second:.1f}" for second in seconds) + " |")


if __name__ == "__main__":
    main()
