"""Scoreboard: epochs of training under a power limit (Zeus), each device left out of the fit.

The run without a limit is known (time and mean power); predicted are both under each lower limit. The epochs were
measured once each, so that runs that no limit touches show the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.parameters import parameters, with_parameters
from slipstick.estimators.operation.power.power_limit import PowerLimit
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.score import Data, Scored, labelled, of_errors
from slipstick.hwmodels.catalog import machine_of_device
from slipstick.hwmodels.files.frames import csv_frame

if TYPE_CHECKING:
    import pandas as pd

FILE = "energy/zeus_power_limit.csv.gz"
RUN = ["gpu", "dataset", "network", "batch_size", "optimizer"]
RATED = {"p100": 250.0, "v100": 250.0, "rtx6000": 260.0, "a40": 300.0, "a100": 250.0, "t4": 70.0}
"""Rated power of the boards [W] (data sheets: Tesla P100 and V100 PCIe 250 W, Quadro RTX 6000 260 W, A40 300 W)."""
METRICS = labelled()
GOALS = {"time": (0.03, 0.12), "power": (0.03, 0.10)}
STARTS = (
    (0.12, 0.7, 0.8, 0.05, 5.0, -1.0),
    (0.10, 0.5, 0.9, 0.02, 10.0, -3.0),
    (0.15, 0.85, 0.7, 0.05, 3.0, 0.0),
)
SOFT = 0.05
"""Log error beyond which a run's weight in the fit falls."""


def limit_scores(data: Data) -> Iterator[Scored | ValidationRow]:
    """Time and power, each device left out, median and 90th percentile."""
    known, tested = (limited_runs(csv_frame(path)) for path in (data.known(FILE), data.judged(FILE)))
    for device in sorted(tested.gpu.unique()):
        mine, others = tested[tested.gpu == device], known[known.gpu != device]
        if mine.rated_w.isna().any():
            yield skipped(f"energy: power limits, {device}", "the rated power of this board is not known")
        elif others.empty:
            yield skipped(f"energy: power limits, {device}", "no other device to learn from")
        else:
            yield from device_scores(device, mine, fitted(others))


def limited_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Runs under a limit beside the same run under the highest one; marked rows are left out."""
    frame = frame[frame.suspicious.isna()] if "suspicious" in frame else frame
    frame = frame[frame.power_limit_w > 0]
    highest = frame.loc[frame.groupby(RUN).power_limit_w.idxmax()].set_index(RUN)
    free = highest[["epoch_s", "mean_power_w", "power_limit_w"]].add_suffix("_free")
    joined = frame.join(free, on=RUN)
    joined = joined[joined.power_limit_w < joined.power_limit_w_free].copy()
    joined["rated_w"] = [rated_power(device) for device in joined.gpu]
    return joined


def rated_power(device: str) -> float:
    """Rated power of a board [W], from the table here or the catalogue's cap; not a number where neither knows it."""
    known = RATED.get(device.lower())
    machine = None if known else machine_of_device(device)
    return known or (float(machine.power.cap) if machine and machine.power.cap else float("nan"))


def fitted(runs: pd.DataFrame) -> PowerLimit:
    """The law fitted to time and power of runs under limits, with the spreads of its residuals."""
    from scipy.optimize import least_squares

    plain = PowerLimit()
    notes = parameters(plain)
    low, high = ([getattr(note, end) for _, note in notes.values()] for end in ("low", "high"))

    def model(point: FloatArray) -> PowerLimit:
        changed: PowerLimit = with_parameters(plain, dict(zip(notes, map(float, point), strict=True)))
        return changed

    def residuals(point: FloatArray) -> FloatArray:
        return np.concatenate(errors(model(point), runs))

    fits = [
        least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=SOFT, max_nfev=200)
        for start in STARTS
    ]
    best: PowerLimit = with_parameters(
        plain, dict(zip(notes, map(float, min(fits, key=lambda fit: float(fit.cost)).x), strict=True))
    )
    held = np.asarray(runs.power_limit_w < runs.mean_power_w_free)
    time, power = ((_scale(error[held]), _scale(error[~held])) for error in errors(best, runs))
    return replace(best, time_spread=time, power_spread=power)


def errors(model: PowerLimit, runs: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """log(predicted / measured) of time and of power."""
    time, power = model.ratios(runs.mean_power_w_free, runs.power_limit_w, runs.rated_w)
    measured = np.log(runs.epoch_s / runs.epoch_s_free), np.log(runs.mean_power_w / runs.mean_power_w_free)
    return np.log(time) - np.asarray(measured[0]), np.log(power) - np.asarray(measured[1])


def device_scores(device: str, runs: pd.DataFrame, model: PowerLimit) -> Iterator[Scored]:
    """Time and power of one device."""
    unchanged = np.asarray(np.log(runs.epoch_s_free / runs.epoch_s))
    capped = np.asarray(np.log(np.minimum(runs.mean_power_w_free, runs.power_limit_w) / runs.mean_power_w))
    touched = np.asarray(runs.power_limit_w < runs.mean_power_w_free)
    spreads = model.spreads(runs.mean_power_w_free, runs.power_limit_w)
    for quantity, error, trivial, name, spread in zip(
        ("time", "power"), errors(model, runs), (unchanged, capped), ("unchanged", "the limit or unchanged"), spreads,
        strict=True,
    ):  # fmt: skip
        free = np.exp(trivial[~touched])
        yield replace(
            of_errors(f"{quantity} of an epoch, {device}", "device", error, {name: trivial}),
            metrics=METRICS,
            goals=GOALS[quantity],
            half=quantile(DEFAULT_LEVEL, None) * spread,
            noise=[metric(free, np.ones(len(free))) for metric in METRICS] if len(free) else None,
            reason=f"{int(touched.sum())} runs are held back by their limit; the others show the noise",
        )


def _scale(error: FloatArray) -> float:
    """Standard deviation that puts 80 % of the errors into the 80 % band."""
    return float(np.quantile(np.abs(error), DEFAULT_LEVEL) / quantile(DEFAULT_LEVEL, None)) if len(error) else 0.1
