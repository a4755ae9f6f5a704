"""Sweeps, experiments and workloads as Python values, and the files that say them (docs/sweep.md, docs/extend-model.md)."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Axis:
    """A number of a platform (`platform | number`) and where it is moved: to these values; or within a range, its own if none is said, in
    `steps` of a grid."""

    number: str
    values: Sequence[float] = ()
    range: tuple[float, float] | None = None
    steps: int | None = None
    scale: Literal["linear", "log"] = "linear"
    beyond: bool = False

    def table(self) -> dict[str, object]:
        """What the file says of it."""
        table: dict[str, object] = {"number": self.number}
        if self.values:
            table["values"] = list(self.values)
        if self.range is not None:
            table["range"] = list(self.range)
        if self.steps is not None:
            table["steps"] = self.steps
        if self.scale != "linear":
            table["scale"] = self.scale
        if self.beyond:
            table["beyond"] = True
        return table


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep: an experiment at many points. With `points` a Latin hypercube of so many, else the grid of all combinations.

    `experiment` is an id (`millrace repro list`), the path of an experiment's file (it ends in .toml), or what such a file says as a
    mapping. `keep` are the rows to keep, `variant | point | metric` with `*` for any."""

    title: str
    experiment: str | Path | Mapping[str, object]
    axes: Sequence[Axis]
    seeds: Sequence[int] = (1,)
    keep: Sequence[str] = ()
    points: int | None = None
    points_seed: int = field(default=1)

    def text(self) -> str:
        """The file. It says all of the sweep, so that it can go to another machine."""
        experiment: object = self.experiment
        if isinstance(experiment, Path) or (isinstance(experiment, str) and experiment.endswith(".toml")):
            experiment = tomllib.loads(Path(experiment).read_text(encoding="utf-8"))
        table: dict[str, object] = {"title": self.title, "experiment": experiment, "seeds": list(self.seeds)}
        if self.keep:
            table["keep"] = list(self.keep)
        if self.points is not None:
            table["design"] = {"kind": "latin-hypercube", "points": self.points, "seed": self.points_seed}
        return toml({**table, "axis": [axis.table() for axis in self.axes]})


def toml(table: Mapping[str, object]) -> str:
    """A table as the text of a file: a line for each key, tables within it in braces."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    plain = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if plain else json.dumps(key, ensure_ascii=False)


def _value(value: object) -> str:
    # In this order: a bool is an int, and a text a sequence.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number that a file of the model can have")
        return repr(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(key))} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    raise TypeError(f"{value!r} is no text, number, list or mapping, which is what a file can have")
