"""What to measure next: the candidate that narrows the band at the target most for its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.scaling.extrapolate import extrapolate_many
from slipstick.estimators.scaling.prediction import Prediction
from slipstick.estimators.scaling.series import Series

OUTCOMES = (-1.28, -0.52, 0.0, 0.52, 1.28)
"""Fifths of a normal distribution, by their middles: the outcomes a candidate is tried with, in standard deviations.
Thirds leave out that times far from the expected ones widen the band."""


@dataclass(frozen=True)
class Candidate:
    """A value to measure, what it is expected to do, and what it costs.

    `band` is the expected high / low at the target after measuring it, `removed` the share of the doubt, log(high /
    low), that this takes away, `gain` what it takes a unit of cost (CPU seconds where the parameter counts workers,
    else seconds).
    """

    value: float
    time: float
    cost: float
    band: float
    removed: float
    gain: float


def next_points(
    prediction: Prediction,
    candidates: Sequence[float] | None = None,
    cost: Callable[[float, float], float] | None = None,
) -> list[Candidate]:
    """Candidates ranked by expected narrowing of the last target's band per unit of cost, best first.

    For each candidate, times over its whole band (`OUTCOMES`) are added to the series in turn, and the series is
    extrapolated again: no measurement is made.

    `candidates`: values to try; if None, those between the first value and the target at equal ratios.
    `cost`: (value, predicted time) -> cost; if None, value x time for strong, weak and collective scaling, else time.
    Raises InputError where the prediction has no band.
    """
    if prediction.low is None or prediction.high is None or prediction.level is None:
        raise InputError("what to measure next needs a band: at least four points, and a level")
    series, target, level = prediction.series, prediction.x[-1], prediction.level
    if candidates is None:
        candidates = _between(series, target)
    if not candidates:
        return []
    price = cost or (lambda x, t: t if prediction.kind == "problem_size" else x * t)
    # the band of now is found as those of then are, whatever family or machine the prediction had
    here = extrapolate_many([series], [*candidates, target], prediction.kind, level=level)[0]
    doubts = np.log(np.array(here.high) / np.array(here.low))
    before = float(doubts[-1])
    deviations = doubts / (2 * NormalDist().inv_cdf(0.5 + level / 2))
    ranked = []
    for i, value in enumerate(candidates):
        trials = [_with(series, value, here.value[i] * float(np.exp(z * deviations[i]))) for z in OUTCOMES]
        after = [
            float(np.log(trial.high[-1] / trial.low[-1]))
            for trial in extrapolate_many(trials, [target], prediction.kind, level=level)
            if trial.low and trial.high
        ]
        expected, time = float(np.mean(after)), here.value[i]
        spent, narrowed = price(value, time), before - expected
        ranked.append(Candidate(value, time, spent, float(np.exp(expected)), narrowed / before, narrowed / spent))
    return sorted(ranked, key=lambda candidate: -candidate.gain)


def _between(series: Series, target: float) -> list[float]:
    grid = np.geomspace(series.x[0], target, 13)[1:-1]
    whole = all(value == int(value) for value in series.x)
    values = sorted({float(round(value)) if whole else float(value) for value in grid})
    return [value for value in values if value not in series.x and value < target]


def _with(series: Series, value: float, time: float) -> Series:
    """The series with one more point, one run."""
    typical, runs = series.typical or series.y, series.runs or tuple(map(float, series.repeats))
    known = zip(series.x, series.y, series.repeats, typical, runs, strict=True)
    x, y, repeats, typical, runs = zip(*sorted([*known, (value, time, 1, time, 1.0)]), strict=True)
    return replace(series, x=x, y=y, repeats=repeats, typical=typical, runs=runs)


def most_helpful(prediction: Prediction) -> Candidate | None:
    """The one further measurement, at most half way (in ratio) to the last target, that narrows its band most.

    Tried are doublings of the last value, and where the target is no farther than twice that, values between those
    measured. None where there is no band, or nothing narrows it.
    """
    if prediction.low is None or not prediction.verdicts:
        return None
    target, last = prediction.x[-1], prediction.series.x[-1]
    doublings = int(max(np.log2(target / last), 1.0))
    ahead = [last * 2.0**k for k in range(1, doublings)] or [x for x in _between(prediction.series, target) if x < last]
    ranked = next_points(prediction, ahead, cost=lambda x, t: 1.0)
    return ranked[0] if ranked and ranked[0].removed > 0 else None
