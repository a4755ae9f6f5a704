"""Where the shards of a sweep run: on this machine, on those of Ray, by Slurm or in Kubernetes.

An executor is anything with `run`, given shards: each is a command that does its part of the runs and keeps what it has done
(`--resume`), so that a shard that died is run again and goes on. All of them write into one folder, which every machine must see."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .errors import MillraceError
from .program import Program
from .results import package


class ShardsFailed(MillraceError):
    """Some shards did not end; what they did is kept, and running the sweep again does the rest."""

    def __init__(self, shards: Sequence[Shard], said: Sequence[str]) -> None:
        names = ", ".join(f"{shard.at}/{shard.of}" for shard in shards)
        why = "".join(f"\n  {line}" for line in said if line)
        super().__init__(f"shards {names} did not end; what they did is kept: run the sweep again for the rest{why}")
        self.shards = list(shards)


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `at` of `of`: the runs `at`, `at + of`, … of the sweep in a file (or a shipped one by name), with rows into folder `out`."""

    at: int
    of: int
    sweep: str
    out: str
    program: str

    def command(self, threads: int) -> list[str]:
        """The command that does it, or the rest of it."""
        run = [self.program, "sweep", "run", self.sweep, "--out", self.out, "--shard", f"{self.at}/{self.of}"]
        return [*run, "--resume", "--threads", str(threads)]


class Executor(Protocol):
    """Where shards run."""

    def run(self, shards: Sequence[Shard]) -> None:
        """Returns when all have ended. Raises `ShardsFailed` where some did not."""


def missing(shards: Sequence[Shard]) -> list[Shard]:
    """Those of which runs are not there, as the folder says: whoever ran them, and whatever it came to."""
    if not shards:
        return []
    first = shards[0]
    # It says what is missing, and with its exit status that something is; without a folder it says nothing.
    command = [first.program, "sweep", "digest", first.out, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if not done.stdout.strip():
        return list(shards)
    runs = json.loads(done.stdout)["missing"]
    lacking = {run % first.of for run in runs}
    return [shard for shard in shards if shard.at in lacking]


def in_rounds(shards: Sequence[Shard], attempts: int, once: Callable[[Sequence[Shard]], Sequence[str]]) -> None:
    """Runs shards with `once`, which says what went wrong in words, and those again of which runs are missing."""
    rest, said = list(shards), list[str]()
    for _ in range(max(attempts, 1)):
        said = list(once(rest))
        rest = missing(rest)
        if not rest:
            return
    raise ShardsFailed(rest, said)


def _run(command: Sequence[str]) -> str:
    """Runs it; why it failed, or nothing."""
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines()
    return f"exit status {done.returncode}: {said[-1] if said else 'it said nothing'}"


@dataclass(frozen=True, slots=True)
class Local:
    """This machine: so many shards at once, which share its cores."""

    workers: int = 1
    attempts: int = 3

    def run(self, shards: Sequence[Shard]) -> None:
        threads = max(1, (os.cpu_count() or 1) // max(self.workers, 1))

        def once(some: Sequence[Shard]) -> list[str]:
            with ThreadPoolExecutor(max(self.workers, 1)) as pool:
                return list(pool.map(lambda shard: _run(shard.command(threads)), some))

        in_rounds(shards, self.attempts, once)


@dataclass(frozen=True, slots=True)
class Ray:
    """The machines of a Ray cluster (`pip install ray`): a task for each shard, with so many cores. Each machine has the program at the
    same path, and sees the folder of rows. `ray.init` is called where nobody did, with `address`."""

    cores: int = 1
    attempts: int = 3
    address: str | None = None

    def run(self, shards: Sequence[Shard]) -> None:
        ray = package("ray", "the executor Ray")
        if not ray.is_initialized():
            ray.init(address=self.address)
        task = ray.remote(_run).options(num_cpus=self.cores)
        in_rounds(shards, self.attempts, lambda some: ray.get([task.remote(shard.command(self.cores)) for shard in some]))


@dataclass(frozen=True, slots=True)
class Slurm:
    """An array of jobs by Slurm, from deploy/slurm-sweep.sbatch; `options` are more of sbatch's: `("--partition=short",
    "--cpus-per-task=8")`. The folder of rows and the program are at the same path everywhere. It waits (`sbatch --wait`)."""

    options: Sequence[str] = ()
    attempts: int = 3
    template: Path | None = None

    def run(self, shards: Sequence[Shard]) -> None:
        script = str(self.template or template("slurm-sweep.sbatch"))

        def once(some: Sequence[Shard]) -> list[str]:
            first = some[0]
            array = ",".join(str(shard.at) for shard in some)
            says = {"SHARDS": str(first.of), "SWEEP": first.sweep, "OUT": first.out, "MILLRACE": first.program}
            command = ["sbatch", "--wait", f"--array={array}", "--export=ALL", *self.options, script]
            return [_tool(command, environment={**os.environ, **says})]

        in_rounds(shards, self.attempts, once)


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """An Indexed Job, from deploy/kubernetes-sweep.yaml, by kubectl: a pod for each shard, of which Kubernetes runs those again that fail.

    `image` has millrace in its path, `claim` is a volume that many may write, and the folder of rows that the sweep is given is where this
    machine sees that volume. Job and config map are called `name`, and replaced where they are there."""

    image: str
    claim: str
    name: str = "millrace-sweep"
    namespace: str = "default"
    attempts: int = 2
    poll_seconds: float = 5.0
    template: Path | None = None

    def run(self, shards: Sequence[Shard]) -> None:
        in_rounds(shards, self.attempts, self._once)

    def manifest(self, shards: Sequence[Shard]) -> str:
        """What kubectl is given: the sweep's file as a config map, and the job."""
        first = shards[0]
        text = (self.template or template("kubernetes-sweep.yaml")).read_text(encoding="utf-8")
        is_file = Path(first.sweep).is_file()
        for old, new in (
            ("  name: millrace-sweep\n", f"  name: {self.name}\n"),
            ("configMap: { name: sweep }", f"configMap: {{ name: {self.name}, optional: {str(not is_file).lower()} }}"),
            ("  completions: 4\n", f"  completions: {first.of}\n"),
            ("  parallelism: 4\n", f"  parallelism: {first.of}\n"),
            ('{ name: SHARDS, value: "4" }', f'{{ name: SHARDS, value: "{first.of}" }}'),
            ("value: /sweep/sweep.toml", f"value: {'/sweep/sweep.toml' if is_file else first.sweep}"),
            ("image: millrace:latest", f"image: {json.dumps(self.image)}"),
            ("claimName: rows", f"claimName: {self.claim}"),
        ):
            if text.count(old) != 1:
                raise MillraceError(f"the template for Kubernetes has no single {old.strip()!r}, which is filled in there")
            text = text.replace(old, new)
        if not is_file:
            return text
        sweep = {"sweep.toml": Path(first.sweep).read_text(encoding="utf-8")}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}, "data": sweep}
        return f"{json.dumps(config)}\n---\n{text}"

    def _once(self, shards: Sequence[Shard]) -> list[str]:
        def kubectl(*words: str) -> list[str]:
            return ["kubectl", "--namespace", self.namespace, *words]

        # A job cannot be changed, so one of this name from before goes.
        _tool(kubectl("delete", "job", self.name, "--ignore-not-found", "--wait=true"))
        if why := _tool(kubectl("apply", "--filename", "-"), given=self.manifest(shards)):
            raise MillraceError(f"kubectl apply: {why}")
        while True:
            state = json.loads(Program("kubectl").ask("--namespace", self.namespace, "get", "job", self.name, "--output", "json"))
            conditions = state.get("status", {}).get("conditions") or ()
            ended = [one for one in conditions if one["type"] in ("Complete", "Failed") and one["status"] == "True"]
            if ended:
                return [f"job {self.name}: {one.get('reason', 'failed')}" for one in ended if one["type"] == "Failed"]
            time.sleep(self.poll_seconds)


def _tool(command: Sequence[str], given: str = "", environment: dict[str, str] | None = None) -> str:
    """Runs a scheduler's program; why it failed, or nothing."""
    try:
        done = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, encoding="utf-8")
    except FileNotFoundError:
        why = f"there is no {command[0]} on PATH: this executor runs where its scheduler's programs are installed"
        raise MillraceError(why) from None
    return "" if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr.strip()}"


def template(name: str) -> Path:
    """A template of deploy/: in this package, or in the repository that it is in."""
    here = Path(__file__).parent
    for path in (here / name, here.parents[2] / "deploy" / name):
        if path.is_file():
            return path
    raise MillraceError(f"{name} is not in this package: pass template= with its path in millrace's repository, deploy/{name}")
