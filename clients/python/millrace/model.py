"""The hardware model: plans, evaluations of published systems, sweeps; what it says as values, rows and DataFrames.

    from millrace import model

    print(model.plan("key-value-cache", "bluefield2-ib").advice["why"])
    slower = model.Sweep("memory", "F4", [model.Axis("bluefield2-ib | dram.latency", values=[60, 90, 150])])
    print(model.sweep(slower, "rows", executor=model.Local(workers=2), shards=2).frame())

It runs the `millrace` program (`program=`, MILLRACE_BIN, or PATH). Workloads, platforms and experiments are names of shipped ones, paths
of files, or mappings that say what a file would."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

from .errors import MillraceError
from .executors import Executor, Kubernetes, Local, Ray, Shard, ShardsFailed, Slurm
from .program import Failed, NoProgram, Program
from .results import NoPackage, Row, Rows, SweepRow, SweepRows, frame_of
from .sweeps import Axis, Sweep, toml

Source: TypeAlias = str | os.PathLike[str] | Mapping[str, object]
Named: TypeAlias = str | os.PathLike[str] | None

__all__ = [
    "Asked", "Axis", "Executor", "Failed", "Kubernetes", "Local", "Machines", "NoPackage", "NoProgram", "Plan", "Platform", "Ray", "Row",
    "Rows", "Shard", "ShardsFailed", "Slurm", "Sweep", "SweepRow", "SweepRows", "diff", "machines", "plan", "platforms", "repro", "sweep",
    "validate",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer of `millrace plan`. `ranking` has the best first; rates are requests per second, times seconds. `answer` is all of it,
    as `--json` has it."""

    workload: str
    platform: str
    objective: str
    rate: float
    advice: Mapping[str, Any]
    ranking: Sequence[Mapping[str, Any]]
    alternatives: Sequence[Mapping[str, Any]]
    answer: Mapping[str, Any]

    @staticmethod
    def of(answer: Mapping[str, Any]) -> Plan:
        """Of what `millrace plan --json` prints."""
        of = (answer["workload"], answer["platform"], answer["objective"], answer["rate"])
        return Plan(*of, answer["advice"], answer["ranking"], answer["alternatives"], answer)

    @property
    def first(self) -> str:
        """What is best."""
        return str(self.ranking[0]["name"])

    @property
    def throughput(self) -> float:
        """The most that the first serves, in requests per second, as simulated; as computed where it was not."""
        saturated = self.ranking[0]["saturated"]
        return float(saturated["rate"] if saturated else self.ranking[0]["most"])

    def records(self) -> list[dict[str, object]]:
        """A record for each place of the ranking."""
        figures = ("rate", "mean", "p50", "p99", "host_cores", "watts")
        of = {"workload": self.workload, "platform": self.platform}
        return [
            {**of, "name": one["name"], "most": one["most"], "saturated": (one["saturated"] or {}).get("rate")}
            | {name: (one["at_rate"] or {}).get(name) for name in figures}
            for one in self.ranking
        ]

    def frame(self) -> Any:
        """The ranking as a pandas DataFrame."""
        return frame_of(self.records())


@dataclass(frozen=True, slots=True)
class Machines:
    """One workload on several machines: the plans of those that serve it, best first, and why the others cannot."""

    plans: Sequence[Plan]
    cannot: Mapping[str, str]

    def frame(self) -> Any:
        """The first of each machine as a pandas DataFrame."""
        return frame_of(one.records()[0] for one in self.plans)


@dataclass(frozen=True, slots=True)
class Platform:
    """A shipped platform, and how many of its numbers are of which class."""

    name: str
    title: str
    family: str
    numbers: int
    classes: Mapping[str, int]


def platforms(program: Named = None) -> list[Platform]:
    """The shipped platforms."""
    listed = json.loads(Program.find(program).ask("model", "platforms", "--json"))
    return [Platform(one["platform"], one["title"], one["family"], one["numbers"], one["classes"]) for one in listed]


class Asked(TypedDict, total=False):
    """What else a plan may be asked: options of `millrace plan`. `slo` is as `{"p99": "20us"}`, `values` are numbers that are set
    otherwise, as `{"soc.cores": "16", "workload.GET.reply": "1KiB"}`."""

    objective: str
    slo: Mapping[str, str]
    rate: float | str
    top: int
    seed: int
    values: Mapping[str, str]


def plan(workload: Source, platform: Source, *, program: Named = None, **asked: Unpack[Asked]) -> Plan:
    """Who should serve a workload on a machine."""
    return Plan.of(_plan(workload, [platform], program, asked))


def machines(workload: Source, on: Sequence[Source] = ("all",), *, program: Named = None, **asked: Unpack[Asked]) -> Machines:
    """The same on several machines: names, files, mappings; all that are shipped, if none is said."""
    if len(on) == 1 and on[0] != "all":
        return Machines([plan(workload, on[0], program=program, **asked)], {})
    each = _plan(workload, on, program, asked)["platforms"]
    plans = [Plan.of(one["answer"]) for one in each if "answer" in one]
    return Machines(plans, {one["platform"]: one["cannot"] for one in each if "cannot" in one})


def _plan(workload: Source, on: Sequence[Source], program: Named, asked: Asked) -> dict[str, Any]:
    words = ["plan", "--json"]
    given: dict[str, object] = {**asked}
    for name in given.keys() & {"objective", "rate", "top", "seed"}:
        words += [f"--{name}", str(given[name])]
    if "slo" in asked:
        words += ["--slo", ",".join(f"{name}={limit}" for name, limit in asked["slo"].items())]
    for name, value in asked.get("values", {}).items():
        words += ["--set", f"{name}={value}"]
    with ExitStack() as stack:
        words += ["--workload", stack.enter_context(_file(workload))]
        for machine in on:
            words += ["--platform", stack.enter_context(_file(machine))]
        answer: dict[str, Any] = json.loads(Program.find(program).ask(*words))
    return answer


def repro(*experiments: Source, seed: int = 1, platforms: Sequence[Source] = (), program: Named = None) -> Rows:
    """Rows of experiments: ids, files, or mappings that say what a file would; of all that are shipped, if none is said. `platforms`
    stand in place of shipped ones of their names."""
    with ExitStack() as stack:
        words = ["run", *(stack.enter_context(_file(one)) for one in experiments)] if experiments else ["all"]
        for machine in platforms:
            words += ["--platform", stack.enter_context(_file(machine))]
        return Rows.of_lines(Program.find(program).ask("repro", *words, "--json", "--seed", str(seed)))


def diff(before: Rows | str | Path, after: Rows | str | Path, above: str = "1%", program: Named = None) -> dict[str, Any]:
    """What moved between two runs, as `millrace repro diff --json` says it: of rows, or of files of them."""
    with tempfile.TemporaryDirectory(prefix="millrace-") as folder:
        files = []
        for name, one in (("before", before), ("after", after)):
            file = Path(folder) / f"{name}.jsonl" if isinstance(one, Rows) else Path(one)
            if isinstance(one, Rows):
                one.write(file)
            files.append(str(file))
        said = Program.find(program).ask("repro", "diff", *files, "--above", above, "--json", good=(0, 1))
    answer: dict[str, Any] = json.loads(said)
    return answer


def validate(system: str | None = None, *, quick: bool = False, seed: int = 1, program: Named = None) -> list[dict[str, Any]]:
    """How well the model tells published results that were left out of its fit: a record for each. It takes minutes; `quick` less, and is
    a first look."""
    words = ["model", "validate", "--json", "--seed", str(seed), *(["--system", system] if system else []), *(["--quick"] if quick else [])]
    lines = Program.find(program).ask(*words).splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def sweep(of: Sweep | Source, out: str | Path, *, executor: Executor | None = None, shards: int = 1, program: Named = None) -> SweepRows:
    """Runs a sweep into a folder, and gives its rows: on this machine, unless an executor says otherwise, in so many shards. Runs that the
    folder has are kept, so that it may be called again after whatever went wrong. `of` is a `Sweep`, a shipped sweep by name, a file, or a
    mapping that says what a file would."""
    if shards < 1:
        raise ValueError("a sweep has at least one shard")
    found, folder = Program.find(program), Path(out).absolute()
    name = _settled(of, folder)
    parts = [Shard(at, shards, name, str(folder), found.path) for at in range(shards)]
    (executor or Local()).run(parts)
    merged = folder / "merged"
    line = found.ask("sweep", "merge", str(folder), "--out", str(merged))
    return SweepRows.of_file(merged / "rows.csv", line.split("digest", 1)[-1].split(",")[0].strip())


def _settled(of: Sweep | Source, folder: Path) -> str:
    """The sweep as the program is told it; what is no file yet is written beside its rows, where every machine sees it."""
    if not isinstance(of, Sweep | Mapping):
        return str(Path(of).absolute()) if Path(of).is_file() else os.fspath(of)
    text = of.text() if isinstance(of, Sweep) else toml(of)
    file = folder / "sweep.toml"
    if file.exists() and file.read_text(encoding="utf-8") != text:
        raise MillraceError(f"{folder} is of another sweep, or of this one before it was changed; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return str(file)


@contextmanager
def _file(source: Source) -> Iterator[str]:
    """A name or path as it is; of a mapping the path of a file, for as long as it is needed."""
    if not isinstance(source, Mapping):
        yield os.fspath(source)
        return
    with tempfile.TemporaryDirectory(prefix="millrace-") as folder:
        file = Path(folder) / "given.toml"
        file.write_text(toml(source), encoding="utf-8")
        yield str(file)
