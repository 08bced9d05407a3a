"""Fits on metered serving runs: the time of a step (calibrated steps, factors of each leaderboard), and its power."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.operation.gpu.tiled import MATRIX_ENERGY
from slipstick.estimators.operation.power.energy import PowerModel
from slipstick.estimators.operation.power.serving_power import MOST, ServingPower, ServingWork
from slipstick.experiments.evidence.validation.energy.metered_runs import metered_machine

if TYPE_CHECKING:
    import pandas as pd

START = {
    "kernels": (1.0, 0.3), "fixed": (1.0, 0.5), "sequence": (3e-5, 1.5), "step": (1e-3, 1.5),
    "older_kernels": (1.0, 0.3), "older_fixed": (1.0, 1.0), "older_sequence": (2e-4, 1.5), "older_step": (5e-3, 1.5),
    "older_ranks": (1e-3, 1.5), "older_sequence_ranks": (1e-5, 1.5), "attention": (1.0, 0.5), "prompts": (1.0, 0.7),
    "media": (20e-3, 1.5), "power": (1.0, 0.2),
}  # fmt: skip
"""Where a fit begins, and the standard deviation of the logarithm around it. Factors on the calibrated parts of a step;
seconds of the host for a step, a sequence (to a power), a further rank, and a request with images; those named older
hold for version 2 of the leaderboard (engines of 2024)."""
SCATTER, FACTOR_SCATTER = 0.25, 0.2
FAMILY_ROWS = 8
"""Rows of one family of models count at most as so many."""
RIDGE = 1.0
SOFT_ODDS = 0.25


def step_seconds(parameters: FloatArray, runs: pd.DataFrame) -> FloatArray:
    """Seconds of a further token of each run, from the logarithms of the parameters named in `START`."""
    p = dict(zip(START, np.exp(parameters), strict=True))
    older = runs.older.to_numpy() > 0

    def era(name: str) -> FloatArray:
        return np.asarray(np.where(older, p[f"older_{name}"], p[name]))

    ranks = runs.tensor.to_numpy() * runs.stages.to_numpy()
    kernels = (runs.kernels_s + p["attention"] * runs.attention_s) * era("kernels") + runs.fixed_s * era("fixed")
    stages = np.where(older, runs.stages, 1.0)
    host = era("sequence") * runs.decodes ** p["power"] / stages + era("step")
    host += np.where(older, p["older_sequence_ranks"] * runs.decodes * (runs.tensor - 1) / stages, 0.0)
    host += np.where(older, p["older_ranks"] * (ranks - 1), 0.0)
    arriving = p["prompts"] * runs.prompts_s + p["media"] * runs.media * runs.arrivals
    return np.asarray(kernels + host + arriving, dtype=np.float64)


def fit_step(runs: pd.DataFrame) -> FloatArray:
    """Logarithms of the parameters that fit the measured times of further tokens best, outliers held down."""
    from scipy.optimize import least_squares

    start = np.log([value for value, _ in START.values()])
    width = np.array([spread for _, spread in START.values()])
    measured, weight = np.log(runs.step_s.to_numpy()), np.sqrt(row_weights(runs)) / SCATTER

    def residuals(point: FloatArray) -> FloatArray:
        off = (np.log(step_seconds(point, runs)) - measured) * weight
        soft = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1))
        return np.concatenate([soft, (point - start) / width])

    return np.asarray(least_squares(residuals, start, max_nfev=60).x)


def row_weights(runs: pd.DataFrame) -> FloatArray:
    """Weights of rows: those of a large family count less."""
    counts = runs.family_name.map(runs.family_name.value_counts()).to_numpy()
    return np.asarray(np.minimum(1.0, FAMILY_ROWS / counts))


def work_of(runs: pd.DataFrame, seconds: FloatArray) -> ServingWork:
    """What a device does in steps of so many seconds."""
    ranks = runs.tensor * runs.stages
    return ServingWork(runs.read_s / seconds, runs.flop_s / seconds, ranks, runs.decodes, runs.four_bit, runs.grouped)


class PowerFit:
    """`ServingPower` and the shifts of runs with images and of the older leaderboard, fitted together."""

    def __init__(self, runs: pd.DataFrame, seconds: FloatArray) -> None:
        share = (runs.mean_power_w / runs.gpus / runs.cap).to_numpy()
        odds = -np.log(MOST / np.minimum(share, 0.99 * MOST) - 1)
        columns = _columns(runs, seconds)
        slopes = _ridge(columns, odds, row_weights(runs))
        self.power = ServingPower(*map(float, slopes[:7]))
        self.shifts = slopes[7:]

    def share(self, runs: pd.DataFrame, seconds: FloatArray) -> FloatArray:
        """Share of the cap that each device draws."""
        return self.power.share(work_of(runs, seconds), _shifted(runs) @ self.shifts)


def _shifted(runs: pd.DataFrame) -> FloatArray:
    older, media = runs.older.to_numpy(dtype=float), runs.media.to_numpy(dtype=float)
    return np.stack([media, older, older * media, older * np.log(np.maximum(runs.decodes.to_numpy(), 1.0))], axis=1)


def _columns(runs: pd.DataFrame, seconds: FloatArray) -> FloatArray:
    return np.concatenate([np.ones((len(runs), 1)), work_of(runs, seconds).columns().T, _shifted(runs)], axis=1)


def _ridge(columns: FloatArray, odds: FloatArray, weight: FloatArray) -> FloatArray:
    """Slopes of log odds, pulled to 0 by one unit a standardised column, outliers held down."""
    middle, spread = columns.mean(axis=0), columns.std(axis=0)
    kept = spread > 1e-12
    kept[0] = False
    scaled = np.concatenate([np.ones((len(odds), 1)), (columns[:, kept] - middle[kept]) / spread[kept]], axis=1)
    pull: npt.NDArray[np.float64] = np.eye(scaled.shape[1]) * RIDGE
    pull[0, 0] = 1e-6
    now = weight
    for _ in range(10):
        slopes = np.linalg.solve(scaled.T @ (scaled * now[:, None]) + pull, scaled.T @ (now * odds))
        now = weight / np.sqrt(1 + ((odds - scaled @ slopes) / SOFT_ODDS) ** 2)
    solution = np.zeros(columns.shape[1])
    solution[kept] = slopes[1:] / spread[kept]
    solution[0] = slopes[0] - float(np.sum(solution[kept] * middle[kept]))
    return solution


def fit_factors(runs: pd.DataFrame, seconds: FloatArray) -> PowerModel:
    """Factors of idle power, flop and bytes (`PowerModel`) that fit the measured power best, outliers held down."""
    from scipy.optimize import least_squares

    measured = np.log((runs.mean_power_w / runs.gpus).to_numpy())
    weight = np.sqrt(row_weights(runs)) / FACTOR_SCATTER
    start = np.log([0.6, 1.0, 1.0])

    def residuals(point: FloatArray) -> FloatArray:
        off = (np.log(factor_watts(PowerModel(*map(float, np.exp(point))), runs, seconds)) - measured) * weight
        soft = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1))
        return np.concatenate([soft, point - start])

    return PowerModel(*map(float, np.exp(least_squares(residuals, start).x)))


def factor_watts(model: PowerModel, runs: pd.DataFrame, seconds: FloatArray) -> FloatArray:
    """Watts of a device by `PowerModel` in steps of so many seconds."""
    watts = np.empty(len(runs))
    for gpu in runs.gpu.unique():
        mine = (runs.gpu == gpu).to_numpy()
        at, part = metered_machine(str(gpu)), runs[mine]
        energy = np.where(part.weight_precision == "fp8", MATRIX_ENERGY["float8"], MATRIX_ENERGY["bfloat16"])
        peak = np.where(part.weight_precision == "fp8", 2.0, 1.0) * at.peak("matrix", "bfloat16")
        moved = part.read_s.to_numpy() * at.bandwidth(at.main_memory)
        watts[mine] = model.watts(at, seconds[mine], part.flop_s.to_numpy() * peak * energy, moved)
    return watts
