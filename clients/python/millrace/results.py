"""What the model says, as rows: to go through, to look something up in, or as a pandas DataFrame."""

from __future__ import annotations

import csv
import importlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .errors import MillraceError


class NoPackage(MillraceError):
    """Something optional is not installed; the message says what, and what for."""


def package(name: str, what_for: str) -> Any:
    """An optional package. Raises `NoPackage`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise NoPackage(f"{what_for} needs {name}, which is not installed: pip install {name}") from None


def frame_of(records: Iterable[Mapping[str, object]]) -> Any:
    """Records as a pandas DataFrame, a column for each field. Raises `NoPackage` where pandas is not installed."""
    return package("pandas", "frame()").DataFrame(list(records))


@dataclass(frozen=True, slots=True)
class Row:
    """A value of an experiment: what was measured of which variant at which point. `value` is nan where the model has no number."""

    experiment: str
    variant: str
    point: str
    metric: str
    unit: str
    value: float
    ci95: float = 0.0


@dataclass(frozen=True, slots=True)
class Rows(Sequence[Row]):
    """The rows of a run, and what it was made with."""

    rows: Sequence[Row]
    model: str = ""
    seed: int | None = None
    platforms: Sequence[str] = ()

    @staticmethod
    def of_lines(text: str) -> Rows:
        """Of what `millrace repro … --json` prints."""
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        first = lines[0] if lines else {}
        return Rows([_row(line) for line in lines], first.get("model", ""), first.get("seed"), tuple(first.get("platforms", ())))

    def __getitem__(self, at: Any) -> Any:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def find(self, experiment: str, variant: str, point: str, metric: str) -> Row | None:
        """The row at a place."""
        at = (experiment, variant, point, metric)
        return next((row for row in self.rows if (row.experiment, row.variant, row.point, row.metric) == at), None)

    def frame(self) -> Any:
        """As a pandas DataFrame."""
        return frame_of(asdict(row) for row in self.rows)

    def write(self, path: str | Path) -> None:
        """Writes them as `millrace repro … --json` does, for `diff`."""
        made = {"model": self.model, "seed": self.seed, "platforms": list(self.platforms)}
        with open(path, "w", encoding="utf-8") as file:
            for row in self.rows:
                # JSON has no word for what is no number.
                value = None if math.isnan(row.value) else row.value
                file.write(json.dumps({**asdict(row), "value": value, **made}, ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A row of a run of a sweep: `at` is the run's point, by number (`platform | number`)."""

    run: int
    seed: int
    at: Mapping[str, float]
    row: Row

    def record(self) -> dict[str, object]:
        """In one level."""
        return {"run": self.run, "seed": self.seed, **self.at, **asdict(self.row)}


@dataclass(frozen=True, slots=True)
class SweepRows(Sequence[SweepRow]):
    """All rows of a sweep, in the order of runs, and the file that has them."""

    rows: Sequence[SweepRow]
    file: Path
    digest: str = field(default="")

    @staticmethod
    def of_file(path: str | Path, digest: str = "") -> SweepRows:
        """Of a file that `millrace sweep merge` wrote."""
        with open(path, encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            axes = [name for name in table.fieldnames or () if " | " in name]
            rows = [SweepRow(int(row["run"]), int(row["seed"]), {axis: float(row[axis]) for axis in axes}, _row(row)) for row in table]
        return SweepRows(rows, Path(path), digest)

    def __getitem__(self, at: Any) -> Any:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[SweepRow]:
        return iter(self.rows)

    def frame(self) -> Any:
        """As a pandas DataFrame, a column for each axis."""
        return frame_of(row.record() for row in self.rows)


def _row(record: Mapping[str, Any]) -> Row:
    value = record["value"]
    value = math.nan if value is None else float(value)
    at = (record["experiment"], record["variant"], record["point"], record["metric"])
    return Row(*at, record["unit"], value, float(record["ci95"]))
