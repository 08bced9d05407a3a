"""Scoreboard: epochs of training under a power limit (Zeus), each device left out of the fit.

The run without a limit is known (time and mean power); predicted are both under each lower limit. The epochs were
measured once each, so that runs that no limit touches show the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.frames import csv_frame
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import LawFit, LawRows
from slipstick.estimators.fitting.prediction_bands import calibrated, folds, left_out
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.power.power_limit import LAW, NAME, PowerLimit, of_fit
from slipstick.experiments.scoring.score import Data, Scored, labelled, of_errors
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine, machine_of_device
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

FILE = "energy/zeus_power_limit.csv.gz"
RUN = ["gpu", "dataset", "network", "batch_size", "optimizer"]
BOARDS = {
    "p100": "p100-pcie", "v100": "v100-pcie", "rtx6000": "quadro-rtx-6000", "a40": "a40", "a100": "a100-pcie-40gb",
    "t4": "t4",
}  # fmt: skip
"""The boards that Zeus's names stand for."""
METRICS = labelled()
GOALS = {"time": (0.03, 0.12), "power": (0.03, 0.10)}


def limit_scores(data: Data) -> Iterator[Scored | ValidationRow]:
    """Time and power, each device left out, median and 90th percentile."""
    known, tested = (limited_runs(csv_frame(path)) for path in (data.known(FILE), data.judged(FILE)))
    for device in sorted(tested.gpu.unique()):
        mine, others = tested[tested.gpu == device], known[known.gpu != device]
        if mine.rated_w.isna().any():
            yield skipped(
                f"energy: power limits, {device}", f"{device}: no machine of the catalogue states its rated power"
            )
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


def board_of(device: str) -> Machine | None:
    """The board of a name of Zeus's, or of the catalogue's aliases; None where neither knows one with a rated power."""
    named = BOARDS.get(device.lower())
    board = machine(named) if named else machine_of_device(device)
    return board if board is not None and board.power.cap else None


def rated_power(device: str) -> float:
    """Rated power of a board [W]; not a number where none is known."""
    board = board_of(device)
    return float("nan") if board is None else float(board.power.cap or 0.0)


def limit_rows(runs: pd.DataFrame) -> LawRows:
    """Time and power of runs under limits, over those of the same run without, as rows of the law."""
    half = len(runs)
    columns = {
        "mean": np.tile(runs.mean_power_w_free / runs.rated_w, 2),
        "limit": np.tile(runs.power_limit_w / runs.rated_w, 2),
        "of_power": np.repeat([0.0, 1.0], half),
    }
    measured = np.concatenate([runs.epoch_s / runs.epoch_s_free, runs.mean_power_w / runs.mean_power_w_free])
    names = [" ".join(map(str, key)) for key in runs[RUN].itertuples(index=False)]
    clusters = [f"{kind} {name}" for kind in ("time", "power") for name in names]
    return LawRows(columns, {"board": [*runs.gpu] * 2}, clusters, measured, ["time"] * half + ["power"] * half)


def fitted(runs: pd.DataFrame) -> PowerLimit:
    """The law fitted to time and power of runs under limits, with the spreads of boards left out in turn."""
    return limit_of(fit(LAW, limit_rows(runs)), runs)


def limit_of(made: LawFit, runs: pd.DataFrame) -> PowerLimit:
    """A fit to runs as the law of another board, whose spreads are those of boards left out in turn."""
    rows = limit_rows(runs)
    off = np.full(len(rows), np.nan)
    for fold in folds(rows.groups["board"]):
        scored = rows.take(fold.scored)
        inner = fit(LAW, rows.take(fold.known), near=made).seconds(LAW, scored.columns, {"board": [""] * len(scored)})
        off[fold.scored] = np.log(inner / scored.seconds)
    off = off if np.isfinite(off).all() else np.log(made.seconds(LAW, rows.columns, rows.groups) / rows.seconds)
    held = np.asarray(runs.power_limit_w < runs.mean_power_w_free)
    time, power = ([_scale(part[held]), _scale(part[~held])] for part in np.split(off, 2))
    return of_fit(made, {"time": time, "power": power})


def refit() -> FittedFile:
    """The law fitted to all public runs, and boards left out.

    Raises InputError where the public rows are missing.
    """
    path = Data().known(FILE)
    runs = limited_runs(csv_frame(path))
    rows = limit_rows(runs)
    board = rows.groups["board"]
    out, scores = left_out(LAW, rows, folds(board), rows.cluster), []
    for at, kind in enumerate(("time", "power")):
        some = np.flatnonzero(rows.columns["of_power"] == at)
        parts = out.seconds[some], rows.seconds[some], out.half[some]
        scores.append(OuterScore.of("board unseen", kind, len(set(board)), *parts))
    made = calibrated(LAW, rows, rows.cluster)
    shipped = limit_of(made, runs)
    spreads = {"time": [*shipped.time_spread], "power": [*shipped.power_spread]}
    rounded = {name: [round(value, 4) for value in pair] for name, pair in spreads.items()}
    note = "Epochs of training under power limits (Zeus, You et al., NSDI 2023), over those without a limit."
    return FittedFile(NAME, {FILE: digest(path)}, len(rows), {NAME: made}, tuple(scores), note, {"spreads": rounded})


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
            groups=device,
            noise=[metric(free, np.ones(len(free))) for metric in METRICS] if len(free) else None,
            reason=f"{int(touched.sum())} runs are held back by their limit; the others show the noise",
        )


def _scale(error: FloatArray) -> float:
    """Standard deviation that puts 80 % of the errors into the 80 % band."""
    return normal_spread(error) if len(error) else 0.1
