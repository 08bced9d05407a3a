"""How far measured times scatter around a machine's forecast, from machines that were left out.

What holds for a machine that nobody measured, learned on measured ones that are left out in turn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.size_column import Sized, where
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import FormulaLaw
from slipstick.estimators.fitting.formula_model import expected, plain_fit
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights
from slipstick.estimators.gpu.transfer.pooling_constants import BORDER, LARGEST, ROWS, SHARE, SHARE_WIDTH

LIBRARIES = "libraries"
"""What is fitted of how far two kernel libraries differ on one device (`slipstick validate --refit libraries`)."""


@dataclass(frozen=True)
class Scatter:
    """Standard deviations of the normal law whose 80 % band holds log(measured / predicted) of operations predicted
    below and above `BORDER`.

    `common`: the part that all operations of the class have alike, since one of several libraries runs them.
    """

    short: float
    long: float
    common: float = 0.0

    @property
    def unshared(self) -> Scatter:
        """What operations do not have alike: it stays in the ratio of two of them."""
        return Scatter(*(math.sqrt(max(end**2 - self.common**2, 0.0)) for end in (self.short, self.long)))

    def wider(self, more: float) -> Scatter:
        """With another, independent standard deviation."""
        return Scatter(math.hypot(self.short, more), math.hypot(self.long, more), self.common)

    def of(self, predicted: Sized) -> Sized:
        """Of one predicted time in seconds, or of each of many."""
        return where(predicted < BORDER, self.short, self.long)


def of_one_source(closest: int, similarity: SimilarityWeights) -> Scatter:
    """Of a machine that shares `closest` words of the family with the only machine, or chip, that was measured."""
    return Scatter(*(2 * [similarity.one_source * similarity.errors[closest]]))


def at_least(known: Scatter, least: Scatter) -> Scatter:
    """The wider of two, below and above `BORDER`."""
    return replace(known, short=max(known.short, least.short), long=max(known.long, least.long))


def scatter(
    errors: Sequence[FloatArray], predicted: Sequence[FloatArray], tails: float, groups: Sequence[str] = ()
) -> Scatter:
    """`tails` times the standard deviation of the normal law whose 80 % band holds 80 % of the log errors.

    The rows of a machine count as one, and so do the machines of a group, which err alike.

    `errors`, `predicted`: of each machine: log(measured / predicted), and seconds.
    `groups`: of each machine; each alone where empty.
    `tails`: how much longer tails are where the group is unseen (`SimilarityWeights.tails`).
    Raises InputError where there is no error.
    """
    ends = []
    for brief in (True, False):
        parts = [error[(time < BORDER) == brief] for error, time in zip(errors, predicted, strict=True)]
        kept = [
            (part, name) for part, name in zip(parts, groups or map(str, range(len(parts))), strict=True) if len(part)
        ]
        count = Counter(name for _, name in kept)
        shares = [np.full(len(part), 1 / (len(part) * count[name])) for part, name in kept]
        every = [part for part, _ in kept]
        ends.append(tails * normal_spread(np.concatenate(every), np.concatenate(shares)) if kept else None)
    short, long = ends
    if short is None and long is None:
        raise InputError("no error to estimate a scatter from")
    return Scatter(long if short is None else short, short if long is None else long)  # type: ignore[arg-type]


def widened(known: Scatter, errors: FloatArray, predicted: FloatArray, tails: float) -> Scatter:
    """The scatter of a machine after a few of its own rows were predicted, wider or narrower than its relatives say.

    `known`: what the relatives say.
    `errors`, `predicted`: log(measured / predicted) of rows that were left out, and predicted seconds.
    """
    share = np.minimum(np.abs(errors), LARGEST) / (known.of(predicted) / tails)
    factor = float(np.sqrt((ROWS + np.sum(share**2)) / (ROWS + len(share))))
    return replace(known, short=known.short * factor, long=known.long * factor)


@cache
def library_spreads() -> Mapping[str, float]:
    """Standard deviation of log time between two libraries where none is named, by kind of operation; kinds that are
    not in it differ as products do."""
    return {kind: float(spread) for kind, spread in load_fitted(LIBRARIES).facts.items()}


def between_libraries(spreads: Mapping[str, float], name: str) -> float:
    """Standard deviation of log time (of no unit) of a class, such as "attention.bfloat16": what libraries of its kind
    differ by, else those of products."""
    return spreads.get(name.partition(".")[0], spreads.get("gemm", 0.0))


@dataclass(frozen=True, eq=False)
class LeaveOneOutDevice:
    """A measured machine predicted from others; arrays of one shape (rows,), log seconds.

    `plain`: by the parameters that the others give it.
    `factor`: what the others take over their own fits at the nearest shapes.
    `scale`: how large errors of the target machine are against those of this one.
    `new`: what the others do not know of it (`kernel_class.unknown_part`), of which all rows err alike.
    """

    plain: FloatArray
    factor: FloatArray
    measured: FloatArray
    scale: float = 1.0
    new: str = ""


def repeats(trials: Sequence[LeaveOneOutDevice]) -> float:
    """The share of residuals at the nearest shapes that repeats, between 0 and 1, drawn towards `SHARE`.

    Rows of one machine err alike: a machine counts, not its rows.
    Raises InputError where a trial has no rows.
    """
    if any(not len(trial.measured) for trial in trials):
        raise InputError("a machine without measured rows cannot score its forecast")
    if not trials:
        return SHARE
    plain, factor, measured = (
        np.concatenate([getattr(trial, name) for trial in trials]) for name in ("plain", "factor", "measured")
    )
    law = FormulaLaw(
        "share",
        (expected("share", SHARE, SHARE_WIDTH, high=1.0),),
        lambda numbers, _: np.asarray(np.exp(plain + numbers["share"] * factor)),
    )
    alike = [str(at) for at, trial in enumerate(trials) for _ in trial.measured]
    return plain_fit(law, np.exp(measured), alike)["share"]


def left(trials: Sequence[LeaveOneOutDevice], share: float, tails: float) -> Scatter:
    """How far measured times scatter around the forecast with that share; `tails` as in `bands.scatter`.

    Raises InputError where there is no trial.
    """
    predicted = [trial.plain + share * trial.factor for trial in trials]
    errors = [(trial.measured - log) * trial.scale for trial, log in zip(trials, predicted, strict=True)]
    groups = [trial.new or str(at) for at, trial in enumerate(trials)]
    return scatter(errors, [np.exp(log) for log in predicted], tails, groups)
