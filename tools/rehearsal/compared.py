"""The rehearsals as a table: our errors on what was given, beside the board's own groups left out."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tools.rehearsal.runs import Outcome, ScoredRow
from tools.rehearsal.tables import Line

ROWS = Path(__file__).parents[2] / "docs" / "validation" / "rows"
NINETIETH = re.compile("90th percentile")
LABEL = re.compile(", (median|90th percentile)$")
NO_ERROR = re.compile(
    "coverage|share of figures|direction|bounds|interval score|largest|ratio of MAPE|missed|layers a second"
)
"""Metrics of a line that are no error of an answer, or of a single row."""
HEAD = (
    "| rehearsal | what | rows, groups | ours | best simple method | in the band | the board's own: rows, groups |"
    " ours | best simple method | in the band |\n|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Figures:
    """Rows of one line together; where it holds several cases, errors are the medians of theirs.

    `ours`, `ninetieth`, `simple`: as the rows give them, shares in per cent; None where no row does.
    `coverage`, `width`: over all rows, and the median of high / low.
    """

    rows: int
    groups: int
    ours: float | None
    ninetieth: float | None
    simple: float | None
    coverage: float | None
    width: float | None

    def cells(self) -> str:
        """Four cells of the table."""
        band = "-" if self.coverage is None else f"{self.coverage:.0%} in x{self.width:.2f}"
        errors = " / ".join(_shown(one) for one in (self.ours, self.ninetieth) if one is not None)
        return f"{self.rows}, {self.groups or '-'} | {errors or '-'} | {_shown(self.simple)} | {band}"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def figures(pattern: str, rows: Sequence[ScoredRow]) -> Figures | None:
    """The rows whose "dataset | case | held out" the pattern matches whole; None where none has a figure."""
    there = [row for row in rows if row["ours"] is not None and not NO_ERROR.search(row["metric"])]
    there = [row for row in there if re.fullmatch(pattern, _place(row))]
    middle = [row for row in there if not NINETIETH.search(row["metric"])]
    if not middle:
        return None
    ours = [scaled(row, row["ours"]) for row in middle]
    tails = [scaled(row, row["ours"]) for row in there if NINETIETH.search(row["metric"])]
    simple = [
        scaled(row, min(known)) for row in middle if (known := [v for v in row["baselines"].values() if v is not None])
    ]
    banded = [row for row in middle if row["interval_coverage"] is not None]
    weight = sum(row["n"] for row in banded)
    return Figures(
        sum(row["n"] for row in middle),
        sum(row["groups"] or 0 for row in middle),
        median(ours),
        median(tails) if tails else None,
        median(simple) if simple else None,
        sum(row["n"] * row["interval_coverage"] for row in banded) / weight if weight else None,
        median([row["interval_width"] for row in banded]) if banded else None,
    )


def scaled(row: ScoredRow, value: float) -> float:
    """In per cent where the row's unit is one of shares."""
    return abs(value) * (100 if row["unit"] == "1" else 1)


def _place(row: ScoredRow) -> str:
    return " | ".join((row["dataset"], LABEL.sub("", row["case"]), row["held_out"]))


def page(outcomes: Sequence[Outcome]) -> str:
    """Markdown: a row a line of a rehearsal, then what was taken out, what was skipped and why."""
    lines = [HEAD]
    for one in outcomes:
        saved = ROWS / f"{one.take.board}.json"
        own = json.loads(saved.read_text())["rows"] if saved.exists() else []
        for line in one.take.lines or _alike(one.known.rows):
            given = figures(line.given, one.known.rows)
            if given is None:
                lines.append(f"| {one.take.name} | {line.name} | no row | | | | | | | |")
                continue
            fold = figures(line.fold or line.given, own)
            beside = fold.cells() if fold else "- | - | - | -"
            lines.append(f"| {one.take.name} | {line.name} | {given.cells()} | {beside} |")
    return "\n".join([*lines, "", *(text for one in outcomes for text in _told(one))])


def _alike(rows: Sequence[ScoredRow]) -> list[Line]:
    """A line for each case, beside the case of the same name."""
    places = dict.fromkeys(
        _place(row) for row in rows if row["ours"] is not None and row["n"] > 1 and not NO_ERROR.search(row["metric"])
    )
    return [Line(place.partition(" | ")[2], re.escape(place)) for place in places]


def _told(one: Outcome) -> list[str]:
    """What was taken out, how the runs ended, and each reason of a skipped row."""
    groups = ", ".join(one.given.groups[:6]) + (
        f" and {len(one.given.groups) - 6} more" if len(one.given.groups) > 6 else ""
    )
    leak = "not compared" if one.leak is None else f"{one.leak:.1%}"
    told = [
        f"## {one.take.name}",
        f"Taken out: {groups}; {sum(one.given.rows.values()):,} rows or files. Exit code {one.known.code}, "
        f"{one.known.seconds:.0f} CPU s. Largest change of an error where the public folder never held them: {leak}.",
    ]
    if one.known.broke:
        told.append(f"The run broke: {one.known.errors[-300:]}")
    reasons = dict.fromkeys(f"{row['dataset']}: {row['reason']}" for row in one.known.rows if row["ours"] is None)
    return [*told, *(f"- {reason[:200]}" for reason in list(reasons)[:12]), ""]
