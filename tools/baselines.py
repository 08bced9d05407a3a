"""python -m tools.baselines: our errors over the best simple method's, a line a family, and their geometric mean.

A family is a data set of a scoreboard, or one held-out key of it. Rows are those that `slipstick validate BOARD --save
docs/validation` wrote. The best baseline of a row is the one that is best on the *other* rows of its data set (their
geometric mean), so that none is chosen by the row it stands beside; a data set of one row has the best of that row.
Worse beyond chance is a family of five cases or more whose mean stays above 1 when its cases are drawn again.
`--rows` prints the rows too.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROWS = Path(__file__).parents[1] / "docs" / "validation" / "rows"
ERROR = re.compile(r"error|MAPE|log ratio|- 1\|")
OTHER = re.compile(r"interval score|largest|pairs|speed-up")
"""Metrics that are no error of an answer, or of one row only."""
GOAL = 0.9
ENOUGH_CASES = 5
METRIC = re.compile(r", (median|90th percentile)$")
"""What a metric adds to the name of a case."""
LEAST = 1e-4
"""An error below which nothing is compared: 0.01 %."""


@dataclass(frozen=True)
class Family:
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
    def by_case(self) -> dict[str, list[float]]:
        """Log ratios of each case's metrics: a median and a 90th percentile come of the same groups."""
        made: dict[str, list[float]] = {}
        for case, ratio in zip(self.cases, self.ratios, strict=True):
            made.setdefault(METRIC.sub("", case), []).append(math.log(ratio))
        return made

    @property
    def judged(self) -> bool:
        """Whether there are cases enough to draw them again."""
        return len(self.by_case) >= ENOUGH_CASES

    @property
    def surely_worse(self) -> bool:
        """Whether the mean stays above 1 in 95 of 100 draws of its cases."""
        cases = self.by_case
        if not self.judged:
            return False
        sums, counts = (np.array([f(each) for each in cases.values()], dtype=float) for f in (sum, len))
        drawn = np.random.default_rng(7).integers(0, len(cases), (1000, len(cases)))
        means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
        return bool(np.quantile(means, 0.05) > 0)


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


def families(folder: Path = ROWS) -> list[Family]:
    """All families of the saved rows that stand beside a baseline."""
    made: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for path in sorted(folder.glob("*.json")):
        rows = [row for row in json.loads(path.read_text())["rows"] if compared(row)]
        for row in rows:
            row["baselines"] = {name: abs(value) for name, value in row["baselines"].items()}
        for row in rows:
            others = [one["baselines"] for one in rows if one is not row and one["dataset"] == row["dataset"]]
            best = chosen(row["baselines"], others)
            ratio = max(abs(row["ours"]), LEAST) / max(best, LEAST)
            made.setdefault((path.stem, row["dataset"], row["held_out"]), []).append((row["case"], ratio))
    return [
        Family(*key, tuple(case for case, _ in each), tuple(ratio for _, ratio in each)) for key, each in made.items()
    ]


def compared(row: Mapping[str, object]) -> bool:
    """Whether a row is an error that stands beside a baseline."""
    metric = str(row["metric"])
    return (
        bool(row["baselines"]) and row["ours"] is not None and bool(ERROR.search(metric)) and not OTHER.search(metric)
    )


def main() -> int:
    """Print the table; 1 where the geometric mean is above the goal."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", action="store_true", help="print the rows of each family too")
    shown = arguments.parse_args().rows
    made = sorted(families(), key=lambda family: -family.mean)
    print("ours / best simple method, geometric mean of a family's rows")
    for family in made:
        mark = "  surely worse" if family.surely_worse else ""
        print(f"{family.mean:6.2f}  {len(family.ratios):3d}  {family.dataset}; unseen: {family.held_out}{mark}")
        if shown:
            for case, ratio in zip(family.cases, family.ratios, strict=True):
                print(f"        {ratio:6.2f}  {case}")
    whole = geometric([family.mean for family in made])
    worse = sum(family.mean > 1 for family in made)
    print(
        f"{len(made)} families: {whole:.2f} (goal {GOAL}); {worse} of them worse than the simple method, "
        f"{sum(family.surely_worse for family in made)} surely (of {sum(one.judged for one in made)} with five cases)"
    )
    return int(whole > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
