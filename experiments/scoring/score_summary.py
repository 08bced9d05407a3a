"""All scoreboards in a few numbers: our errors over the best simple method's, and whether bands hold what they promise.

A family is a data set of a scoreboard, or one held-out key of it. Rows are those that `slipstick validate BOARD --save
docs/validation` wrote. The best baseline of a row is the one that is best on the *other* rows of its data set (their
geometric mean), so that none is chosen by the row it stands beside; a data set of one row has the best of that row.

Chance is judged by groups: what was left out in turn, or, where all rows of a data set left out the same kind of thing,
its cases (a median and a 90th percentile come of the same group). A data set of five groups or more is surely worse
where its mean stays above 1 in 95 of 100 draws of its groups.

Bands are judged a class: a row that states five groups or more, by the interval of its coverage over 90 of 100 draws of
these groups; or the rows of a data set of which each left out one group, drawn again together. A kind of holding out
is no group: the same rows come back under each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.readers import read_json
from slipstick.estimators.fitting.fitted_file import FITTED, load_fitted
from slipstick.estimators.fitting.scores import redrawn
from slipstick.experiments.scoring.score_rows import ENOUGH_GROUPS

ERROR = re.compile(r"error|MAPE|log ratio|- 1\|")
OTHER = re.compile(r"interval score|largest|pairs|speed-up")
"""Metrics that are no error of an answer, or of one row only."""
GOAL, OVER_INNER, LEVEL = 0.9, 1.25, 0.8
METRIC = re.compile(r", (median|90th percentile)$")
"""What a metric adds to the name of a case."""
LEAST = 1e-4
"""An error below which nothing is compared: 0.01 %."""
BAND = ("interval_width", "interval_needed")
"""Of a saved row: its width, and the factor on it that would have done (`CoverageClass`)."""
BANDS = "verdict     inside of 80 % bands  groups   width   least   over  class"
"""The head of `CoverageClass.line`: high over low of the bands, of those that held 80 %, and half-width (of a
log) over the least."""


@dataclass(frozen=True)
class ComparedFamily:
    """Ratios of errors, ours over the baseline's, of the rows of a family."""

    board: str
    dataset: str
    held_out: str
    cases: tuple[str, ...]
    ratios: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Geometric mean."""
        return geometric(self.ratios)

    @property
    def apart(self) -> Grouped:
        """Log ratios by case: a median and a 90th percentile of one case are one group."""
        rows = zip(self.cases, self.ratios, strict=True)
        return grouped([(self.dataset, self.held_out, case, math.log(ratio)) for case, ratio in rows])[0]


@dataclass(frozen=True)
class Grouped:
    """Numbers of a data set's groups: log ratios of errors, or coverages of rows that left out one group each."""

    dataset: str
    groups: tuple[tuple[float, ...], ...]

    @property
    def judged(self) -> bool:
        """Whether there are groups enough to draw them again."""
        return len(self.groups) >= ENOUGH_GROUPS

    def interval(self, level: float) -> tuple[float, float]:
        """Of the mean, where whole groups are drawn again."""
        return redrawn([sum(each) for each in self.groups], [len(each) for each in self.groups], level)

    @property
    def surely_worse(self) -> bool:
        """Of log ratios: whether the mean stays above 0."""
        return self.judged and self.interval(0.9)[0] > 0


@dataclass(frozen=True)
class CoverageClass:
    """The bands of a class of answers, and between what their coverage lies where its groups are drawn again.

    `name`: the board and data set, and the case with what was left out where the class is one row.
    `coverage`, `low`, `high`: shares of the measurements.
    `groups`: how many can be drawn again.
    `width`: high over low of a band.
    `needed`: the factor on half-widths with which 80 % would have lain inside; None in rows saved before it was known.
    """

    name: str
    coverage: float
    low: float
    high: float
    groups: int
    width: float | None = None
    needed: float | None = None

    @property
    def verdict(self) -> str:
        """Whether 80 % lies in the interval: "" where it does, else what the bands are."""
        return "too wide" if self.low > LEVEL else "too narrow" if self.high < LEVEL else ""

    @property
    def least(self) -> float | None:
        """The least width, high over low, that would have held 80 %."""
        return None if self.width is None or self.needed is None else self.width**self.needed

    @property
    def line(self) -> str:
        """The class as a line of `BANDS`."""
        width, least, over = (
            "-" if value is None else f"{sign}{value:.2f}"
            for value, sign in ((self.width, "x"), (self.least, "x"), (self.needed and 1 / self.needed, ""))
        )
        share = f"{self.coverage:4.0%} ({self.low:4.0%} .. {self.high:4.0%})"
        return f"{self.verdict:10s}  {share}  {self.groups:6d}  {width:>6s}  {least:>6s}  {over:>5s}  {self.name}"


def grouped(values: Sequence[tuple[str, str, str, float]]) -> list[Grouped]:
    """Numbers by data set and group, from (data set, held out, case, number) of rows."""
    made: dict[str, list[tuple[str, str, float]]] = {}
    for dataset, held_out, case, number in values:
        made.setdefault(dataset, []).append((held_out, METRIC.sub("", case), number))
    result = []
    for dataset, rows in made.items():
        by = 0 if len({held for held, _, _ in rows}) > 1 else 1
        groups: dict[str, list[float]] = {}
        for row in rows:
            groups.setdefault(row[:2][by], []).append(row[2])
        result.append(Grouped(dataset, tuple(tuple(each) for each in groups.values())))
    return result


def geometric(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def chosen(row: Mapping[str, float], others: Sequence[Mapping[str, float]]) -> float:
    """The error of the baseline that is best on other rows, among those of this row; the best one without others.

    Baselines are compared with each other on the rows that have both.
    """
    names = sorted(row)
    if not others:
        return min(row.values())
    wins = dict.fromkeys(names, 0.0)
    for name in names:
        for rival in names:
            pairs = [(one[name], one[rival]) for one in others if name in one and rival in one]
            if pairs and geometric([max(a, LEAST) / max(b, LEAST) for a, b in pairs]) <= 1:
                wins[name] += 1
    return row[max(names, key=lambda name: wins[name])]


def families(folder: Path) -> list[ComparedFamily]:
    """All families of saved rows that stand beside a baseline."""
    made: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for path in sorted(folder.glob("*.json")):
        rows = [row for row in _rows(path) if compared(row)]
        for row in rows:
            row["baselines"] = {name: abs(value) for name, value in row["baselines"].items()}
        for row in rows:
            others = [one["baselines"] for one in rows if one is not row and one["dataset"] == row["dataset"]]
            best = chosen(row["baselines"], others)
            ratio = max(abs(row["ours"]), LEAST) / max(best, LEAST)
            made.setdefault((path.stem, row["dataset"], row["held_out"]), []).append((row["case"], ratio))
    return [
        ComparedFamily(*key, tuple(case for case, _ in each), tuple(ratio for _, ratio in each))
        for key, each in made.items()
    ]


def ratios(made: Sequence[ComparedFamily]) -> list[Grouped]:
    """Log ratios of all families, by data set and group."""
    return grouped(
        [
            (f"{one.board}: {one.dataset}", one.held_out, case, math.log(ratio))
            for one in made
            for case, ratio in zip(one.cases, one.ratios, strict=True)
        ]
    )


def coverages(folder: Path) -> list[CoverageClass]:
    """All classes of saved rows whose 80 % bands can be judged; a case counts once."""
    made: dict[str, CoverageClass] = {}
    single: dict[tuple[str, str, str], dict[str, Any]] = {}
    several: set[str] = set()
    for path in sorted(folder.glob("*.json")):
        for row in _rows(path):
            if row["interval_coverage"] is None or row["interval_level"] != LEVEL:
                continue
            dataset, case = f"{path.stem}: {row['dataset']}", METRIC.sub("", row["case"])
            if (row.get("groups") or 1) == 1:
                single[dataset, row["held_out"], case] = row
                continue
            several.add(dataset)
            if row["coverage_low"] is not None:
                name = f"{dataset}, {case}, {row['held_out']} left out"
                share, low, high = (float(row[part]) for part in ("interval_coverage", "coverage_low", "coverage_high"))
                width, needed = (row.get(part) for part in BAND)
                made[name] = CoverageClass(name, share, low, high, row["groups"], width, needed)
    rest = {key: row for key, row in single.items() if key[0] not in several}
    for one in grouped([(*key, float(row["interval_coverage"])) for key, row in rest.items()]):
        if one.judged:
            rows = [row for key, row in rest.items() if key[0] == one.dataset]
            width, needed = (_typical([row.get(name) for row in rows]) for name in BAND)
            covered = float(np.mean(np.concatenate(one.groups)))
            made[one.dataset] = CoverageClass(one.dataset, covered, *one.interval(0.9), len(one.groups), width, needed)
    return list(made.values())


def _typical(values: Sequence[float | None]) -> float | None:
    """The geometric mean of positive numbers; None where one is unknown."""
    known = [max(value, LEAST) for value in values if value is not None]
    return geometric(known) if len(known) == len(values) else None


@dataclass(frozen=True)
class Summary:
    """The figures of all scoreboards together."""

    families: tuple[ComparedFamily, ...]
    ratios: tuple[Grouped, ...]
    coverages: tuple[CoverageClass, ...]
    over_inner: tuple[float, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> Summary:
        """From the rows saved below a folder."""
        made = tuple(families(folder))
        lost = tuple(one for one in ratios(made) if one.judged)
        return cls(made, lost, tuple(coverages(folder)), over_inner())

    @property
    def mean(self) -> float:
        """Geometric mean over families: a ratio of errors, 1 where they are alike."""
        return geometric([family.mean for family in self.families])

    def bands(self) -> list[str]:
        """All classes of answers whose bands can be judged, those that fail first, the widest over its need on top."""
        order = sorted(self.coverages, key=lambda one: (not one.verdict, one.needed or 1.0, one.name))
        return [BANDS, *(one.line for one in order)]

    def lines(self) -> list[str]:
        """A table in Markdown; none where no row stands beside a baseline."""
        if not self.families:
            return []
        worse = [one.dataset for one in self.ratios if one.surely_worse]
        missed = [one for one in self.coverages if one.verdict]
        wide = sum(one.low > LEVEL for one in missed)
        those = ", ".join(sorted({one.name.partition(":")[0] for one in missed})) or "none"
        lost = sum(family.mean > 1 for family in self.families)
        return [
            "| all scoreboards together | figure | goal |",
            "|---|---|---|",
            f"| our error over that of the best simple method (chosen on other rows), geometric mean of "
            f"{len(self.families)} families | {self.mean:.2f} | {GOAL} |",
            f"| families that lose to it | {lost} of {len(self.families)} | |",
            f"| data sets of at least {ENOUGH_GROUPS} groups that lose beyond chance | {_of(worse, self.ratios)} | 0 |",
            f"| classes of answers of at least {ENOUGH_GROUPS} groups whose 80 % bands hold another share, beyond "
            f"chance (one in ten would by chance alone) | {len(missed)} of {len(self.coverages)}, {wide} too wide and "
            f"{len(missed) - wide} too narrow: {those} | 0 |",
            f"| error of outer folds over that of the folds within, mean of {len(self.over_inner)} kinds of fold of "
            f"fitted laws | {np.mean(self.over_inner or [1.0]):.2f} | {OVER_INNER} |",
        ]


def over_inner(folder: Path = FITTED) -> tuple[float, ...]:
    """Errors of outer folds over those of the folds within them, ratios, of all fitted laws that were scored so."""
    files = [load_fitted(path.stem, folder) for path in sorted(folder.glob("*.json"))]
    return tuple(score.over_inner for file in files for score in file.outer if score.over_inner is not None)


def _of(names: Sequence[str], all_of: Sequence[object]) -> str:
    listed = f" ({'; '.join(names)})" if names else ""
    return f"{len(names)} of {len(all_of)}{listed}".replace("|", "\\|")


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_json(path)["rows"]
    return rows


def compared(row: Mapping[str, object]) -> bool:
    """Whether a row is an error that stands beside a baseline."""
    metric = str(row["metric"])
    return (
        bool(row["baselines"]) and row["ours"] is not None and bool(ERROR.search(metric)) and not OTHER.search(metric)
    )
