"""The `millrace` program, for what it computes and Python does not: where it is, and how it is asked."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import MillraceError

_HOW = "`cargo install --path crates/millrace --no-default-features --features model` makes one"


class NoProgram(MillraceError):
    """There is no `millrace` program where one was looked for; the message says what to do."""


class Failed(MillraceError):
    """The program said no: what it was asked, its exit status, and what it said."""

    def __init__(self, command: Sequence[str], status: int, said: str) -> None:
        super().__init__(f"{' '.join(command)} (exit status {status}): {said.strip() or 'it said nothing'}")
        self.command = list(command)
        self.status = status
        self.said = said


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was found."""

    path: str

    @staticmethod
    def find(named: str | os.PathLike[str] | None = None) -> Program:
        """The program that is named here, else by MILLRACE_BIN, else the one on PATH. Raises `NoProgram`."""
        for where, name in (("program=", named), ("MILLRACE_BIN", os.environ.get("MILLRACE_BIN"))):
            if name:
                path = shutil.which(os.fspath(name))
                if path is None:
                    raise NoProgram(f"{where} says {os.fspath(name)}, which is no program that can be run; {_HOW}")
                return Program(os.path.abspath(path))
        path = shutil.which("millrace")
        if path is None:
            why = "there is no millrace on PATH: put it there, set MILLRACE_BIN to its path, or pass program="
            raise NoProgram(f"{why}; {_HOW}")
        return Program(os.path.abspath(path))

    def ask(self, *words: str, good: Sequence[int] = (0,)) -> str:
        """What it prints. Raises `Failed` with what it says where its exit status is none of `good`."""
        command = [self.path, *words]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        if done.returncode not in good:
            raise Failed(command, done.returncode, done.stderr)
        return done.stdout
