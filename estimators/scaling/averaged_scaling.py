"""What the laws of scaling, averaged by evidence, say at new numbers of workers, and one formula for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.formatting import share_shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.sureness import ABOVE, BELOW
from slipstick.estimators.fitting.nonnegative_terms import nearest_terms
from slipstick.estimators.scaling.laws.marginal_likelihood import Points, ScalingPosterior, believe
from slipstick.estimators.scaling.laws.priors import PRIORS, Priors
from slipstick.estimators.scaling.laws.scaling_laws import NAMES, terms
from slipstick.estimators.scaling.laws.terms import Law, PowerTerm, SharedIssue, Term
from slipstick.estimators.scaling.prediction import AveragedLaw, shares_of
from slipstick.estimators.scaling.series import Certainty, Series
from slipstick.hwmodels.machine import Machine

LADDER = np.array([1.0, 4.0, 16.0])
FARTHER = 4.0
"""Ratios to the last value at which the formula follows the average; farther ones by this factor."""
DOUBTFUL = 0.5
"""Probability of being an outlier from which on a point is named: more likely than not."""
ROUNDING, SEEN = 1e-9, 0.005
EITHER = (PowerTerm(), PowerTerm(-1.0))
"""Terms of either sign: what overheads count less at the fewest workers, and what they saturate by."""
MISFIT = float(np.log(1.5))
"""Half of the points farther off every law than this: nothing scales. Set by hand; no refit chose it."""


@dataclass(frozen=True, eq=False)
class AveragedScaling:
    """The average at the targets.

    Parameters
    ----------
    value
        Seconds, those of the law.
    belief
        The posterior over curves, averaged at the targets.
    law
        A sum of terms that follows the average from the first value to the last target.
    missed
        ln of the times measured over the average's, shape (points,).
    """

    value: FloatArray
    belief: ScalingPosterior
    law: Law
    shares: FrozenDict[float]
    notes: tuple[str, ...]
    missed: FloatArray

    def curves(self) -> tuple[AveragedLaw, ...]:
        """The likeliest curve of each law with a share."""
        belief, laws = self.belief, []
        # a curve's weight over how much of the prior it stands for: what the points say of it
        speaks = np.log(belief.average.weights) - belief.curves.log_prior
        for place, name in enumerate(NAMES):
            if name in self.shares:
                some = np.flatnonzero(belief.curves.law == place)
                times = np.exp(belief.average.middles[some[np.argmax(speaks[some])]])
                laws.append(AveragedLaw(name, self.shares[name], tuple(map(float, times))))
        return tuple(sorted(laws, key=lambda law: -law.share))

    def band(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of the band [s], shape (targets,); it holds the answer."""
        low, high = map(np.exp, self.belief.average.quantiles(0.5 - level / 2, 0.5 + level / 2))
        apart = ROUNDING * (1 + level)
        return np.minimum(low, self.value * (1 - apart)), np.maximum(high, self.value * (1 + apart))

    def certainty(self) -> Certainty:
        """The probability of being within 20 %, with the 80 % band."""
        answer = np.log(self.value)
        low, high = self.band(0.80)
        within = self.belief.average.between(answer + BELOW, answer + ABOVE)
        reasons = ("the points leave several laws",) * len(answer)
        usual = float(np.median(np.abs(self.missed)))
        misfit = f"no law holds: the points lie a factor of {np.exp(usual):.3g} off" * (usual > MISFIT)
        held = float(np.mean((self.missed > BELOW) & (self.missed < ABOVE)))
        return Certainty(within, low, high, reasons, misfit, held)


def averaged(
    series: Series, targets: FloatArray, issue: SharedIssue | None = None, priors: Priors = PRIORS
) -> AveragedScaling:
    """Average the laws of scaling over a series, at targets (numbers of workers, shape (targets,))."""
    x = np.asarray(series.x)
    first, last = float(x[0]), float(x[-1])
    ladder = last * LADDER
    while ladder[-1] < targets.max():
        ladder = np.append(ladder, ladder[-1] * FARTHER)
    belief = believe(points_of(series, issue), np.concatenate([targets, ladder]) / first, priors)
    answers = np.exp(belief.average.quantiles(priors.recalibration.answer)[0])
    ahead = len(targets)
    unit = min(first, float(targets.min()))
    whole = terms(belief.shares, unit, issue, priors)
    places = np.concatenate([x, ladder, targets[targets < first]])
    times = np.concatenate([np.exp(belief.fitted), answers[ahead:], answers[:ahead][targets < first]])
    law = _law(whole, places, times)
    stated = law(places)
    off = np.where(stated > 0, np.abs(stated / times - 1.0), 1.0)
    value = law(targets)
    value = np.where(value > 0, value, answers[:ahead])
    missed = np.log(series.typical or series.y) - belief.fitted
    return AveragedScaling(
        value,
        belief.at(ahead),
        law,
        shares_of(list(NAMES), list(belief.shares)),
        (*_outliers(series, belief.outliers), *_issued(issue, belief.issued), *_followed(series, places, off)),
        missed,
    )


def points_of(series: Series, issue: SharedIssue | None = None) -> Points:
    """A series as the laws see it."""
    x = np.asarray(series.x)
    runs = series.runs or tuple(map(float, series.repeats))
    return Points(
        x / x[0], np.log(series.typical or series.y), np.asarray(runs, dtype=np.float64), series.noise, issue, x[0]
    )


def cycles(machine: Machine | None) -> SharedIssue | None:
    """Cycles per instruction of a machine whose threads share cores; None where they do not."""
    if machine is None or len(set(machine.cycles_per_instruction)) < 2:
        return None
    return SharedIssue(machine.cores, tuple(machine.cycles_per_instruction))


def _law(whole: tuple[Term, ...], x: FloatArray, times: FloatArray) -> Law:
    """The sum of terms, `EITHER` of either sign, nearest to times in relative error."""
    columns = np.stack([term.values(x) for term in whole], axis=1)
    either = [i for i, term in enumerate(whole) if isinstance(term, PowerTerm) and term in EITHER]
    located = nearest_terms(np.concatenate([columns, -columns[:, either]], axis=1), times)
    coefficients = located[: len(whole)]
    coefficients[either] -= located[len(whole) :]
    return Law(tuple((float(c), term) for c, term in zip(coefficients, whole, strict=True) if c))


def _outliers(series: Series, probabilities: FloatArray) -> tuple[str, ...]:
    return tuple(
        f"{series.parameter} = {series.x[i]:g} ({series.y[i]:.4g} s) is an outlier with a probability of "
        f"{share_shown(probabilities[i])} and counts less"
        for i in np.flatnonzero(probabilities > DOUBTFUL)
    )


def _followed(series: Series, places: FloatArray, off: FloatArray) -> tuple[str, ...]:
    """How far the formula departs from the average it stands for, in words, where that can be seen."""
    worst = int(np.argmax(off))
    if off[worst] < SEEN:
        return ()
    ends = f"{places.min():g} to {places.max():g}"
    at = f"{share_shown(off[worst])} at {series.parameter} = {places[worst]:g}"
    return (f"the formula follows the average of the laws from {series.parameter} = {ends} to within {at}",)


def _issued(issue: SharedIssue | None, probability: float) -> tuple[str, ...]:
    if issue is None:
        return ()
    return (f"cycles per instruction of the machine's shared cores: {share_shown(probability)} likely",)
