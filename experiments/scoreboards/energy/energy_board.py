"""The scoreboard of energy: training under power limits, and power while serving.

Scoreboard: power and step time of metered vLLM runs, a family of models or a GPU left out of both fits.

A run's power follows from its predicted step, never from the measured one. Models of equal shapes (tunings, precisions)
are one family and are left out together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.prediction_bands import calibrated
from slipstick.estimators.fitting.scores import weighted_quantile
from slipstick.estimators.power.serving_power_law import FACTORS_LAW, POWER_LAW
from slipstick.experiments.calibrate.public_data import scored_file, training_file, why_missing
from slipstick.experiments.scoreboards.energy import serving_power_fit
from slipstick.experiments.scoreboards.energy.metered_runs import FILES, metered_runs
from slipstick.experiments.scoreboards.energy.power_limit_scores import limit_scores
from slipstick.experiments.scoreboards.energy.serving_power_fit import (
    METERED_STEP_LAW,
    UNNARROWED,
    factor_rows,
    fitted_step,
    half_width,
    newer,
    power_rows,
    shares,
    step_rows,
)
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Part, Scored, labelled, of_errors

if TYPE_CHECKING:
    import pandas as pd


FAMILY_ROWS = 8
"""Rows of one family of models count at most as so many."""
KEY = ["model", "gpu", "task", "gpus", "tensor_parallel", "max_num_seqs", "older"]
GOALS = {"power": (0.09, 0.20), "step": (0.18, 0.45)}
POWER, FACTORS = "power of a device", "power of a device by idle, flop and bytes, engines of 2025 (estimate's energy)"


@dataclass(frozen=True)
class Predicted:
    """Log ratios of predicted and measured of the same runs: ours and what trivial rules give."""

    power: FloatArray
    factors: FloatArray
    step: FloatArray
    joules: FloatArray
    cap_share: FloatArray
    nearest: FloatArray
    roofline: FloatArray
    power_half: FloatArray
    factors_half: FloatArray
    step_half: FloatArray


def serving_power(data: Data) -> Iterator[Scored]:
    """Power, step time and energy of a token; median and 90th percentile."""
    runs, _, note = _read(data)
    for held, column in (("model", "family_name"), ("GPU", "gpu")):
        order, parts = [], []
        for name in sorted(runs[column].unique()):
            mine = runs[runs[column] == name]
            order.append(mine)
            parts.append(predicted(runs[runs[column] != name], mine))
        joined = Predicted(*(np.concatenate(each) for each in zip(*(vars(p).values() for p in parts), strict=True)))
        yield from _both(_stacked(order), joined, held, note)


def given_power(data: Data) -> Iterator[Scored]:
    """The same of rows that are given."""
    runs, known, note = _read(data)
    yield from _both(runs, predicted(known, runs), "rows given", note)


def _read(data: Data) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Runs to score, runs to learn from, and what was left out of the former."""
    known_paths = [path for path in map(training_file, FILES) if path]
    scored_paths = [path for name in FILES if (path := scored_file(name, data.scored))]
    if not known_paths or not scored_paths:
        raise MissingError(why_missing(FILES[0], data.scored if known_paths else None))
    known, _ = metered_runs(known_paths)
    runs, refused = metered_runs(scored_paths)
    note = "; ".join(f"{reason}: {count} rows left out" for reason, count in refused.items())
    if runs.empty:
        raise MissingError(note or "no rows")
    return runs, data.table(known, runs, KEY), note


def _stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(tables, ignore_index=True)


def predicted(known: pd.DataFrame, runs: pd.DataFrame) -> Predicted:
    """Errors on runs of fits to the known ones."""
    steps, seconds, families = fitted_step(known), runs.step_s.to_numpy(), list(known.family_name)
    guess = serving_power_fit.predicted(steps, METERED_STEP_LAW, step_rows(runs))
    power = calibrated(POWER_LAW, power_rows(known, known.step_s.to_numpy()), families, least=UNNARROWED)
    late = newer(known)
    factors = calibrated(
        FACTORS_LAW, factor_rows(late, late.step_s.to_numpy()), list(late.family_name), least=UNNARROWED
    )
    rows, plain_rows = power_rows(runs, guess), factor_rows(runs, guess)
    share, plain = (
        serving_power_fit.predicted(power, POWER_LAW, rows),
        serving_power_fit.predicted(factors, FACTORS_LAW, plain_rows),
    )
    measured = shares(runs)
    constant = _by_board(known.mean_power_w / known.gpus / known.cap, known, runs)
    floor = _by_board(known.step_s / known.roofline_s, known, runs)
    return Predicted(
        np.log(share / measured),
        np.log(plain / measured),
        np.log(guess / seconds),
        np.asarray(np.log(guess * share) - np.log(seconds * measured)),
        np.log(constant / measured),
        np.log(_nearest(known, runs) / measured),
        np.log(floor * runs.roofline_s.to_numpy() / seconds),
        half_width(power, POWER_LAW, rows),
        half_width(factors, FACTORS_LAW, plain_rows),
        half_width(steps, METERED_STEP_LAW, step_rows(runs)),
    )


def _by_board(values: pd.Series, known: pd.DataFrame, runs: pd.DataFrame) -> FloatArray:
    """The median of the known runs of each run's leaderboard."""
    boards = {}
    for older in set(runs.older):
        same = known[known.older == older]
        same = known if same.empty else same
        boards[older] = weighted_quantile(values.loc[same.index], row_weights(same))
    return np.array([boards[older] for older in runs.older])


def row_weights(runs: pd.DataFrame) -> FloatArray:
    """Weights of rows for the baselines: those of a large family count less."""
    counts = runs.family_name.map(runs.family_name.value_counts()).to_numpy()
    return np.asarray(np.minimum(1.0, FAMILY_ROWS / counts))


def _nearest(known: pd.DataFrame, runs: pd.DataFrame) -> FloatArray:
    """Share of the cap of the run that is nearest in parameters a device and sequences, of the same leaderboard."""

    def place(table: pd.DataFrame) -> FloatArray:
        far = 100.0 * table.older.to_numpy() + 10.0 * table.media.to_numpy()
        return np.stack([np.log(table.parameters / table.gpus), np.log(table.decodes), far], axis=1)

    there, here = place(known), place(runs)
    index = np.argmin(np.square(there[None, :, :] - here[:, None, :]).sum(axis=2), axis=1)
    return np.asarray((known.mean_power_w / known.gpus / known.cap).to_numpy()[index])


def _both(runs: pd.DataFrame, made: Predicted, held: str, note: str) -> Iterator[Scored]:
    """Power, step time and energy of a token; bands from families left out of what each fit saw."""
    trivial = {"share of the cap": made.cap_share, "nearest": made.nearest}
    late = (runs.older == 0).to_numpy()
    late = late if late.any() else ~late
    plain = {name: values[late] for name, values in trivial.items()}
    both = {"both": made.cap_share + made.roofline}
    joules_half = np.hypot(made.power_half, made.step_half)
    names = runs["gpu" if held == "GPU" else "family_name"].to_numpy()
    token, energy = "time of a further token", "energy of a token at this pace"
    for case, error, goals, others, half, of in (
        (POWER, made.power, GOALS["power"], trivial, made.power_half, names),
        (FACTORS, made.factors[late], (), plain, made.factors_half[late], names[late]),
        (token, made.step, GOALS["step"], {"fitted roofline": made.roofline}, made.step_half, names),
        (energy, made.joules, (), both, joules_half, names),
    ):
        scored = of_errors(case, held, error, others)
        yield replace(scored, metrics=labelled(), goals=goals, half=half, reason=note, groups=list(map(str, of)))


BOARD = Board(
    "What do training under a power limit and serving a language model draw, on a device or model never measured?",
    {
        "energy: training under power limits (Zeus)": limit_scores,
        "energy: serving (ML.ENERGY)": Part(serving_power, given_power),
    },
    (Front("Power while serving", "the model", "power of a device", "model"),),
)
