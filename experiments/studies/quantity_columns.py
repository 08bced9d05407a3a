"""Points of an estimator whose answers hold several quantities: each with its band, and the ratio of the first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, quantile
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.base.ratio_band import Today
from slipstick.estimators.composition.energy_and_cost import COST, ENERGY
from slipstick.estimators.fitting.ratio_uncertainty import shipped
from slipstick.experiments.question.question import Question

REFUSED = "refused"
"""The column that says why a point has no answer; "" where it has one."""


@dataclass(frozen=True)
class QuantityColumns:
    """The quantities of a question's answer at any points.

    `level`: probability of the bands.
    """

    question: Question
    level: float = DEFAULT_LEVEL

    def columns(self, free: Mapping[str, FloatArray], fields: Today, count: int) -> dict[str, list[Any]]:
        """One value a point: `time_ratio`, `time_s`, each quantity and `HEADLINE_ratio`, all with the ends of bands.

        A point that cannot be (a model that does not fit) is not a number, and says why in the column `refused`.

        `fields`: the machine's fields that vary, as they are today.
        `count`: how many points.
        Raises InputError where no point has an answer.
        """
        today, question = self.question.answer(), self.question
        change = fields.change(free, count)
        rows: list[dict[str, Any]] = []
        for index in range(count):
            point = {name: float(values[index]) for name, values in free.items()}
            try:
                answer = question.estimator.estimate_at(question.workload, question.machine, question.run, point)
            except InputError as error:
                if count == 1:
                    raise
                rows.append({REFUSED: str(error)})
                continue
            row = self._row(answer, today, float(change[index]))
            here = {name: np.array([value]) for name, value in point.items()}
            least, most = fields.one_way(here, tuple(free), np.array([row["time_ratio"]]))
            rows.append({**bounded(row, float(least[0]), float(most[0])), REFUSED: ""})
        names = list(dict.fromkeys(name for row in [*rows, self._row(today, today, 0.0)] for name in row))
        names = [*(name for name in names if name != REFUSED), REFUSED]
        return {name: [row.get(name, math.nan) for row in rows] for name in names}

    def _row(self, answer: Estimate, today: Estimate, change: float) -> dict[str, Any]:
        known, before = answer.quantities, today.quantities
        row: dict[str, Any] = {}
        for name in dict.fromkeys((answer.name, answer.headline.name)):
            row |= self._ratio("time" if name == answer.name else name, known[name], before[name], change)
        row |= {"time_s": answer.time}
        row |= dict(zip(("low_s", "high_s"), self._ends(known[answer.name]), strict=True))
        row |= {ENERGY: math.nan if answer.energy is None else answer.energy, COST: math.nan}
        for one in (answer.headline, *known.values()):
            if one.name != "time":
                low, high = self._ends(one)
                row |= {one.key: one.value, f"low_{one.key}": low, f"high_{one.key}": high}
        return row

    def _ratio(self, name: str, one: Quantity, before: Quantity, change: float) -> dict[str, float]:
        """A quantity over today's, with the band that such ratios have; over one that was measured, with its own."""
        ratio = one.value / before.value if before.value else math.nan
        ends = "low_ratio", "high_ratio"
        low, high = ends if name == "time" else (f"{end.removesuffix('ratio')}{name}_ratio" for end in ends)
        if not ratio > 0 or one.band is None or before.band is None:
            return {f"{name}_ratio": ratio}
        if self.question.estimator.measured_uncertainty(self.question.machine) and change:
            return {f"{name}_ratio": ratio} | dict(
                zip((low, high), np.array(self._ends(one)) / before.value, strict=True)
            )
        law = shipped().band(self.question.vary.names, level=self.level)
        half = float(law.half(math.log(ratio), change, 0.0, _deviation(one), _deviation(before)))
        return {f"{name}_ratio": ratio, low: ratio / math.exp(half), high: ratio * math.exp(half)}

    def _ends(self, one: Quantity) -> tuple[float, float]:
        """Both ends at the level; not a number where no band is known."""
        if one.band is None or not one.value:
            return math.nan, math.nan
        wider = quantile(self.level, None) / quantile(DEFAULT_LEVEL, None)
        low, high = (one.value * (end / one.value) ** wider for end in one.band)
        return low, high


def bounded(row: dict[str, Any], least: float, most: float) -> dict[str, Any]:
    """A row whose band of the ratio of the time ends at bounds."""
    if "low_ratio" in row:
        row |= {"low_ratio": max(row["low_ratio"], least), "high_ratio": min(row["high_ratio"], most)}
    return row


def _deviation(one: Quantity) -> float:
    """Of the log of a quantity, as if its band were even."""
    if one.band is None or not one.band[0]:
        return 0.0
    return float(np.log(one.band[1] / one.band[0])) / 2 / quantile(DEFAULT_LEVEL, None)


@dataclass(frozen=True)
class BandedMetrics:
    """Metrics whose scatter the estimator knows, with their band, at any points."""

    question: Question
    level: float

    def columns(self, free: Mapping[str, FloatArray], count: int) -> dict[str, list[float]]:
        """Shares of each point: `infeed`, `low_infeed`, `high_infeed` and so on, one value a point."""
        estimator, known = self.question.estimator, self.question.estimator.uncertainty
        result: dict[str, list[float]] = {}
        for index in range(count):
            point = {name: float(values[index]) for name, values in free.items()}
            answer = estimator.estimate_at(self.question.workload, self.question.machine, self.question.run, point)
            bands = answer.metric_intervals if known is None else known.metric_intervals(answer.metrics, self.level)
            for name, (low, high) in bands.items():
                for key, value in ((name, answer.metrics[name]), (f"low_{name}", low), (f"high_{name}", high)):
                    result.setdefault(key, []).append(value)
        return result
