"""A scoreboard on a folder of rows, in a process of its own; what came of it is kept."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tools.rehearsal.folders import Given, part
from tools.rehearsal.tables import Take

ScoredRow: TypeAlias = Mapping[str, Any]
WITHIN = 1e-6
"""Relative difference of an error that summing in another order may make."""


@dataclass(frozen=True)
class Run:
    """One call of `slipstick validate`: its exit code, CPU seconds, the end of stderr, and its rows."""

    code: int
    seconds: float
    errors: str
    rows: tuple[ScoredRow, ...]

    @property
    def broke(self) -> bool:
        """Neither done, nor a goal missed, nor nothing to score: a defect, or killed."""
        return self.code not in (0, 1, 2)


@dataclass(frozen=True)
class Outcome:
    """A rehearsal: what was given, and the runs with the given rows among the public ones and without them."""

    take: Take
    given: Given
    known: Run
    unknown: Run | None

    @property
    def leak(self) -> float | None:
        """Largest relative difference of an error of ours between the two runs; None without the second."""
        if self.unknown is None:
            return None
        other = {place(row): row["ours"] for row in self.unknown.rows}
        pairs = [(row["ours"], other.get(place(row))) for row in self.known.rows if timeless(row)]
        return max((apart(one, two) for one, two in pairs), default=0.0)

    @property
    def wrong(self) -> bool:
        """Whether a run ended as none should, or knowing the rows changed their scores."""
        runs = [run for run in (self.known, self.unknown) if run is not None]
        return any(run.broke for run in runs) or (self.leak or 0.0) > WITHIN


def place(row: ScoredRow) -> tuple[str, ...]:
    """What makes two rows the same question."""
    return tuple(str(row[key]) for key in ("dataset", "case", "held_out", "metric", "n"))


def timeless(row: ScoredRow) -> bool:
    """Whether a row says the same whenever it is made: no processor time."""
    return row["ours"] is not None and row["unit"] not in ("s", "1/s")


def apart(one: float, other: float | None) -> float:
    """Relative difference of two errors; infinite where one is missing."""
    if other is None:
        return float("inf")
    return abs(one - other) / max(abs(one), abs(other), 1e-12) if one != other else 0.0


def rehearsed(take: Take, public: Path, out: Path, *, once: bool = False) -> Outcome:
    """Take the rows out, and score them twice; what is kept below `out` is read."""
    folder = (out / take.name).resolve()
    kept = folder / "given.json"
    if kept.exists():
        document = json.loads(kept.read_text())
        given = Given(tuple(document["groups"]), document["rows"])
    else:
        given = part(take, public, folder / "given", folder / "rest")
        kept.write_text(json.dumps(asdict(given), indent=1))
    command = [take.board, "--data", str(folder / "given")]
    known = validated(command, public, folder / "known.json")
    return Outcome(take, given, known, None if once else validated(command, folder / "rest", folder / "unknown.json"))


def validated(words: Sequence[str], public: Path, kept: Path, limit_s: float = 3600.0) -> Run:
    """The rows of `slipstick validate WORDS`, learnt from `public`; from the file where it stands already."""
    if kept.exists():
        document = json.loads(kept.read_text())
        return Run(document["code"], document["seconds"], document["errors"], tuple(document["rows"]))
    command = [sys.executable, "-m", "slipstick", "validate", *words, "--format", "json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"rehearse: {' '.join(command[2:])}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command, env={**os.environ, "SLIPSTICK_DATA": str(public)}, capture_output=True, text=True, timeout=limit_s
        )
        code, told, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, told, errors = 124, "", f"not done after {limit_s:g} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rows = json.loads(told) if told.strip() else []
    made = Run(code, seconds, errors[-2000:], tuple(rows))
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(asdict(made), indent=1))
    return made
