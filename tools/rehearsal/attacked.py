"""What strangers' folders do to a scoreboard: nothing may break, vanish unsaid, or change what the good rows say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.rehearsal.folders import part
from tools.rehearsal.runs import WITHIN, Run, ScoredRow, apart, timeless, validated
from tools.rehearsal.strangers import STRANGERS, Stranger, changed, thinned
from tools.rehearsal.tables import Take

GIVEN, KNOWN = 400, 4000
"""Rows of a table that are given, and that are known: strangeness needs no accuracy."""


@dataclass(frozen=True)
class Attack:
    """A stranger's folder, how its run ended, and what was wrong with that; nothing, where all is well."""

    take: Take
    stranger: str
    run: Run
    faults: tuple[str, ...]

    def line(self) -> str:
        """One line of a report."""
        count = sum(row["n"] for row in self.run.rows)
        return (
            f"{self.take.name}, {self.stranger}: code {self.run.code}, {count} scored: {'; '.join(self.faults) or 'ok'}"
        )


def attacked(take: Take, public: Path, out: Path) -> Iterator[Attack]:
    """Every stranger's folder of a rehearsal, beside the plain one; what is kept below `out` is read."""
    folder = (out / f"{take.name}-strangers").resolve()
    if not (folder / "plain").exists():
        part(take, public, folder / "whole", folder / "rest")
        thinned(take, folder / "whole", folder / "plain", GIVEN)
        thinned(take, folder / "rest", folder / "known", KNOWN)
    plain = _run(take, folder, "plain")
    yield Attack(take, "plain", plain, ("broke",) if plain.broke else ())
    for stranger in STRANGERS:
        if not (folder / stranger.name).exists():
            changed(take, stranger, folder / "plain", folder / stranger.name)
        run = _run(take, folder, stranger.name)
        yield Attack(take, stranger.name, run, tuple(_faults(stranger, plain, run)))


def _run(take: Take, folder: Path, name: str) -> Run:
    return validated([take.board, "--data", str(folder / name)], folder / "known", folder / f"{name}.json")


def _faults(stranger: Stranger, plain: Run, run: Run) -> Iterator[str]:
    if run.broke:
        yield f"broke: {run.errors[-300:]}"
    if any(row["ours"] != row["ours"] for row in run.rows):
        yield "a figure that is not a number"
    texts = [*(row["reason"] for row in run.rows), run.errors]
    if stranger.tells and not any(re.search(stranger.tells, text) for text in texts):
        yield "says nothing of it"
    if stranger.same:
        there = {_case(row): row for row in run.rows}
        for row in filter(timeless, plain.rows):
            other = there.get(_case(row))
            if other is None or other["ours"] is None:
                yield f"{row['case']}: gone"
            elif other["n"] != row["n"] or apart(row["ours"], other["ours"]) > WITHIN:
                yield f"{row['case']}: {row['ours']:.4g} of {row['n']} -> {other['ours']:.4g} of {other['n']}"


def _case(row: ScoredRow) -> tuple[str, ...]:
    return tuple(str(row[key]) for key in ("dataset", "case", "held_out", "metric"))
