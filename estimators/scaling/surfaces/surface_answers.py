"""The verb in several parameters: measurements in, times with bands and verdicts out.

Targets that lie beyond the data in one parameter alone, at measured levels of the others: a series answers for them.

A long series of one parameter shows its own bends; a surface spreads them over all levels of the others. And what the
average over laws of one parameter leaves open, a sum of products that fits a table may not know of.

How sure answers in several parameters are: the same probability, words and limits as in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.answer import Answer, Provenance
from slipstick.common.array_types import FloatArray
from slipstick.common.columns import SHARE, Column
from slipstick.common.errors import InputError
from slipstick.common.formatting import share_shown
from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.sureness import ABOVE, BELOW, sureness, word_of
from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.laws.repeats import (
    Statistic,
    error_of,
    noise_at,
    noise_of,
    one_time_each,
    repeats_note,
    widened,
)
from slipstick.estimators.scaling.laws.terms import PowerTerm
from slipstick.estimators.scaling.prediction import Prediction
from slipstick.estimators.scaling.series import ENOUGH_POINTS, FARTHEST, Series, Verdict, refuse_reach, refuse_spread
from slipstick.estimators.scaling.surfaces.candidate_scores import Weighed, weigh
from slipstick.estimators.scaling.surfaces.extrapolation_holdout import (
    NEAR_LINE,
    DesignLine,
    directions,
    distances,
    line_of,
)
from slipstick.estimators.scaling.surfaces.surface_band import (
    REACH,
    missed,
    surface_band,
    surface_scale,
    surface_within,
    tried,
)
from slipstick.estimators.scaling.surfaces.surface_candidates import searched_candidates, usual_candidates
from slipstick.estimators.scaling.surfaces.surface_constants import SLICE_POINTS
from slipstick.estimators.scaling.surfaces.surface_fits import SurfaceFit
from slipstick.estimators.scaling.surfaces.surface_law import Product, Surface
from slipstick.estimators.scaling.surfaces.term_families import surface_kind


def surface_verdicts(
    weighed: Weighed, parameters: tuple[str, ...], x: FloatArray, to: FloatArray, values: FloatArray, scale: FloatArray
) -> list[Verdict]:
    """One verdict a target, where the answers are `values` seconds, and `scale` that of their bands."""
    ratios = distances(x, to)
    within = surface_within(scale, ratios, -BELOW, ABOVE)
    low, high = x.min(axis=0), x.max(axis=0)
    farthest = tried(weighed)
    missing = f"points left out in this direction were missed by {share_shown(missed(weighed))}"
    result = []
    for i, target in enumerate(to):
        if not (np.isfinite(values[i]) and values[i] > 0 and np.isfinite(scale[i])):
            result.append(Verdict("do not trust", f"no finite answer: {values[i]:g} s"))
            continue
        beyond, spans, sure = np.maximum(target / high, low / target), high / low, float(within[i])
        far = [
            f"{parameters[k]} = {target[k]:g}: {beyond[k]:.3g} times beyond the data, which span {spans[k]:.3g} times"
            for k in np.flatnonzero(beyond > spans)
        ]
        sure *= float(np.prod(np.minimum(spans / beyond, 1.0)))
        if ratios[i] > farthest:
            most = farthest ** (1 / REACH)
            far.append(f"{ratios[i]:.3g} times beyond the data: points left out were tried up to {most:.3g} times")
        result.append(Verdict(word_of(sure), "; ".join([sureness(sure), *far, missing]), sure))
    return result


@dataclass(frozen=True, eq=False)
class Slice:
    """A series along one parameter, and what it predicts for one target."""

    column: int
    prediction: Prediction

    def law(self, parameters: tuple[str, ...], kinds: tuple[str, ...]) -> Surface:
        """The series' law as a surface that does not depend on the other parameters."""
        products = (
            (coefficient, tuple(term if i == self.column else PowerTerm() for i in range(len(parameters))))
            for coefficient, term in self.prediction.law.terms
        )
        return Surface(parameters, kinds, tuple(products))


def slices(
    x: FloatArray,
    y: FloatArray,
    parameters: Sequence[str],
    kinds: Sequence[str],
    to: FloatArray,
    level: float | None,
) -> dict[int, Slice]:
    """The targets that a series of enough points answers, by their place in `to`.

    `x`, `y`: different points, shape (points, parameters), and their times [s].
    `to`: shape (targets, parameters).
    """
    result = {}
    outside = (to < x.min(axis=0)) | (to > x.max(axis=0))
    for place in np.flatnonzero(outside.sum(axis=1) == 1):
        column = int(np.argmax(outside[place]))
        least = SLICE_POINTS.get(kinds[column])
        others = np.arange(x.shape[1]) != column
        along = (x[:, others] == to[place, others]).all(axis=1)
        if least is None or along.sum() < least:
            continue
        series = Series.of(x[along, column], y[along], parameters[column])
        result[int(place)] = Slice(column, extrapolate(series, to[place, [column]], kinds[column], level=level))
    return result


AVERAGED = ("strong", "weak", "collective")
"""Kinds whose laws are averaged over, with bands learned from public codes."""


def half_widths(
    x: FloatArray, y: FloatArray, parameters: Sequence[str], kinds: Sequence[str], to: FloatArray
) -> FloatArray:
    """Half of ln(high / low) of the 80 % bands along each parameter of `AVERAGED` kinds that a target exceeds.

    In squares over these parameters, shape (targets,), nan where there is none. Each is that of the series nearest to
    the target's levels of the others that has enough points.

    `x`, `y`: different points, shape (points, parameters), and their times [s].
    `to`: shape (targets, parameters).
    """
    squares = np.full(len(to), np.nan)
    outside = (to < x.min(axis=0)) | (to > x.max(axis=0))
    for column in (i for i, kind in enumerate(kinds) if kind in AVERAGED and outside[:, i].any()):
        others = np.arange(x.shape[1]) != column
        levels, line, counts = np.unique(x[:, others], axis=0, return_inverse=True, return_counts=True)
        long, wanted = np.flatnonzero(counts >= ENOUGH_POINTS), np.flatnonzero(outside[:, column])
        if not len(long):
            continue
        apart = np.abs(np.log(levels[long])[:, None] - np.log(to[wanted][:, others])).sum(axis=2)
        nearest = long[np.argmin(apart, axis=0)]
        for one in np.unique(nearest):
            along, here = line.ravel() == one, wanted[nearest == one]
            series = Series.of(x[along, column], y[along], parameters[column])
            values, place = np.unique(to[here, column], return_inverse=True)
            answer = extrapolate(series, values, kinds[column])
            if answer.low is not None and answer.high is not None:
                half = np.log(np.array(answer.high) / np.array(answer.low)) / 2.0
                squares[here] = np.nan_to_num(squares[here]) + half[place] ** 2
    return np.asarray(np.sqrt(squares))


LEAST_POINTS = 4
MAX_PARAMETERS = 4
MAX_POINTS = 2_000
MAX_TARGETS = 10_000
LEAST_SHARE = 1e-3
WIDEST = 35.0
"""Of a band, to either side [log time], a factor of 1e15: one that wide says that nothing is known."""


@dataclass(frozen=True)
class SurfaceAnswer:
    """The time at one point of several parameters.

    `point`: one value a parameter, in the order of the prediction's `parameters`.
    `time`, `low`, `high`: seconds; the band is None where no point could be left out to learn it from, or none was
        requested.
    `ratio`: how far the point lies beyond the measured box: the product of the ratios, 1 inside.
    `missed`: root mean square of log(predicted / measured) of points left out in this direction; None where there are
        none.
    `verdict`: none where no band was requested.
    `law`: the sum of products that gives the time at this point.
    `shares`: what was averaged, with its share, largest first.
    """

    point: tuple[float, ...]
    time: float
    low: float | None
    high: float | None
    ratio: float
    missed: float | None
    verdict: Verdict | None
    law: Surface
    shares: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class SurfacePrediction(Answer):
    """Answers over several parameters, and what they rest on.

    Parameters
    ----------
    parameters, kinds, reasons
        What varies, as what kind of scaling each was taken, and how that is known.
    points
        Different points measured.
    level
        Probability of the bands.
    notes
        What was done to the measurements, in words.
    """

    parameters: tuple[str, ...]
    kinds: tuple[str, ...]
    reasons: tuple[str, ...]
    points: int
    level: float | None
    answers: tuple[SurfaceAnswer, ...]
    notes: tuple[str, ...] = ()

    @property
    def provenance(self) -> Provenance:
        """Laws through the measured points."""
        return "calibrated"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """In words, one a parameter, then the notes."""
        kinds = zip(self.parameters, self.kinds, self.reasons, strict=True)
        return (*(f"{name}: {kind.replace('_', ' ')} ({reason})" for name, kind, reason in kinds), *self.notes)

    def rows(self) -> list[dict[str, Any]]:
        """One row a target, units in the keys."""
        return [
            {
                **dict(zip(self.parameters, one.point, strict=True)),
                "time_s": one.time,
                "low_s": one.low,
                "high_s": one.high,
                "interval_level": self.level if one.low is not None else None,
                "ratio": one.ratio,
                "probability_within_20_percent": one.verdict.probability if one.verdict else None,
                "verdict": one.verdict.word if one.verdict else None,
                "reason": one.verdict.reason if one.verdict else None,
            }
            for one in self.answers
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {
            "parameters": list(self.parameters),
            "kinds": dict(zip(self.parameters, self.kinds, strict=True)),
            "points": self.points,
            "unit": "s",
            "assumptions": list(self.assumptions),
            "predictions": [
                row
                | {
                    "left_out_missed_by": one.missed,
                    "laws": dict(one.shares),
                    "formula": str(one.law.formula.expression),
                }
                for row, one in zip(self.rows(), self.answers, strict=True)
            ],
        }

    @property
    def declared(self) -> tuple[Column, ...]:
        """The verdict's probability is a share."""
        return (Column("probability_within_20_percent", "within 20 %", SHARE),)

    @property
    def heads(self) -> tuple[str, ...]:
        """What each parameter was taken for."""
        return self.assumptions[: len(self.parameters)]


@checked
def extrapolate_surface(
    points: npt.ArrayLike,
    times: npt.ArrayLike,
    parameters: Sequence[str],
    to: npt.ArrayLike,
    kind: Mapping[str, str] | None = None,
    level: float | None = 0.80,
    statistic: Statistic = "median",
) -> SurfacePrediction:
    """Predict times over several parameters (threads x size) at new points.

    Shapes of one parameter (Amdahl, growth, change points, n^2 ...) and their products, short laws found by search, and
    a product of powers are fitted without the points farthest in the direction of each target; those that predict them
    share in the answer. A target beyond the data in one parameter alone, at measured levels of the others, has the
    time of the series along it where that is long enough (`slices`), and the wider ends and the doubt of both.

    Parameters
    ----------
    points, times
        Shape (n, parameters) and (n,) in seconds, any design (a grid, lines through the space); repeats are allowed.
    to
        Shape (targets, parameters).
    kind
        Parameter -> "strong", "weak", "problem_size", "collective" or "setting"; the others are taken from name and
        slope.
    level
        Probability of the band; None: no band and no verdict.
    statistic
        Which of the repeats of a point counts: "median", or "least" where they differ by what other programs on the
        host took; then their spread widens the band.

    Raises
    ------
    InputError
        Where numbers are not finite and positive, times lie too far apart, a name is unknown, or there are too few or
        too many points.

    Examples
    --------
    >>> grid = [(p, n) for p in (1, 2, 4, 8) for n in (100, 200, 400, 800)]
    >>> times = [1e-6 * n**2 / p for p, n in grid]
    >>> answer = extrapolate_surface(grid, times, ["threads", "n"], [(32, 3200)]).answers[0]
    >>> round(answer.time, 3), answer.verdict.word
    (0.32, 'trust')
    """
    x, y, targets = _checked(points, times, parameters, to)
    given = dict(kind or {})
    for name in given:
        if name not in parameters:
            raise unknown_name("parameter", name, parameters)
    unique, middle, counts, noise, note = _one_each(x, y, statistic)
    if not LEAST_POINTS <= len(unique) <= MAX_POINTS:
        raise InputError(f"{len(unique)} different points; want {LEAST_POINTS} .. {MAX_POINTS}")
    line = line_of(unique, parameters)
    if line is not None:
        return _along(line, x, y, targets, tuple(parameters), given, level, statistic)
    error = error_of(statistic, noise, counts)
    guessed = [surface_kind(unique, middle, i, name, given.get(name)) for i, name in enumerate(parameters)]
    units = np.minimum(1.0, np.minimum(unique.min(axis=0), targets.min(axis=0)))
    kinds_found = tuple(kind for kind, _ in guessed)
    search = partial(searched_candidates, kinds=kinds_found, units=units.tolist())
    some = [*usual_candidates(unique, middle, kinds_found, units.tolist()), *search(unique, middle)]
    fits = tuple(SurfaceFit.of(one.products, unique, middle) for one in some)
    heads, ratios = directions(unique, targets), distances(unique, targets)
    answers: list[SurfaceAnswer | None] = [None] * len(targets)
    names = tuple(parameters)
    along = half_widths(unique, middle, names, kinds_found, targets)
    for head in dict.fromkeys(heads):
        chosen = [i for i, other in enumerate(heads) if other == head]
        weighed = weigh(some, fits, search, unique, middle, head)
        to_here, far = targets[chosen], ratios[chosen]
        values = weighed.weights @ weighed.each(to_here)
        scale = surface_scale(weighed, to_here, far, along[chosen], error)
        bands = None if level is None else _bands(scale, values, far, level)
        verdicts: list[Verdict | None] = [None] * len(far)
        if level is not None:
            verdicts = [*surface_verdicts(weighed, names, unique, to_here, values, scale)]
        for j, i in enumerate(chosen):
            law, shares = _law(weighed, to_here[j : j + 1], names, kinds_found)
            answers[i] = SurfaceAnswer(
                point=tuple(map(float, to_here[j])),
                time=float(values[j]),
                low=None if bands is None else float(bands[0][j]),
                high=None if bands is None else float(bands[1][j]),
                ratio=float(far[j]),
                missed=missed(weighed),
                verdict=verdicts[j],
                law=law,
                shares=shares,
            )
    alone = slices(unique, middle, names, kinds_found, targets, level)
    every = [answer for answer in answers if answer is not None]
    merged = [_of_series(alone[i], answer) if i in alone else answer for i, answer in enumerate(every)]
    spread = 0.0 if level is None else noise_at(level, statistic, noise)
    return SurfacePrediction(
        names,
        kinds_found,
        tuple(reason for _, reason in guessed),
        len(unique),
        level,
        tuple(_with_noise(answer, spread) for answer in merged),
        (note,) if note else (),
    )


def _along(
    line: DesignLine,
    x: FloatArray,
    y: FloatArray,
    to: FloatArray,
    names: tuple[str, ...],
    given: Mapping[str, str],
    level: float | None,
    statistic: Statistic,
) -> SurfacePrediction:
    """Answers where all parameters grow together: those of one series, wider for targets that leave its line."""
    name = names[line.column]
    series = Series.of(x[:, line.column], y, name, statistic=statistic)
    wanted = given.get(name)
    known = extrapolate(series, to[:, line.column], None if wanted == "setting" else wanted, level=level)
    others = [other for i, other in enumerate(names) if i != line.column]
    why = f"grows with {name}: their effects are not separated"
    kinds = tuple(known.kind if i == line.column else given.get(other, known.kind) for i, other in enumerate(names))
    law = Slice(line.column, known).law(names, kinds)
    shares, answers = tuple(known.shares.items()), []
    for i, (target, off) in enumerate(zip(to, line.off(to), strict=True)):
        verdict = known.verdicts[i] if known.verdicts else None
        if verdict is not None and verdict.probability is not None and off > NEAR_LINE:
            sure = verdict.probability * min(1.0, ABOVE / off)
            reason = f"{sureness(sure)}; {', '.join(names)} grew together, and this target leaves their line"
            verdict = Verdict(word_of(sure), reason, sure)
        stretch, time = float(np.exp(min(off, WIDEST))), known.value[i]
        answers.append(
            SurfaceAnswer(
                point=tuple(map(float, target)),
                time=time,
                low=known.low[i] / stretch if known.low else None,
                high=known.high[i] * stretch if known.high else None,
                ratio=float(distances(x, target[None])[0]),
                missed=None,
                verdict=verdict,
                law=law,
                shares=shares,
            )
        )
    reasons = tuple(known.kind_reason if i == line.column else why for i in range(len(names)))
    stated = f"{' and '.join([name, *others])} grow together: a target off their line is answered as if it lay on it"
    notes = (stated, *known.assumptions[1:])
    return SurfacePrediction(names, kinds, reasons, len(series), level, tuple(answers), notes)


def _with_noise(answer: SurfaceAnswer, noise: float) -> SurfaceAnswer:
    """The band widened in squares by the noise [log time]."""
    if not noise or answer.low is None or answer.high is None:
        return answer
    low, high = widened(np.asarray(answer.time), np.asarray(answer.low), np.asarray(answer.high), noise)
    return replace(answer, low=float(low), high=float(high))


def _of_series(one: Slice, surface: SurfaceAnswer) -> SurfaceAnswer:
    """The answer of a series, with the ends and the doubt of both models: where they differ the data do not decide."""
    known, names = one.prediction, surface.law.parameters
    verdict = known.verdicts[0] if known.verdicts else surface.verdict
    if surface.verdict is not None and verdict is not None and surface.verdict.word != "trust":
        verdict = surface.verdict
    return replace(
        surface,
        time=float(known.value[0]),
        low=min(known.low[0], surface.low) if known.low and surface.low is not None else None,
        high=max(known.high[0], surface.high) if known.high and surface.high is not None else None,
        missed=None,
        verdict=verdict,
        law=one.law(names, surface.law.kinds),
        shares=tuple((f"series of {names[one.column]}: {name}", float(share)) for name, share in known.shares.items()),
    )


def _checked(
    points: npt.ArrayLike, times: npt.ArrayLike, parameters: Sequence[str], to: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    x, y = np.asarray(points, dtype=np.float64), np.asarray(times, dtype=np.float64)
    targets = np.atleast_2d(np.asarray(to, dtype=np.float64))
    count = len(parameters)
    if x.ndim != 2 or y.ndim != 1 or x.shape != (len(y), count):
        raise InputError(f"want one time and {count} parameters a measurement, got shapes {x.shape} and {y.shape}")
    if not 1 <= count <= MAX_PARAMETERS or len(set(parameters)) < count:
        raise InputError(f"{count} parameters; want 1 .. {MAX_PARAMETERS} different ones")
    if targets.ndim != 2 or targets.shape[1] != count or not 1 <= len(targets) <= MAX_TARGETS:
        raise InputError(f"targets of shape {targets.shape}: want 1 .. {MAX_TARGETS}, each with {count} parameters")
    if not all((np.isfinite(a) & (a > 0)).all() for a in (x, y, targets)):
        raise InputError("parameters and times must be finite numbers > 0")
    if targets.max() > FARTHEST:
        raise InputError(f"target (--to) {targets.max():g}: want at most {FARTHEST:g}")
    if len(y):
        refuse_spread(y)
        for name, values in zip(parameters, x.T, strict=True):
            refuse_reach(values, name)
    return x, y, targets


def _one_each(
    x: FloatArray, y: FloatArray, statistic: Statistic
) -> tuple[FloatArray, FloatArray, list[int], float | None, str]:
    """Different points, one time [s] and the repeats of each, their noise [log time], and which statistic, in words."""
    unique, inverse = np.unique(x, axis=0, return_inverse=True)
    order = np.lexsort((y, inverse.ravel()))
    _, starts, counts = np.unique(inverse.ravel()[order], return_index=True, return_counts=True)
    noise = noise_of(np.log(y[order]), starts, counts) if len(y) else None
    note = repeats_note(len(y), len(unique), "point", statistic, noise)
    return unique, one_time_each(y[order], starts, counts, statistic), counts.tolist(), noise, note


def _bands(scale: FloatArray, values: FloatArray, ratios: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    below, above = (np.minimum(end, WIDEST) for end in surface_band(scale, ratios, level))
    return values * np.exp(-below), values * np.exp(above)


def _law(
    weighed: Weighed, to: FloatArray, names: tuple[str, ...], kinds: tuple[str, ...]
) -> tuple[Surface, tuple[tuple[str, float], ...]]:
    """The weighted sum of the candidates at one target, and what shares in it."""
    total: dict[Product, float] = {}
    shares: dict[str, float] = {}
    for name, fit, weight in zip(weighed.names, weighed.fits, weighed.weights, strict=True):
        if weight == 0:
            continue
        shares[name] = shares.get(name, 0.0) + float(weight)
        factor = float(weight * np.exp(fit.near(to)[0]))
        for product, coefficient in zip(fit.products, fit.coefficients, strict=True):
            if coefficient:
                total[product] = total.get(product, 0.0) + factor * float(coefficient)
    law = Surface(names, kinds, tuple((coefficient, product) for product, coefficient in total.items()))
    largest = sorted(shares.items(), key=lambda share: -share[1])
    return law, tuple((name, share) for name, share in largest if share >= LEAST_SHARE)
