"""Saturation of memory bandwidth: fitted on one to four cores, the rest of the NUMA domain predicted.

What a machine's own four cores cannot say (where the curve ends) comes from other machines: the law is fitted
without the chip that is scored. Streams from a data sheet alone are scored beside them (`loop_scores`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import DEFAULT_LEVEL
from slipstick.estimators.cpu.multicore_bandwidth import (
    BEYOND,
    LAW,
    NAME,
    FittedSaturation,
    Points,
    curve_rows,
    fit_saturation,
    usual,
)
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import FormulaLaw, LawRows
from slipstick.estimators.fitting.formula_model import expected, plain_fit
from slipstick.estimators.fitting.prediction_bands import stretch
from slipstick.estimators.fitting.scores import half_widths_away, inside, interval_scores
from slipstick.experiments.scoreboards.cpu.bandwidth_data import FILE, MeasuredMachine, read_bandwidths
from slipstick.experiments.scoreboards.cpu.loop_scores import loop_rows
from slipstick.experiments.scoring.score import Board, Data, Front, Part
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

DATASET = "likwid-bench bandwidth of CPUs"
LEVEL = "MEM"
FITTED_CORES = 4
GOAL_MEAN, GOAL_WORST = 0.045, 0.25


@dataclass(frozen=True)
class CurveScore:
    """Relative errors of one curve beyond the fitted cores."""

    machine: str
    benchmark: str
    errors: FloatArray
    covered: FloatArray
    away: FloatArray
    width: FloatArray
    interval_score: FloatArray
    noise: float
    baselines: dict[str, FloatArray]


def _machines(data: Data) -> Iterator[ValidationRow]:
    """Mean and worst error of the curves, one and two threads a core, and beyond the first domain."""
    training, targets = read_bandwidths(data.known(FILE)), read_bandwidths(data.judged(FILE))
    flagged = {name: m.suspicious for name, m in {**training, **targets}.items() if m.suspicious}
    for why in flagged.values():
        yield skipped(DATASET, f"left out, the measurements are another machine's: {why}")
    usable, judged = ({k: m for k, m in some.items() if k not in flagged} for some in (training, targets))
    usable = {name: usable[name] for name in data.learnt([*usable], [*judged], chip_of)}
    for threads in (1, 2):
        case = f"{threads} thread a core"
        within, beyond, _ = scores(usable, judged, threads)
        yield from _summaries(case, within, goals=threads == 1)
        yield from (_of_machine(case, name, within) for name in sorted({s.machine for s in within}))
        yield from _summaries(f"{case}, beyond the first domain", beyond, goals=False)
    yield from loop_rows(usable, judged, DATASET)


def _given(data: Data) -> Iterator[ValidationRow]:
    """The same of machines that are given, and which of their curves cannot be scored."""
    for name, one in read_bandwidths(data.judged(FILE)).items():
        if one.suspicious:
            continue
        if one.cores_per_numa <= FITTED_CORES or not any(one.within_domain(LEVEL, n) for n in (1, 2)):
            yield skipped(DATASET, f"{name}: no curve of main memory beyond {FITTED_CORES} cores of a domain")
        for benchmark in one.curves.get((LEVEL, 1), {}):
            if benchmark not in one.within_domain(LEVEL, 1, FITTED_CORES):
                yield skipped(DATASET, f"{name}, {benchmark}: none of the first {FITTED_CORES} cores was measured")
    yield from _machines(data)


def scores(
    training: Mapping[str, MeasuredMachine], targets: Mapping[str, MeasuredMachine], threads: int
) -> tuple[list[CurveScore], list[CurveScore], float]:
    """Scores inside the first domain and beyond it, and the factor that bands of all chips had to have beyond it.

    Each machine's prior comes from the other chips of training, and so does the factor on its bands beyond the domain
    of which cores were measured.

    Raises InputError where training has no other chip than a target's.
    """
    known = {name: rows_of(one, threads) for name, one in training.items() if teaches(one, threads)}
    inside: list[CurveScore] = []
    beyond: list[tuple[str, str, Points, Points, FittedSaturation]] = []
    for name, machine in targets.items():
        first = machine.within_domain(LEVEL, threads, FITTED_CORES)
        if machine.cores_per_numa <= FITTED_CORES or not first:
            continue
        others = [rows for other, rows in known.items() if chip_of(other) != chip_of(name)]
        if not others:
            raise InputError("every public curve is among the rows given: nothing is left to learn from")
        prior = usual(fit(LAW, reduce(add, others)))
        fitted = fit_saturation(first, machine.borders, prior, 1.0)
        for benchmark, points in machine.curves[LEVEL, threads].items():
            if benchmark not in first:
                continue
            rest = [p for p in points if FITTED_CORES < p[0] <= machine.cores_per_numa]
            far = [p for p in points if p[0] > machine.cores_per_numa]
            if rest:
                inside.append(_score(name, benchmark, first[benchmark], rest, fitted))
            if far:
                beyond.append((name, benchmark, first[benchmark], far, fitted))
    plain = [_score(*one) for one in beyond]
    factors = {name: widened([one for one in plain if chip_of(one.machine) != chip_of(name)]) for name, *_ in beyond}
    return inside, [_score(*one[:-1], replace(one[-1], beyond=factors[one[0]])) for one in beyond], widened(plain)


def widened(some: Sequence[CurveScore]) -> float:
    """The factor on their bands that would have held 80 %, chips counting alike; 1 where there are none."""
    if not some:
        return 1.0
    away, chips = np.concatenate([s.away for s in some]), [chip_of(s.machine) for s in some for _ in s.away]
    return stretch(np.exp(away), np.ones(len(away)), np.ones(len(away)), chips)


def teaches(machine: MeasuredMachine, threads: int) -> bool:
    """Whether a machine has a data sheet, and a domain of more cores than are measured of a new one."""
    enough = machine.cores_per_numa > FITTED_CORES and machine.borders.peak is not None
    return enough and bool(machine.within_domain(LEVEL, threads))


def rows_of(machine: MeasuredMachine, threads: int) -> LawRows:
    """The whole first domain of a machine as rows of the law."""
    return curve_rows(machine.name, machine.borders, machine.within_domain(LEVEL, threads))


def chip_of(name: str) -> str:
    """One chip in several settings of its domains is left out at once."""
    return "_".join(name.split("_")[:2])


def refit() -> FittedFile:
    """The law fitted to one thread a core of all machines, and how four cores of chips left out said the others.

    Raises InputError where the public measurements are missing.
    """
    path = Data().known(FILE)
    usable = {name: one for name, one in read_bandwidths(path).items() if not one.suspicious}
    outer, factors = [], []
    for threads in (1, 2):
        *both, factor = scores(usable, usable, threads)
        factors.append(factor)
        for some, where in zip(both, ("", ", beyond the first domain"), strict=True):
            errors, widths = (np.concatenate([getattr(s, f) for s in some]) for f in ("errors", "width"))
            chips = len({chip_of(s.machine) for s in some})
            case, half = f"{threads} thread a core, four cores measured{where}", np.log(widths) / 2
            outer.append(OuterScore.of("chip unseen", case, chips, 1 + errors, np.ones(len(errors)), half))
    rows = reduce(add, [rows_of(one, 1) for one in usable.values() if teaches(one, 1)])
    note = "Bandwidths of likwid-bench in main memory by cores, published by its authors."
    fits, facts = {NAME: usual(fit(LAW, rows))}, {BEYOND: float(f"{factors[0]:.3g}")}
    return FittedFile(NAME, {FILE: digest(path)}, len(rows), fits, tuple(outer), note, facts)


def _score(name: str, benchmark: str, first: Points, rest: Points, fitted: FittedSaturation) -> CurveScore:
    cores = np.array([c for c, _ in rest], float)
    measured = np.array([r for _, r in rest])
    low, high = fitted.interval(benchmark, cores)
    ours = fitted.of(benchmark).bandwidth(cores)
    errors, away = ours / measured - 1, half_widths_away(low, ours, high, measured)
    baselines = {label: guess(first, cores) / measured - 1 for label, guess in BASELINES.items()}
    covered, score = inside(low, high, measured), interval_scores(low, high, measured, DEFAULT_LEVEL)
    return CurveScore(
        name, benchmark, errors, covered.astype(float), away, high / low, score, roughness(measured), baselines
    )


def roughness(curve: FloatArray) -> float:
    """Relative scatter (a share) of neighbouring points around a smooth curve, shape (n,): the noise of the
    measurements, from above.
    """
    if len(curve) < 3:
        return float("nan")
    bend = (curve[:-2] - 2 * curve[1:-1] + curve[2:]) / curve[1:-1]
    return float(np.median(np.abs(bend)) / (0.6745 * np.sqrt(6)))


def _of_machine(case: str, name: str, scores: Sequence[CurveScore]) -> ValidationRow:
    chosen = [score for score in scores if score.machine == name]
    errors = np.abs(np.concatenate([score.errors for score in chosen]))
    return ValidationRow(
        DATASET,
        f"{case}: {name}",
        f"chip; cores above {FITTED_CORES}",
        len(errors),
        "mean absolute error",
        "1",
        float(errors.mean()),
        {k: float(np.mean(np.abs(np.concatenate([s.baselines[k] for s in chosen])))) for k in BASELINES},
        interval_level=DEFAULT_LEVEL,
        interval_coverage=float(np.mean(np.concatenate([score.covered for score in chosen]))),
        interval_width=float(np.median(np.concatenate([score.width for score in chosen]))),
        noise_floor=float(np.nanmedian([score.noise for score in chosen])) if len(errors) > 2 * len(chosen) else None,
        reason=f"interval score {np.mean(np.concatenate([s.interval_score for s in chosen])):.3f} in log bandwidth",
    ).over([name])


def _summaries(case: str, scores: Sequence[CurveScore], *, goals: bool) -> list[ValidationRow]:
    if not scores:
        return []
    count = sum(len(score.errors) for score in scores)
    machines = len({score.machine for score in scores})
    held_out = f"chip; cores above {FITTED_CORES}"
    chips = [chip_of(score.machine) for score in scores for _ in score.covered]
    mean = float(np.mean([np.abs(score.errors).mean() for score in scores]))
    worst = max(float(np.abs(score.errors).max()) for score in scores)
    means = {k: float(np.mean([np.abs(s.baselines[k]).mean() for s in scores])) for k in BASELINES}
    worsts = {k: max(float(np.abs(s.baselines[k]).max()) for s in scores) for k in BASELINES}
    bad = max(scores, key=lambda score: float(np.abs(score.errors).max()))
    coverage = float(np.mean(np.concatenate([score.covered for score in scores])))
    width = float(np.median(np.concatenate([score.width for score in scores])))
    fine = float(np.mean(np.concatenate([score.interval_score for score in scores])))
    return [
        ValidationRow(
            DATASET,
            f"{case}: mean",
            held_out,
            count,
            f"mean over {len(scores)} curves of {machines} machines of the mean absolute error",
            "1",
            mean,
            means,
            GOAL_MEAN if goals else None,
            mean <= GOAL_MEAN if goals else None,
            DEFAULT_LEVEL,
            coverage,
            width,
            float(np.nanmedian([score.noise for score in scores])),
            reason=f"interval_width is high/low, the median; interval score {fine:.3f} in log bandwidth",
        ).over(chips, *(np.concatenate([getattr(score, part) for score in scores]) for part in ("covered", "away"))),
        ValidationRow(
            DATASET,
            f"{case}: worst",
            held_out,
            count,
            "largest absolute error of one point",
            "1",
            worst,
            worsts,
            GOAL_WORST if goals else None,
            worst <= GOAL_WORST if goals else None,
            reason=f"{bad.machine} {bad.benchmark}",
        ).over(chips),
    ]


def _linear(points: Points, cores: FloatArray) -> FloatArray:
    return cores * points[0][1] / points[0][0]


def _flat(points: Points, cores: FloatArray) -> FloatArray:
    return np.full_like(cores, points[-1][1])


def _soft_minimum(points: Points, cores: FloatArray) -> FloatArray:
    """One core's bandwidth and the limit of this curve alone, exponent 3."""
    known, rate = np.array(points, dtype=float).T
    most = float(rate.max())
    priors = expected("core", float(rate[0] / known[0]), 0.3), expected("limit", 1.5 * most, 1.0, high=1000 * most)
    law = FormulaLaw("soft minimum", priors, lambda n, _: _soft(n["core"], n["limit"], known))
    numbers = plain_fit(law, rate)
    return _soft(numbers["core"], max(numbers["limit"], most), cores)


def _soft(core: FloatArray | float, limit: FloatArray | float, cores: FloatArray) -> FloatArray:
    return np.asarray(cores * core / (1 + (cores * core / limit) ** 3) ** (1 / 3))


BASELINES: dict[str, Callable[[Points, FloatArray], FloatArray]] = {
    "linear": _linear,
    "last value": _flat,
    "soft minimum": _soft_minimum,
}


BOARD = Board(
    "Which memory bandwidth do more cores reach, and which does a CPU never measured?",
    {DATASET: Part(_machines, _given)},
    (Front("Memory bandwidth of more cores", "the CPU", "1 thread a core: mean", f"chip; cores above {FITTED_CORES}"),),
)
