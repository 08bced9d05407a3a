"""What an extrapolation answers: values, band, verdicts, and the formula behind them.

A straight line, or a power law, through measurements, continued with honest limits.

The simplest extrapolations there are, chosen explicitly by whoever knows that the law is linear (memory contention on
the Xeon Phi grows linearly with the threads) or a power: ordinary least squares with Student-t prediction intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.answer import Answer, Provenance
from slipstick.common.columns import SHARE, Column
from slipstick.common.errors import InputError
from slipstick.common.formatting import ends_shown, share_shown, shares_shown, shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.scaling.laws.terms import CONSTANT, LINEAR, NEGLIGIBLE, Law, PowerTerm
from slipstick.estimators.scaling.series import Series, Verdict
from slipstick.estimators.symbolic.formula import Formula

LEAST_SHARE = 1e-3
"""Of a law that is named."""


@dataclass(frozen=True)
class AveragedLaw:
    """One of the laws that were averaged, at its likeliest.

    `name`: of the law ("amdahl").
    `share`: of all curves of this law in the average, 0..1.
    `times`: seconds at the targets, shape (targets,).
    """

    name: str
    share: float
    times: tuple[float, ...]


@dataclass(frozen=True)
class Prediction(Answer):
    """Times at values that were not measured, with the band that holds a new measurement with probability `level`.

    Parameters
    ----------
    series
        What it was fitted to.
    kind, kind_reason
        The kind of scaling and how it is known ("given", or what it was taken from).
    x, value
        The targets and the times there, in seconds.
    low, high
        The band; None where the uncertainty is unknown (too few points, or not requested), never equal to `value`.
    verdicts
        One a target; empty where no band was requested.
    law
        The sum of terms that gave the values.
    shares
        Family -> its share in the law.
    covariance
        Of the law's coefficients in their order, where it is known (a single family fitted by least squares).
    assumptions
        In words; shown first.
    curves
        The laws that were averaged, the one with the largest share first.
    gains
        One a target where the parameter counts workers: speed-up, efficiency, core-hours (`speedup.gain_rows`).
    """

    series: Series
    kind: str
    kind_reason: str
    x: tuple[float, ...]
    value: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    level: float | None
    verdicts: tuple[Verdict, ...]
    law: Law
    shares: FrozenDict[float] = FrozenDict()
    covariance: tuple[tuple[float, ...], ...] | None = None
    assumptions: tuple[str, ...] = ()
    curves: tuple[AveragedLaw, ...] = ()
    gains: tuple[FrozenDict[float], ...] = ()

    def __str__(self) -> str:
        """A line a target: ``threads = 64: 10 s (80 %: 9.28 s .. 11.6 s), trust``."""
        bands = [""] * len(self.x)
        if self.low is not None and self.high is not None and self.level is not None:
            ends = zip(self.low, self.high, strict=True)
            bands = [f" ({100 * self.level:g} %: {ends_shown(low, high)})" for low, high in ends]
        words = [f", {one.word}" for one in self.verdicts] or [""] * len(self.x)
        rows = zip(self.x, self.value, bands, words, strict=True)
        name = self.series.parameter
        return "\n".join(f"{name} = {x:g}: {shown(time, 's')}{band}{word}" for x, time, band, word in rows)

    @property
    def provenance(self) -> Provenance:
        """Curves through the measured points."""
        return "calibrated"

    @cached_property
    def formula(self) -> Formula:
        """The law as a formula of the parameter, in seconds."""
        return self.law.formula(
            self.series.parameter, f"fitted to {len(self.series)} points: {shares_shown(self.shares)}"
        )

    @property
    def change_points(self) -> tuple[float, ...]:
        """Values at which the law bends."""
        return self.law.change_points

    @property
    def main_law(self) -> Law:
        """The law without terms below `NEGLIGIBLE` of the time at every measured value and target."""
        return self.law.without(NEGLIGIBLE, np.array([*self.series.x, *self.x]))

    @property
    def text(self) -> str:
        """`main_law` for people, in seconds, the largest term at the last target first."""
        return self.main_law.text(self.series.parameter, self.x[-1])

    @property
    def composition(self) -> str:
        """What the time at the last target is made of: "61 % constant, 27 % 1/threads, 12 % log2(threads)"."""
        at, law = np.array(self.x[-1:]), self.main_law
        parts = [(coefficient * float(term.values(at)[0]), term) for coefficient, term in law.terms]
        whole = sum(part for part, _ in parts)
        words = sorted(((part / whole, term.text(self.series.parameter)) for part, term in parts), reverse=True)
        return ", ".join(
            f"{share_shown(share)} {'constant' if text == '1' else text}"
            for share, text in words
            if abs(share) >= NEGLIGIBLE
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row a target, units in the keys."""
        rows = []
        for i, target in enumerate(self.x):
            verdict = self.verdicts[i] if self.verdicts else None
            rows.append(
                {
                    self.series.parameter: int(target) if target == int(target) else target,
                    "time_s": self.value[i],
                    "low_s": self.low[i] if self.low else None,
                    "high_s": self.high[i] if self.high else None,
                    "interval_level": self.level if self.low else None,
                    "ratio": target / self.series.x[-1],
                    "probability_within_20_percent": verdict.probability if verdict else None,
                    **(self.gains[i] if self.gains else {}),
                    "verdict": verdict.word if verdict else None,
                    "reason": verdict.reason if verdict else None,
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {
            "name": self.series.name,
            "parameter": self.series.parameter,
            "kind": self.kind,
            "kind_reason": self.kind_reason,
            "formula": str(self.formula.expression),
            "unit": "s",
            "families": dict(self.shares),
            "change_points": list(self.change_points),
            "noise": self.series.noise,
            "predictions": self.rows(),
            "measured": [
                {"value": x, "measured_s": y, "repeats": r}
                for x, y, r in zip(self.series.x, self.series.y, self.series.repeats, strict=True)
            ],
            "assumptions": list(self.assumptions),
        }

    @property
    def declared(self) -> tuple[Column, ...]:
        """The verdict's probability is a share."""
        return (Column("probability_within_20_percent", "within 20 %", SHARE),)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was taken for granted."""
        return self.assumptions

    def _repr_html_(self) -> str:
        return self.formula._repr_html_() + super()._repr_html_()


def shares_of(names: list[str], weights: list[float]) -> FrozenDict[float]:
    """Family names with their shares, those of one name together, those below one in a thousand left out."""
    shares: dict[str, float] = {}
    for name, weight in zip(names, weights, strict=True):
        shares[name] = shares.get(name, 0.0) + float(weight)
    return FrozenDict({name: share for name, share in shares.items() if share >= LEAST_SHARE})


def fit_line(
    x: npt.ArrayLike, y: npt.ArrayLike, to: npt.ArrayLike, level: float = 0.80, parameter: str = "x"
) -> Prediction:
    """Fit y = a + b x by ordinary least squares and predict at `to`.

    The band is the Student-t prediction interval of a new measurement (parameters and residual scatter), with n - 2
    degrees of freedom; it assumes the same absolute scatter everywhere. With two points there is no scatter to
    estimate: `low`, `high` and `covariance` are None.
    Raises InputError where numbers are not finite, x has fewer than two different values, or the level is outside (0,
    1).
    """
    from scipy import stats

    xs, ys, targets = (np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (x, y, to))
    if xs.shape != ys.shape or xs.ndim != 1:
        raise InputError(f"want one time for each {parameter}, got shapes {xs.shape} and {ys.shape}")
    if not (np.isfinite(xs).all() and np.isfinite(ys).all() and np.isfinite(targets).all()):
        raise InputError(f"{parameter}, times and targets must be finite numbers")
    if not 0.0 < level < 1.0:
        raise InputError(f"interval level {level:g}: want a number between 0 and 1")
    if np.unique(xs).size < 2:
        raise InputError(f"a line needs two different values of {parameter}, got {np.unique(xs).size}")
    n = xs.size
    centre, mean = xs.mean(), ys.mean()
    spread = float(np.sum((xs - centre) ** 2))
    slope = float(np.sum((xs - centre) * (ys - mean)) / spread)
    intercept = float(mean - slope * centre)
    value = intercept + slope * targets
    low = high = covariance = None
    freedom = n - 2
    if freedom > 0:
        variance = float(np.sum((ys - intercept - slope * xs) ** 2)) / freedom
        middle = -centre * variance / spread
        covariance = ((variance * (1 / n + centre**2 / spread), middle), (middle, variance / spread))
        reach = np.sqrt(variance * (1 + 1 / n + (targets - centre) ** 2 / spread))
        half = stats.t.ppf(0.5 + level / 2, freedom) * reach
        low, high = tuple(map(float, value - half)), tuple(map(float, value + half))
    order = np.argsort(xs, kind="stable")
    series = Series(tuple(map(float, xs[order])), tuple(map(float, ys[order])), (1,) * n, None, parameter)
    return Prediction(
        series=series,
        kind="line",
        kind_reason="given",
        x=tuple(map(float, targets)),
        value=tuple(map(float, value)),
        low=low,
        high=high,
        level=level,
        verdicts=(),
        law=Law(((intercept, CONSTANT), (slope, LINEAR))),
        shares=FrozenDict({"line": 1.0}),
        covariance=covariance,
        assumptions=("a straight line with the same absolute scatter everywhere (ordinary least squares)",),
    )


def fit_power(
    x: npt.ArrayLike, y: npt.ArrayLike, to: npt.ArrayLike, level: float = 0.80, parameter: str = "x"
) -> Prediction:
    """Fit y = c x^e by least squares in logarithms and predict at `to`: a line there, with its band.

    Raises InputError as `fit_line`, and where a number is not positive.
    """
    xs, ys, targets = (np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (x, y, to))
    if not all((np.isfinite(a) & (a > 0)).all() for a in (xs, ys, targets)):
        raise InputError(f"{parameter}, times and targets must be finite numbers > 0")
    straight = fit_line(np.log(xs), np.log(ys), np.log(targets), level, parameter)
    (intercept, _), (exponent, _) = straight.law.terms
    series = replace(
        straight.series,
        x=tuple(map(float, np.exp(straight.series.x))),
        y=tuple(map(float, np.exp(straight.series.y))),
    )
    return replace(
        straight,
        series=series,
        kind="power",
        x=tuple(map(float, targets)),
        value=tuple(map(float, np.exp(straight.value))),
        low=_exp(straight.low),
        high=_exp(straight.high),
        law=Law(((float(np.exp(intercept)), PowerTerm(exponent)),)),
        shares=FrozenDict({"power": 1.0}),
        covariance=None,
        assumptions=("a power law with the same relative scatter everywhere (least squares in logarithms)",),
    )


def _exp(logs: tuple[float, ...] | None) -> tuple[float, ...] | None:
    return None if logs is None else tuple(map(float, np.exp(logs)))
