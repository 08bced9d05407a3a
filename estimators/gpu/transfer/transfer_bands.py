"""How far measured times scatter around a machine's forecast, from machines that were left out.

What holds for a machine that nobody measured, learned on measured ones that are left out in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.fitting.fitted_model import FormulaLaw
from slipstick.estimators.fitting.formula_model import expected, plain_fit
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights
from slipstick.estimators.gpu.transfer.kernel_class import (
    SAMPLED,
    KernelClass,
    MachineFit,
    Scatter,
    kind_of,
    of_one_chip,
    pooled,
    times,
    unknown_part,
    weights,
)
from slipstick.estimators.gpu.transfer.operation_times import joined_times, thinned
from slipstick.estimators.gpu.transfer.pooling_constants import (
    BORDER,
    LARGEST,
    ROWS,
    SHARE,
    SHARE_WIDTH,
    UNKNOWN,
)
from slipstick.estimators.gpu.transfer.residual_by_shape import Rule, ShapeFactor
from slipstick.hwmodels.machine import Machine


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
    """How far measured times scatter around the forecast with that share; `tails` as in `scatter`.

    Raises InputError where there is no trial.
    """
    predicted = [trial.plain + share * trial.factor for trial in trials]
    errors = [(trial.measured - log) * trial.scale for trial, log in zip(trials, predicted, strict=True)]
    groups = [trial.new or str(at) for at, trial in enumerate(trials)]
    return scatter(errors, [np.exp(log) for log in predicted], tails, groups)


def transferred(
    one: KernelClass,
    sources: Sequence[MachineFit],
    machines: Mapping[str, Machine],
    machine: Machine,
    closest: int,
    similarity: SimilarityWeights,
) -> Rule:
    """Of a class on a machine without a fit, from the rows of those that were fitted: each is left out in turn.

    `machines`: by name; `closest`: words of the family that the nearest of `sources` shares with the machine; those
    that predict a source are no closer to it than that.
    """
    trials = []
    for fit in sources:
        others = [other for other in sources if other.machine != fit.machine]
        others = [other for other in others if shared_words(fit.family, other.family) <= closest] or others
        forms = one.sampled.get(fit.machine)
        if not others or not forms:
            continue
        here, nearest = machines[fit.machine], max(shared_words(fit.family, other.family) for other in others)
        factor = _factor(one, others, here, 1.0, similarity)
        trials.append(
            LeaveOneOutDevice(
                np.log(times(forms, pooled(others, here, similarity, one.priors))),
                np.concatenate([factor.logs(form) for form in forms]),
                np.log(joined_times(forms)),
                scale=similarity.shaped[closest] / similarity.shaped[nearest],
                new=unknown_part(fit, nearest),
            )
        )
    share = repeats(trials)
    if trials:
        known = left(trials, share, similarity.tails)
    else:
        known = of_one_source(closest, similarity) if sources else Scatter(UNKNOWN, UNKNOWN)
    if of_one_chip(sources, closest):
        known = at_least(known, of_one_source(closest, similarity))
    return Rule(_factor(one, sources, machine, share, similarity), known)


def _factor(
    one: KernelClass, fits: Sequence[MachineFit], machine: Machine, share: float, similarity: SimilarityWeights
) -> ShapeFactor:
    """Of several machines' residuals, relatives counting more."""
    if not fits:
        return ShapeFactor(one, {})
    each = weights(fits, similarity, machine.family, machine.runtime.library)
    each = share * each / each.sum()
    return ShapeFactor(one, {fit.machine: float(part) for fit, part in zip(fits, each, strict=True)})


def repeated(one: KernelClass, fit: MachineFit, similarity: SimilarityWeights) -> Rule:
    """Of a class on a measured machine: as much of its own residual at the nearest shapes as repeats among its rows."""
    forms = thinned(one.rows[fit.machine], 2 * SAMPLED)
    predicted = np.log(times(forms, fit.values))
    around = np.concatenate([one.residual(fit.machine, kind_of(form.op), form.place(), skip=1) for form in forms])
    residual = np.log(joined_times(forms)) - predicted
    share = float(np.clip(around @ residual / (float(around @ around) + 1e-12), 0.0, 1.0))
    predicted = predicted + share * around
    known = scatter([np.log(joined_times(forms)) - predicted], [np.exp(predicted)], similarity.tails)
    return Rule(ShapeFactor(one, {fit.machine: share}), known)
