"""The verb: series in, predictions out.

What to measure next: the candidate that narrows the band at the target most for its cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.formatting import share_shown
from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked as checked_arguments
from slipstick.estimators.base.estimate import quantile
from slipstick.estimators.base.sureness import ABOVE, BELOW, SURE, within_near
from slipstick.estimators.fitting.nonnegative_terms import nonnegative
from slipstick.estimators.scaling.averaged_scaling import averaged, cycles
from slipstick.estimators.scaling.extrapolation_band import checked, doubt
from slipstick.estimators.scaling.extrapolation_band import reasons as worst_of
from slipstick.estimators.scaling.laws.band_constants import ORIGINS
from slipstick.estimators.scaling.laws.priors import PRIORS, WEAK_PRIORS
from slipstick.estimators.scaling.laws.repeats import error_of, noise_at, widened
from slipstick.estimators.scaling.laws.selection import SIZES, Mixture, Pool, counted_in, select
from slipstick.estimators.scaling.laws.terms import FAMILIES, borders
from slipstick.estimators.scaling.prediction import LEAST_SHARE, AveragedLaw, Prediction, fit_line, fit_power, shares_of
from slipstick.estimators.scaling.series import (
    ENOUGH_POINTS,
    FARTHEST,
    Certainty,
    Series,
    Verdict,
    check_series,
    counts_nodes,
    kind_of,
    too_few,
    verdicts,
)
from slipstick.hwmodels.machine import Machine

LEAST_POINTS = 2
CHUNK = 4096
JUMP, FAR_OFF = 0.15, 3.0
"""In log time, and over what the others are missed by (three standard deviations): a last point farther off is one on
its own. Set by hand; no refit chose them."""
ROUNDING = 1e-9
"""Terms below this share of the time everywhere are what is left of sums that cancel."""
LEAST_SQUARES = {"line": fit_line, "power": fit_power}
"""Single laws with Student-t bands, by name only."""


def extrapolate(
    series: Series,
    to: npt.ArrayLike,
    kind: str | None = None,
    machine: Machine | None = None,
    family: str | None = None,
    level: float | None = 0.80,
) -> Prediction:
    """Predict one series at new values, times in seconds: `extrapolate_many` of one.

    Raises
    ------
    InputError
        As there.
    """
    return extrapolate_many([series], to, kind, machine, family, level)[0]


@checked_arguments
def extrapolate_many(
    series: Sequence[Series],
    to: npt.ArrayLike,
    kind: str | None = None,
    machine: Machine | None = None,
    family: str | None = None,
    level: float | None = 0.80,
) -> list[Prediction]:
    """Predict many series at the same new values; series of one length are fitted together.

    Parameters
    ----------
    to
        Values of the parameter at which times are predicted, shape (targets,), > 0.
    kind, machine, family
        As `slipstick.extrapolate` takes them; the machine as a record.
    level
        Probability of the band; None leaves it away.

    Returns
    -------
    list of Prediction
        One a series, times in seconds of shape (targets,).

    Raises
    ------
    InputError
        Where a target is no finite number > 0, a family is unknown, or a series is too short.

    Examples
    --------
    >>> import slipstick as ss
    >>> series = ss.Series((1, 2, 4, 8), (10.0, 5.5, 3.25, 2.125), (1, 1, 1, 1), parameter="threads")
    >>> answers = ss.laws.extrapolate_many([series, series], [16], kind="strong")
    >>> answers[0].value == answers[1].value
    True
    """
    try:
        targets = np.atleast_1d(np.asarray(to, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"targets (--to) {str(to)[:60]!r}: want numbers, such as [480, 3840]") from None
    if targets.ndim != 1 or not targets.size or not (np.isfinite(targets) & (targets > 0)).all():
        raise InputError(
            f"targets (--to) {str(targets.tolist())[1:80].rstrip(']')}: want one or more finite numbers > 0"
        )
    if targets.max() > FARTHEST:
        raise InputError(f"target (--to) {targets.max():g}: want at most {FARTHEST:g}")
    if family in LEAST_SQUARES:
        return [_least_squares(family, one, targets, level) for one in series]
    if family is not None and family not in FAMILIES:
        raise unknown_name("family", family, [*LEAST_SQUARES, *FAMILIES])
    groups: dict[tuple[int, str, float], list[int]] = defaultdict(list)
    reasons = []
    for i, one in enumerate(series):
        check_series(one)
        if len(one) < LEAST_POINTS:
            where = f"series {one.name!r}: " if one.name else ""
            raise InputError(
                f"{where}one value of {one.parameter} cannot be extrapolated: want {LEAST_POINTS}, better 5 or more"
            )
        named, reason = kind_of(one, kind)
        reasons.append(reason)
        groups[len(one), named, min(1.0, one.x[0], float(targets.min()))].append(i)
    answers: list[Prediction | None] = [None] * len(series)
    for (_, named, unit), members in groups.items():
        if named != "problem_size" and family is None:
            for i in members:
                answers[i] = _averaged(series[i], named, reasons[i], targets, level, machine)
            continue
        pool = counted_in(Pool((FAMILIES[family],)) if family else SIZES, unit)
        known = borders(machine) if machine is not None and named in ("strong", "weak") else ()
        for start in range(0, len(members), CHUNK):
            chunk = members[start : start + CHUNK]
            some = [series[i] for i in chunk]
            x, y = np.array([s.x for s in some]), np.array([s.y for s in some])
            steps = ORIGINS if level is not None or family is None else 0
            for i, mixture in zip(chunk, select(pool, x, y, known, steps), strict=True):
                answers[i] = _answer(series[i], named, reasons[i], pool, mixture, targets, level, known)
    return [answer for answer in answers if answer is not None]


def _averaged(
    series: Series, kind: str, reason: str, to: FloatArray, level: float | None, machine: Machine | None
) -> Prediction:
    issue = cycles(machine) if kind == "strong" else None
    known = borders(machine) if machine is not None and not counts_nodes(series.parameter) else ()
    average = averaged(series, to, issue, PRIORS if kind == "strong" else WEAK_PRIORS)
    low = high = None
    words: list[Verdict] = []
    if level is not None and len(series) < ENOUGH_POINTS:
        words = [too_few(len(series))] * len(to)
    elif level is not None:
        fallen = fall_of(series) if kind == "weak" else 0.0
        noise = np.hypot(noise_at(checked(level), series.statistic, series.noise), quantile(level, None) * fallen)
        words = verdicts(series, _with_fall(average.certainty(), average.value, fallen), to, average.value, known)
        ends = widened(average.value, *average.band(level), float(noise))
        low, high = (tuple(map(float, end)) for end in ends)
    assumptions = [f"{kind} scaling in {series.parameter} ({reason})", *series.notes, *average.notes]
    if known:
        assumptions.append("borders of the machine: " + ", ".join(f"{border:g}" for border in known))
    return Prediction(
        series=series,
        kind=kind,
        kind_reason=reason,
        x=tuple(map(float, to)),
        value=tuple(map(float, average.value)),
        low=low,
        high=high,
        level=level,
        verdicts=tuple(words),
        law=average.law,
        shares=average.shares,
        assumptions=tuple(assumptions),
        curves=average.curves(),
    )


def fall_of(series: Series) -> float:
    """Standard deviation of the log times of weak scaling around the nearest times that never fall; 0 where none does.

    The work of each worker is constant, so that nothing which goes on can let times fall: what does is an error, of a
    first run that was cold or of work that was not constant.
    """
    logs, steps = np.log(series.y / np.min(series.y)), np.tri(len(series))
    if not np.isfinite(logs).all():
        return float("nan")
    if (np.diff(logs) >= 0).all():
        return 0.0
    rising = steps @ nonnegative(steps, logs)  # what never falls is a sum of steps of at least zero
    return float(np.sqrt(np.mean((logs - rising) ** 2)))


def _with_fall(certainty: Certainty, value: FloatArray, fallen: float) -> Certainty:
    """What is still sure where times of weak scaling scatter by so much around ones that never fall."""
    if not fallen:
        return certainty
    low, high = widened(value, certainty.low, certainty.high, quantile(SURE, None) * fallen)
    near = [
        within_near(*after) / max(within_near(*before), 1e-12)
        for before, after in zip(
            zip(value, certainty.low, certainty.high, strict=True), zip(value, low, high, strict=True), strict=True
        )
    ]
    reason = f"times fall ({share_shown(fallen)} around ones that do not): with constant work of each nothing lets them"
    kept = [reason if high[i] / low[i] > WIDENED * certainty.high[i] / certainty.low[i] else one
            for i, one in enumerate(certainty.reasons)]  # fmt: skip
    return replace(certainty, within=certainty.within * np.minimum(near, 1.0), low=low, high=high, reasons=tuple(kept))


WIDENED = 1.05
"""Factor of the ends' ratio from which on a fall is named the reason of a band's width."""


def _answer(
    series: Series,
    kind: str,
    reason: str,
    pool: Pool,
    mixture: Mixture,
    to: FloatArray,
    level: float | None,
    known_borders: tuple[float, ...],
) -> Prediction:
    x, y = np.asarray(series.x), np.asarray(series.y)
    notes: tuple[str, ...] = ()
    everywhere = np.concatenate([x, to])
    law = mixture.law().without(ROUNDING, everywhere)
    value = law(to)
    low = high = None
    words: list[Verdict] = []
    if level is not None:
        noise = error_of(series.statistic, series.noise, series.repeats)
        parts = doubt(mixture, kind, x, y, to, noise)
        if parts is None:
            words = [too_few(len(series))] * len(to)
        else:
            below, above = parts.band(0.80)
            jump = _without_last(pool, mixture, x, y, to, noise)
            if jump is not None:
                apart = np.minimum(np.abs(np.log(value / jump)), 1.0)
                parts = replace(parts, disagreement=np.hypot(parts.disagreement, apart))
                notes = (f"the last point alone is off the law of the others, which says {jump[-1]:.4g} s",)
            usual = Certainty(
                parts.within(-BELOW, ABOVE), value * np.exp(-below), value * np.exp(above), worst_of(parts)
            )
            words = verdicts(series, usual, to, value, known_borders)
            below, above = parts.band(level)
            spread = noise_at(level, series.statistic, series.noise)
            ends = widened(value, value * np.exp(-below), value * np.exp(above), spread)
            low, high = (tuple(map(float, end)) for end in ends)
    assumptions = [f"{kind.replace('_', ' ')} scaling in {series.parameter} ({reason})", *series.notes, *notes]
    if known_borders:
        assumptions.append("change points at the machine's borders: " + ", ".join(f"{b:g}" for b in known_borders))
    return Prediction(
        series=series,
        kind=kind,
        kind_reason=reason,
        x=tuple(map(float, to)),
        value=tuple(map(float, value)),
        low=low,
        high=high,
        level=level,
        verdicts=tuple(words),
        law=law,
        shares=shares_of([part.held(everywhere) for part in mixture.parts], list(mixture.weights)),
        assumptions=tuple(assumptions),
        curves=_curves(mixture, to, everywhere),
    )


def _without_last(
    pool: Pool, mixture: Mixture, x: FloatArray, y: FloatArray, to: FloatArray, noise: float
) -> FloatArray | None:
    """Times [s] without the last point, where it alone lies beyond what earlier points were missed by; None elsewhere.

    One point beyond the noise of the others is an outlier or the begin of another law, and nothing tells which.
    """
    if len(x) <= ENOUGH_POINTS or not len(mixture.ahead) or abs(float(mixture.ahead[-1])) < JUMP:
        return None
    (rest,) = select(pool, x[None, :-1], y[None, :-1])
    usual = float(np.sqrt(np.mean(rest.ahead**2))) if len(rest.ahead) else np.inf
    off = abs(float(np.log(rest(x[-1:])[0] / y[-1])))
    return rest(to) if off > max(JUMP, FAR_OFF * max(usual, noise)) else None


def _curves(mixture: Mixture, to: FloatArray, everywhere: FloatArray) -> tuple[AveragedLaw, ...]:
    """The families that have a weight."""
    each = zip(mixture.parts, mixture.weights.tolist(), mixture.each(to).tolist(), strict=True)
    curves = [
        AveragedLaw(part.held(everywhere), weight, tuple(times))
        for part, weight, times in each
        if weight >= LEAST_SHARE
    ]
    return tuple(sorted(curves, key=lambda curve: -curve.share))


def _least_squares(family: str, series: Series, to: FloatArray, level: float | None) -> Prediction:
    prediction = LEAST_SQUARES[family](series.x, series.y, to, level if level is not None else 0.80, series.parameter)
    prediction = replace(prediction, series=series, assumptions=(*prediction.assumptions, *series.notes))
    if level is None:
        return replace(prediction, low=None, high=None, level=None)
    if prediction.low is None or prediction.high is None:
        return prediction
    value, low, high = (np.asarray(times) for times in (prediction.value, prediction.low, prediction.high))
    low, high = widened(value, low, high, noise_at(level, series.statistic, series.noise))
    return replace(prediction, low=tuple(map(float, low)), high=tuple(map(float, high)))


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
    deviations = doubts / (2 * quantile(level, None))
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
