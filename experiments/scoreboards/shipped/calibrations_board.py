"""Scoreboard: a thousand synthetic calibrations whose truth is known: coverage of the band, and how wide it is.

Efficiencies and overhead of a roofline are drawn, products of drawn sizes are "measured" with log-normal noise, the
parameters are fitted, and noisy times of other products are predicted. Beside each band stands that of the full
posterior (scatter unknown too) by random-walk Metropolis over many chains, written apart from the product's sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Measurement, Spread
from slipstick.estimators.base.protocols import CompiledEstimator
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import from_objective
from slipstick.estimators.fitting.objective import Objective
from slipstick.estimators.fitting.posterior import Coordinates
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense

MACHINE = "v100-pcie"
NAMES = ("operation.compute_efficiency", "operation.memory_efficiency", "operation.overhead")
TRUTHS = ((0.1, 0.9), (0.3, 0.95), (1e-6, 3e-5))
"""Ranges of the true parameters, drawn evenly in their logarithms."""
CASES = ((5, 0.20), (8, 0.20), (8, 0.05), (20, 0.10))
CALIBRATIONS, COMPARED, PREDICTED = 250, 25, 6
CHAINS, STEPS, BURN_IN = 64, 500, 250
MOST_WIDE = 3.0
SEED = 7


@dataclass(frozen=True)
class CalibrationScore:
    """Bands of one case: covered or not, and log(high / low), beside the full posterior's where it was drawn."""

    covered: FloatArray
    widths: FloatArray
    ratios: FloatArray


def _cases(_: Data) -> list[ValidationRow]:
    """One row a case, and the whole; nothing here is public data."""
    scores = {case: score(*case, np.random.default_rng([SEED, i])) for i, case in enumerate(CASES)}
    result = [_row(f"{count} measurements, {noise:.0%} noise", one) for (count, noise), one in scores.items()]
    every = CalibrationScore(
        *(np.concatenate([getattr(one, name) for one in scores.values()]) for name in CalibrationScore.__annotations__)
    )
    return [_row(f"all {len(CASES) * CALIBRATIONS} calibrations", every), *result]


def score(
    count: int, noise: float, generator: np.random.Generator, calibrations: int = CALIBRATIONS
) -> CalibrationScore:
    """Coverage and widths of calibrations on `count` measurements with so much noise."""
    target, plain = machine(MACHINE), ComposedEstimator(Roofline(), Sequential())
    free = tuple(f"estimator.{name}" for name in NAMES)
    learned, targets = (_products(generator, n) for n in (count, PREDICTED))
    template = Objective.of(plain, [Measurement(each, target, 1.0) for each in learned], NAMES)
    functions = [plain.compile(each, target, free) for each in targets]
    covered, widths, ratios = [], [], []
    for index in range(calibrations):
        truth = np.exp([generator.uniform(np.log(low), np.log(high)) for low, high in TRUTHS])
        point = dict(zip(free, truth, strict=True))
        exact = np.log([float(function(point)) for function in template.functions])
        objective = replace(template, measured=exact + noise * generator.standard_normal(count))
        fit = objective.fit()
        made = from_objective(plain, objective, fit)
        drawn = made.parameter_draws(400)
        if drawn is None or made.residual_std is None:
            continue
        new = np.log([float(f(point)) for f in functions]) + noise * generator.standard_normal(PREDICTED)
        middle = _log_times(functions, free, np.array([fit.values]))[:, 0]
        scatter = np.std(_log_times(functions, free, drawn), axis=1, ddof=1)
        spreads = [Spread(float(s), made.residual_std, made.degrees_of_freedom) for s in scatter]
        half = np.array([spread.half_width(DEFAULT_LEVEL) for spread in spreads], dtype=np.float64)
        covered.append(np.abs(new - middle) <= half)
        widths.append(2 * half)
        if index < COMPARED:
            full = _full_posterior(objective, Coordinates.of(objective, replace(fit, held=())), generator)
            predicted = _log_times(functions, free, full[:, :-1]) + full[:, -1] * generator.standard_normal(len(full))
            tails = np.quantile(predicted, [(1 - DEFAULT_LEVEL) / 2, (1 + DEFAULT_LEVEL) / 2], axis=1)
            ratios.append(2 * half / (tails[1] - tails[0]))
    return CalibrationScore(np.concatenate(covered).astype(float), np.concatenate(widths), np.concatenate(ratios))


def _products(generator: np.random.Generator, count: int) -> list[Workload]:
    """Matrix products of sizes from a few rows to thousands."""
    sizes = 2.0 ** generator.uniform([0, 5, 5], [11, 12, 12], (count, 3))
    return [
        Workload(f"product {i}", (dense("a", int(each[0]), int(each[1]), int(each[2])),))
        for i, each in enumerate(sizes)
    ]


def _log_times(functions: Sequence[CompiledEstimator], free: tuple[str, ...], points: FloatArray) -> FloatArray:
    """Of each function at rows of parameters, shape (functions, rows)."""
    values = {name: points[:, i] for i, name in enumerate(free)}
    return np.log(np.stack([np.broadcast_to(function(values), len(points)) for function in functions]))


def _full_posterior(objective: Objective, coordinates: Coordinates, generator: np.random.Generator) -> FloatArray:
    """Parameters and scatter, shape (draws, parameters + 1): flat priors on the coordinates and on log scatter."""
    size, count = len(coordinates.free), len(objective.measured)

    def log_density(points: FloatArray) -> FloatArray:
        parameters = coordinates.parameters(points)
        density = np.full(len(points), -np.inf)
        inside = coordinates.inside(parameters)
        if inside.any():
            density[inside] = -count / 2 * np.log(objective.loss_at(parameters[inside]))
        return density

    chains = coordinates.centre() + 0.01 * np.abs(coordinates.centre()) * generator.standard_normal((CHAINS, size))
    chains[~np.isfinite(log_density(chains))] = np.where(
        coordinates.logs, coordinates.centre() - 1e-3, coordinates.centre() + 1e-9
    )
    now, kept = log_density(chains), []
    for step in range(STEPS):  # differential evolution: steps along differences of other chains (ter Braak 2006)
        one, other = (chains[generator.permutation(CHAINS)] for _ in range(2))
        scale = 1.0 if step % 10 == 0 else 2.38 / np.sqrt(2 * size)
        moved = chains + scale * (one - other) + 1e-6 * np.abs(chains) * generator.standard_normal(chains.shape)
        there = log_density(moved)
        accepted = np.log(generator.random(CHAINS)) < there - now
        chains, now = np.where(accepted[:, None], moved, chains), np.where(accepted, there, now)
        if step >= BURN_IN:
            kept.append(chains.copy())
    points = np.concatenate(kept)
    losses = objective.loss_at(coordinates.parameters(points))
    scatter = np.sqrt(losses / generator.chisquare(count, len(points)))
    return np.column_stack([coordinates.parameters(points), scatter])


def _row(case: str, one: CalibrationScore) -> ValidationRow:
    coverage, worst = float(one.covered.mean()), float(one.ratios.max())
    from scipy.stats import binomtest

    clustered = max(1, len(one.covered) // PREDICTED)  # predicted times of one calibration hang together
    test = binomtest(round(coverage * clustered), clustered, DEFAULT_LEVEL)
    holds = test.proportion_ci(0.95)
    return ValidationRow(
        dataset="synthetic calibrations",
        case=case,
        held_out="products that were not measured",
        n=len(one.covered),
        metric="width of the band over that of the full posterior, largest",
        unit="1",
        ours=worst,
        baselines={"median": float(np.median(one.ratios))},
        goal=MOST_WIDE,
        ok=bool(worst <= MOST_WIDE and holds.low <= DEFAULT_LEVEL <= holds.high),
        interval_level=DEFAULT_LEVEL,
        interval_coverage=coverage,
        interval_width=float(np.exp(np.median(one.widths))),
        reason=f"the binomial 95 % interval of the coverage is {holds.low:.3f} .. {holds.high:.3f}",
    )


BOARD = Board(
    "Does the band of a calibration hold what it promises?",
    {"synthetic calibrations": _cases},
    closed={"synthetic calibrations": "calibrations are drawn; there is no file to score"},
)
