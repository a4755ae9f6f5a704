"""`millrace.model` with the real program: MILLRACE_BIN or the one on PATH; without one these are skipped, and say so.

Slurm and Kubernetes are programs of these names that run what they are given, and Ray a module with the four functions that the
executor calls, unless it is installed: what is tested is what we ask of them, not them."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import types
import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

from millrace import model
from millrace.errors import MillraceError
from millrace.executors import missing, template
from millrace.program import Program
from millrace.sweeps import toml

PROGRAM = shutil.which(os.environ.get("MILLRACE_BIN", "millrace"))
README = Path(__file__).parents[3] / "docs" / "python-model.md"

# Rows do not depend on latencies, so that twelve runs take no time.
SWEEP = model.Sweep(
    "packets over latencies",
    "F4",
    [
        model.Axis("bluefield2-ib | pcie.latency", range=(100, 250), steps=4),
        model.Axis("bluefield2-ib | dram.latency", values=[60, 90, 150]),
    ],
    keep=["SNIC ② | READ 64 B | PCIe1 packets"],
)

# Beside the program: runs it, and the first time of shard 1 leaves what a kill leaves, half of its last run.
DYING = """#!/bin/sh
"$REAL" "$@" || exit
case "$*" in *"--shard 1/"*) ;; *) exit 0 ;; esac
[ -e "$ONCE" ] && exit 0
touch "$ONCE"
file=$(ls "$OUT_OF_TEST"/shard-1-of-*.csv)
truncate -s -20 "$file"
kill -KILL $$
"""


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        if PROGRAM is None:
            self.skipTest("there is no millrace: set MILLRACE_BIN, or put it on PATH")
        folder = tempfile.TemporaryDirectory(prefix="millrace-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name: str, text: str) -> Path:
        """A program in a folder that is first on PATH."""
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def environment(self, **more: str) -> Any:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return mock.patch.dict(os.environ, {"PATH": path, **more})

    def dying(self, out: Path) -> Any:
        """An environment in which the program dies once."""
        text = DYING.replace("$REAL", str(PROGRAM)).replace("$ONCE", str(self.folder / "once")).replace("$OUT_OF_TEST", str(out))
        return self.environment(MILLRACE_BIN=str(self.program("millrace", text)))

    def whole(self) -> model.SweepRows:
        return model.sweep(SWEEP, self.folder / "whole", program=PROGRAM)


class Asked(Folder):
    def test_a_plan_is_what_the_program_says(self) -> None:
        plan = model.plan("key-value-cache", "bluefield2-ib", top=2, slo={"p99": "50us"}, rate="5M", program=PROGRAM)
        self.assertEqual((plan.platform, plan.workload, plan.rate), ("bluefield2-ib", "key-value-cache", 5e6))
        self.assertEqual(plan.first, plan.ranking[0]["name"])
        self.assertGreater(plan.throughput, 5e6)
        self.assertEqual(plan.records()[0]["p99"], plan.ranking[0]["at_rate"]["p99"])
        fewer = model.plan("key-value-cache", "bluefield2-ib", top=1, values={"network.latency": "100us"}, program=PROGRAM)
        self.assertIn("network.latency", json.dumps(fewer.answer["what_if"]))

    def test_a_workload_may_be_a_mapping(self) -> None:
        get = {"name": "GET", "share": 1.0, "request": "16 B", "reply": "64 B", "lookups": 2, "lookup": "64 B"}
        workload = {"name": "mine", "title": "t", "keys": 1000, "working_set": "1 MiB", "window": 8, "class": [get]}
        both = model.machines(workload, ["connectx6", "pcie-rpc-accelerator", "xpliant-octeon"], top=1, program=PROGRAM)
        self.assertEqual({plan.workload for plan in both.plans}, {"mine"})
        self.assertEqual(len(both.plans) + len(both.cannot), 3)

    def test_rows_are_those_of_the_program_and_can_be_compared(self) -> None:
        rows = model.repro("F4", program=PROGRAM)
        first = rows[0]
        self.assertEqual(rows.find(first.experiment, first.variant, first.point, first.metric), first)
        self.assertEqual(len(rows), len(Program.find(PROGRAM).ask("repro", "run", "F4", "--json").splitlines()))
        same = model.diff(rows, rows, program=PROGRAM)
        self.assertEqual((same["moved"], same["same_model"]), (0, True))
        faster = [model.Row(**{name: getattr(first, name) for name in first.__slots__} | {"value": first.value * 2}), *rows[1:-1]]
        moved = model.diff(rows, model.Rows(faster, rows.model, rows.seed), program=PROGRAM)
        self.assertEqual((moved["moved"], moved["went"], moved["came"]), (1, 1, 0))
        self.assertAlmostEqual(moved["rows"][0]["change"], 1.0)

    def test_platforms_and_experiments_that_are_mappings(self) -> None:
        names = [one.name for one in model.platforms(PROGRAM)]
        self.assertIn("bluefield2-ib", names)
        own = {"id": "MINE", "title": "t", "platforms": ["bluefield2-ib"], "workload": "disaggregated-kv", "alternatives": ["A4"]}
        rows = model.repro({**own, "windows": [1, 8], "span": "20us", "warm_up": "5us"}, program=PROGRAM)
        self.assertEqual({row.point for row in rows}, {"", "1 under way", "8 under way"})
        self.assertTrue(all(math.isfinite(row.value) and row.experiment == "MINE" for row in rows))

    def test_frames_where_pandas_is_installed_and_a_word_where_not(self) -> None:
        rows = model.repro("F4", program=PROGRAM)
        with mock.patch.dict(sys.modules, {"pandas": None}), self.assertRaisesRegex(model.NoPackage, "pip install pandas"):
            rows.frame()
        if importlib.util.find_spec("pandas") is None:
            # A stand-in that is given what pandas would be.
            stand_in = types.SimpleNamespace(DataFrame=lambda records: list(records))
            with mock.patch.dict(sys.modules, {"pandas": stand_in}):  # type: ignore[dict-item]
                self.assertEqual(rows.frame()[0]["variant"], rows[0].variant)
        else:
            self.assertEqual(list(rows.frame().columns), ["experiment", "variant", "point", "metric", "unit", "value", "ci95"])

    def test_what_is_wrong_is_said_by_the_program(self) -> None:
        with self.assertRaisesRegex(model.Failed, "no experiment F99") as failed:
            model.repro("F99", program=PROGRAM)
        self.assertEqual(failed.exception.status, 1)
        with self.assertRaisesRegex(model.Failed, "neither a file nor a shipped"):
            model.plan("key-value-cache", "nothing", program=PROGRAM)


class Found(unittest.TestCase):
    def test_a_program_that_is_not_there_says_what_to_do(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": "", "MILLRACE_BIN": ""}), self.assertRaisesRegex(model.NoProgram, "set MILLRACE_BIN"):
            Program.find()
        with mock.patch.dict(os.environ, {"MILLRACE_BIN": "/nowhere/millrace"}), self.assertRaisesRegex(model.NoProgram, "MILLRACE_BIN"):
            Program.find()
        with self.assertRaisesRegex(model.NoProgram, "program= says /nowhere"):
            Program.find("/nowhere/millrace")
        self.assertEqual(Program.find(sys.executable).path, os.path.abspath(sys.executable))

    def test_files_are_toml(self) -> None:
        import tomllib

        table = {"a": "x\n\"\\ü②\x7f", "b": [1, 2.5, True], "c d": {"A2 by ③": 0.25, "e": [{"f": "g"}]}, "h": 1e-9}
        self.assertEqual(tomllib.loads(toml(table)), table)
        for wrong, kind in ((math.nan, ValueError), (object(), TypeError)):
            with self.assertRaises(kind):
                toml({"a": wrong})


class Swept(Folder):
    def test_shards_make_the_rows_of_the_whole(self) -> None:
        whole = self.whole()
        self.assertEqual(len(whole), 12)
        self.assertEqual(whole[0].at, {"bluefield2-ib | pcie.latency": 100.0, "bluefield2-ib | dram.latency": 60.0})
        parts = model.sweep(SWEEP, self.folder / "parts", executor=model.Local(workers=2), shards=3, program=PROGRAM)
        self.assertEqual((parts.digest, list(parts)), (whole.digest, list(whole)))
        by_name = model.sweep("pcie-latency", self.folder / "named", program=PROGRAM)
        self.assertGreater(len(by_name), len(whole))
        with self.assertRaisesRegex(MillraceError, "another sweep"):
            model.sweep(model.Sweep("other", "F4", SWEEP.axes[:1]), self.folder / "parts", program=PROGRAM)

    def test_a_sweep_of_an_experiment_that_is_a_file(self) -> None:
        file = self.folder / "mine.toml"
        own = {"id": "MINE", "title": "t", "platforms": ["bluefield2-ib"], "workload": "disaggregated-kv", "alternatives": ["A1"]}
        file.write_text(toml({**own, "windows": [1], "span": "20us"}))
        axis = model.Axis("bluefield2-ib | network.latency", values=[150, 400])
        rows = model.sweep(model.Sweep("s", file, [axis], keep=["* | | unloaded latency"]), self.folder / "rows", program=PROGRAM)
        near, far = (row.row.value for row in rows)
        self.assertLess(near, far)

    def test_a_shard_that_dies_is_resumed(self) -> None:
        out = self.folder / "cut"
        with self.dying(out):
            rows = model.sweep(SWEEP, out, executor=model.Local(), shards=2)
        self.assertTrue((self.folder / "once").exists())
        self.assertEqual(rows.digest, self.whole().digest)

    def test_shards_that_never_end_are_named(self) -> None:
        out = self.folder / "never"
        with self.dying(out), self.assertRaisesRegex(model.ShardsFailed, r"shards 1/2 did not end(.|\n)*exit status") as failed:
            model.sweep(SWEEP, out, executor=model.Local(attempts=1), shards=2)
        [shard] = failed.exception.shards
        self.assertEqual(missing([shard]), [shard])
        self.assertEqual(model.sweep(SWEEP, out, shards=2, program=PROGRAM).digest, self.whole().digest)

    def test_slurm(self) -> None:
        """sbatch runs the script for each index of its array, with the environment that it was given."""
        log = self.folder / "asked"
        self.program(
            "sbatch",
            f"""#!/bin/sh
echo "$@" >> {log}
status=0
for word; do case "$word" in --array=*) array=$(echo "${{word#--array=}}" | tr , ' ') ;; esac; script=$word; done
for at in $array; do SLURM_ARRAY_TASK_ID=$at SLURM_CPUS_PER_TASK=1 /bin/bash "$script" || status=$?; done
exit $status
""",
        )
        out = self.folder / "slurm"
        with self.dying(out):
            rows = model.sweep(SWEEP, out, executor=model.Slurm(options=("--partition=short",)), shards=3)
        self.assertEqual(rows.digest, self.whole().digest)
        first, second = log.read_text().splitlines()
        self.assertTrue(first.startswith("--wait --array=0,1,2 --export=ALL --partition=short "), first)
        self.assertIn("--array=1 ", second)

    def test_kubernetes(self) -> None:
        """kubectl takes a config map and a job, and runs what the job's pods would; one that dies is run again, as its backoff says."""
        volumes = self.folder / "volumes"
        self.program(
            "kubectl", f"#!{sys.executable}\nVOLUMES = {str(volumes)!r}\nCLAIM = {str(self.folder / 'claim')!r}\n" + KUBECTL
        )
        out = self.folder / "claim"
        with self.dying(out):
            job = model.Kubernetes("registry.example/millrace:1", "shared", name="mine", poll_seconds=0.0)
            rows = model.sweep(SWEEP, out, executor=job, shards=3)
        self.assertEqual(rows.digest, self.whole().digest)
        asked = json.loads((volumes / "job.json").read_text())
        self.assertEqual(asked, {"image": "registry.example/millrace:1", "completions": 3, "claim": "shared", "pods": [0, 1, 1, 2]})

    def test_a_template_that_was_changed_is_refused(self) -> None:
        changed = self.folder / "changed.yaml"
        changed.write_text(template("kubernetes-sweep.yaml").read_text().replace("completions: 4", "completions: 5"))
        shard = model.Shard(0, 1, "pcie-latency", str(self.folder), str(PROGRAM))
        with self.assertRaisesRegex(MillraceError, "completions"):
            model.Kubernetes("i", "c", template=changed).manifest([shard])
        shipped = model.Kubernetes("i", "c").manifest([shard])
        self.assertIn("name: SWEEP, value: pcie-latency", shipped)
        with self.environment(PATH=""), self.assertRaisesRegex(MillraceError, "no sbatch on PATH"):
            model.Slurm().run([shard])

    def test_ray(self) -> None:
        stand_in = {} if importlib.util.find_spec("ray") else {"ray": ray()}
        if stand_in:
            print("ray is not installed: a stand-in of its four functions is used", file=sys.stderr)
        out = self.folder / "ray"
        with mock.patch.dict(sys.modules, stand_in), self.dying(out):
            rows = model.sweep(SWEEP, out, executor=model.Ray(), shards=2)
        self.assertEqual(rows.digest, self.whole().digest)
        with mock.patch.dict(sys.modules, {"ray": None}), self.assertRaisesRegex(model.NoPackage, "pip install ray"):
            model.Ray().run([])


class Documented(Folder):
    def test_the_tutorial_runs(self) -> None:
        """What docs/python-model.md shows under *Ten lines*, as it stands there."""
        if not README.exists():
            self.skipTest("this is not millrace's repository")
        code = re.search(r"## Ten lines\n.*?```python\n(.*?)```", README.read_text(), re.DOTALL)
        assert code is not None
        path = str(Path(__file__).parents[1])
        with mock.patch.dict(os.environ, {"MILLRACE_BIN": str(PROGRAM), "PYTHONPATH": path}):
            done = subprocess.run([sys.executable, "-c", code[1]], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 4, done.stdout)


KUBECTL = r"""
import json, os, pathlib, re, subprocess, sys
volumes = pathlib.Path(VOLUMES)
volumes.mkdir(exist_ok=True)
words = sys.argv[3:]
assert sys.argv[1:3] == ["--namespace", "default"], sys.argv
if words[:2] == ["delete", "job"]:
    (volumes / "job.json").unlink(missing_ok=True)
elif words[0] == "apply":
    config, job = sys.stdin.read().split("\n---\n")
    config = json.loads(config)
    (volumes / "sweep.toml").write_text(config["data"]["sweep.toml"])
    found = lambda pattern: re.search(pattern, job)[1]
    assert found(r"configMap: { name: ([\w-]+),") == config["metadata"]["name"] == "mine"
    says = dict(re.findall(r'{ name: ([A-Z]+), value: "?([^" ]+)"? }', job))
    says = {name: value.replace("/sweep/", f"{VOLUMES}/").replace("/rows", CLAIM) for name, value in says.items()}
    script = found(r"args: \['(.*)'\]")
    pods = []
    for at in range(int(found(r"completions: (\d+)"))):
        for attempt in range(1 + int(found(r"backoffLimitPerIndex: (\d+)"))):
            pods.append(at)
            environment = {**os.environ, **says, "JOB_COMPLETION_INDEX": str(at)}
            if subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True).returncode == 0:
                break
    asked = {"image": json.loads(found(r"image: (.*)")), "completions": int(says["SHARDS"])}
    asked |= {"claim": found(r"claimName: (\w+)"), "pods": pods}
    (volumes / "job.json").write_text(json.dumps(asked))
else:
    assert words == ["get", "job", "mine", "--output", "json"], words
    assert (volumes / "job.json").exists()
    conditions = [{"type": name, "status": "True"} for name in ("SuccessCriteriaMet", "Complete")]
    print(json.dumps({"status": {"conditions": conditions}}))
"""


def ray() -> types.ModuleType:
    """What the executor calls of Ray, on threads."""
    module = types.ModuleType("ray")
    pool = ThreadPoolExecutor(2)

    class Task:
        def __init__(self, function: Any) -> None:
            self.function = function

        def options(self, num_cpus: int) -> Task:
            assert num_cpus == 1
            return self

        def remote(self, *arguments: Any) -> Future[Any]:
            return pool.submit(self.function, *arguments)

    started: list[object] = []
    module.is_initialized = lambda: bool(started)  # type: ignore[attr-defined]
    module.init = lambda address: started.append(address)  # type: ignore[attr-defined]
    module.remote = Task  # type: ignore[attr-defined]
    module.get = lambda futures: [one.result() for one in futures]  # type: ignore[attr-defined]
    return module


if __name__ == "__main__":
    unittest.main()
