"""Measured ratios beside predicted ones, and their figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.fitting import scores
from slipstick.experiments.scoring.score import Metric, Scored, relative
from slipstick.experiments.scoring.score_rows import ValidationRow

SAME_HOST = 0.03
"""|log ratio| below which runs on one device have no direction: epochs that no power limit touches differ so much."""
ALIKE = 0.094
"""|log ratio| below which two boards have no direction: what products and attention on boards of one chip (B200, B300,
GB200, GB300) differed by when this board was made. It stays, so that its rows do not choose what counts."""
UNCHANGED = "no change"
OF_UNCHANGED, WRONG = 0.45, 4.0
"""Goals: the error over that of no change, and the share [%] of ratios in the wrong direction."""


@dataclass(frozen=True, eq=False)
class Ratios:
    """Ratios of times, after over before, arrays of shape (n,).

    `case`: what changes.
    `differs`: the fields that differ, in words.
    `half`: of the 80 % band, in log.
    `change`: the largest |log(after / before)| of the changed fields that the model reads: how far the ratio may go
        where they alone bound the time; 0 where none of the machine's fields changed.
    `noise`: |log ratio| that two runs without a change may have: below it a measured ratio has no direction.
    `directions`: the measured ratios, 1 where they have no direction; None: by `noise`.
    `groups`: what errs together, of each ratio; empty where all do.
    """

    case: str
    held_out: str
    differs: str
    measured: FloatArray
    ours: FloatArray
    half: FloatArray
    change: FloatArray | float
    baselines: Mapping[str, FloatArray] = field(default_factory=dict)
    note: str = ""
    noise: float = SAME_HOST
    directions: FloatArray | None = None
    groups: Sequence[str] = ()

    def scored(self, goals: Sequence[float | None] = ()) -> Scored:
        """Errors of the ratio, its direction, and whether the changed part bounds."""
        count = len(self.measured)
        plain = {UNCHANGED: np.ones(count), **self.baselines}
        metrics = [
            relative(0.5, "median error of the ratio", "%"),
            relative(0.9, "90th percentile of it", "%"),
            Metric("wrong direction", self._wrong_direction, "%"),
        ]
        if np.any(self.change):
            metrics.append(Metric("which part bounds is wrong", self._bounds_wrong, "%"))
        words = (f"differs: {self.differs}", f"{int(self._clear.sum())} ratios with a direction", self.note)
        return Scored(
            self.case,
            self.held_out,
            self.measured,
            self.ours,
            metrics,
            goals,
            plain,
            half=self.half,
            groups=self.groups or self.case,
            reason="; ".join(filter(None, words)),
        )

    def judged(self, dataset: str) -> Iterator[Scored | ValidationRow]:
        """The same beside the goals, and the coverage of the band."""
        unchanged = scores.relative_quantile(0.5, np.ones(len(self.measured)), self.measured)
        yield self.scored((100 * OF_UNCHANGED * unchanged, None, WRONG))
        wide = np.exp(self.half)
        away = scores.half_widths_away(self.ours / wide, self.ours, self.ours * wide, self.measured)
        inside = away <= 1
        covered = float(np.mean(inside))
        off, width = 100 * abs(covered - scores.LEVEL), float(np.exp(2 * np.median(self.half)))
        row = ValidationRow(
            dataset, self.case, self.held_out, len(self.measured), "coverage off 80 %", "points", off, {},
            interval_level=scores.LEVEL, interval_coverage=covered, interval_width=width,
            reason="met where 80 % lie between the ends that whole cases drawn anew give",
        ).over(self.groups or [self.case] * len(inside), inside, away)  # fmt: skip
        ends = row.coverage_low, row.coverage_high
        held = None if ends[0] is None or ends[1] is None else ends[0] <= scores.LEVEL <= ends[1]
        yield replace(row, ok=held)

    @property
    def _clear(self) -> Mask:
        """Which of the ratios have a direction."""
        if self.directions is not None:
            return np.asarray(self.directions != 1.0)
        return np.asarray(np.abs(np.log(self.measured)) > self.noise)

    def _bounds_wrong(self, predicted: FloatArray, measured: FloatArray) -> float:
        """Share of rows where one of both says that the time moves by more than half of what it could, and one not."""
        middle = self.change / 2
        return float(np.mean((np.abs(np.log(predicted)) > middle) != (np.abs(np.log(measured)) > middle)))

    def _wrong_direction(self, predicted: FloatArray, measured: FloatArray) -> float:
        """Share of the ratios with a direction that are predicted in the other one, or as none."""
        clear = self._clear
        if not clear.any():
            return 0.0
        return float(np.mean(np.sign(np.log(predicted[clear])) != np.sign(np.log(measured[clear]))))


def together(case: str, parts: Sequence[Ratios]) -> Ratios:
    """Several cases as one, each with as many rows as the others: rows are repeated in turn where a case has fewer.

    A ratio without a direction in its case has none here.
    """
    most = max(len(one.measured) for one in parts)
    places = [np.arange(most) % len(one.measured) for one in parts]

    def joined(arrays: Iterable[FloatArray]) -> FloatArray:
        return np.concatenate([values[place] for values, place in zip(arrays, places, strict=True)])

    clear = [np.where(np.abs(np.log(one.measured)) > one.noise, one.measured, 1.0) for one in parts]
    whole = Ratios(
        case, "the second of each pair", "one or few fields, see each case",
        joined(one.measured for one in parts), joined(one.ours for one in parts), joined(one.half for one in parts),
        0.0, {}, f"{len(parts)} cases", SAME_HOST,
    )  # fmt: skip
    names = [one.case for one in parts for _ in range(most)]
    return replace(whole, directions=joined(clear), groups=names)
