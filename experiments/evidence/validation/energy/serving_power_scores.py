"""Scoreboard: power and step time of metered vLLM runs, a family of models or a GPU left out of both fits.

A run's power follows from its predicted step, never from the measured one. Models of equal shapes (tunings, precisions)
are one family and are left out together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.estimate import DEFAULT_LEVEL
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.operation.power.energy import PowerModel
from slipstick.estimators.tuned.tuned_serving_power import FACTORS_HALF_WIDTH, HALF_WIDTH
from slipstick.experiments.calibrate.public_data import scored_file, training_file, why_missing
from slipstick.experiments.evidence.score import Data, MissingError, Scored, labelled, of_errors
from slipstick.experiments.evidence.validation.energy.metered_runs import FILES, metered_runs
from slipstick.experiments.evidence.validation.energy.serving_fit import (
    PowerFit,
    factor_watts,
    fit_factors,
    fit_step,
    row_weights,
    step_seconds,
)

if TYPE_CHECKING:
    import pandas as pd

DATASET = "energy: serving (ML.ENERGY)"
KEY = ["model", "gpu", "task", "gpus", "tensor_parallel", "max_num_seqs", "older"]
GOALS = {"power": (0.09, 0.20), "step": (0.18, 0.45)}
POWER, FACTORS = "power of a device", "power of a device by idle, flop and bytes, engines of 2025 (estimate's energy)"
SHIPPED = {POWER: HALF_WIDTH, FACTORS: FACTORS_HALF_WIDTH}
"""Half of the 80 % bands of log power that answers show."""


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


def serving_power(data: Data) -> Iterator[Scored]:
    """Power, step time and energy of a token; median and 90th percentile."""
    known_paths = [path for path in map(training_file, FILES) if path]
    scored_paths = [path for name in FILES if (path := scored_file(name, data.scored))]
    if not known_paths or not scored_paths:
        raise MissingError(why_missing(FILES[0], data.scored if known_paths else None))
    known, _ = metered_runs(known_paths)
    runs, refused = metered_runs(scored_paths)
    note = "; ".join(f"{reason}: {count} rows left out" for reason, count in refused.items())
    if runs.empty:
        raise MissingError(note or "no rows")
    if data.scored is not None:
        others = known[~known.set_index(KEY).index.isin(runs.set_index(KEY).index)]
        yield from _both(runs, predicted(others, runs), "rows given", note)
        return
    for held, column in (("model", "family_name"), ("GPU", "gpu")):
        order, parts = [], []
        for name in sorted(runs[column].unique()):
            mine = runs[runs[column] == name]
            order.append(mine)
            parts.append(predicted(runs[runs[column] != name], mine))
        joined = Predicted(*(np.concatenate(each) for each in zip(*(vars(p).values() for p in parts), strict=True)))
        yield from _both(_stacked(order), joined, held, note)


def _stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(tables, ignore_index=True)


def predicted(known: pd.DataFrame, runs: pd.DataFrame) -> Predicted:
    """Errors on runs of fits to the known ones."""
    law, seconds = fit_step(known), runs.step_s.to_numpy()
    fit = PowerFit(known, known.step_s.to_numpy())
    guess = step_seconds(law, runs)
    share = fit.share(runs, guess)
    measured = (runs.mean_power_w / runs.gpus / runs.cap).to_numpy()
    constant = _by_board(known.mean_power_w / known.gpus / known.cap, known, runs)
    floor = _by_board(known.step_s / known.roofline_s, known, runs)
    whole = np.log(guess * share) - np.log(seconds * measured)
    plain = factor_watts(_factors(known), runs, guess) / runs.cap.to_numpy()
    return Predicted(
        np.log(share / measured),
        np.log(plain / measured),
        np.log(guess / seconds),
        np.asarray(whole),
        np.log(constant / measured),
        np.log(_nearest(known, runs) / measured),
        np.log(floor * runs.roofline_s.to_numpy() / seconds),
    )


def _factors(known: pd.DataFrame) -> PowerModel:
    """Of the newer leaderboard, where GPUs seldom wait for their host; of all where it has no rows."""
    newer = known[known.older == 0]
    newer = known if newer.empty else newer
    return fit_factors(newer, newer.step_s.to_numpy())


def _by_board(values: pd.Series, known: pd.DataFrame, runs: pd.DataFrame) -> FloatArray:
    """The median of the known runs of each run's leaderboard."""
    boards = {}
    for older in set(runs.older):
        same = known[known.older == older]
        same = known if same.empty else same
        boards[older] = _median(values.loc[same.index], row_weights(same))
    return np.array([boards[older] for older in runs.older])


def _median(values: pd.Series, weight: FloatArray) -> float:
    order = np.argsort(values.to_numpy())
    total = np.cumsum(weight[order])
    return float(values.to_numpy()[order][np.searchsorted(total, total[-1] / 2)])


def _nearest(known: pd.DataFrame, runs: pd.DataFrame) -> FloatArray:
    """Share of the cap of the run that is nearest in parameters a device and sequences, of the same leaderboard."""

    def place(table: pd.DataFrame) -> FloatArray:
        far = 100.0 * table.older.to_numpy() + 10.0 * table.media.to_numpy()
        return np.stack([np.log(table.parameters / table.gpus), np.log(table.decodes), far], axis=1)

    there, here = place(known), place(runs)
    index = np.argmin(np.square(there[None, :, :] - here[:, None, :]).sum(axis=2), axis=1)
    return np.asarray((known.mean_power_w / known.gpus / known.cap).to_numpy()[index])


def _both(runs: pd.DataFrame, predicted: Predicted, held: str, note: str) -> Iterator[Scored]:
    """Power, step time and energy of a token.

    A left-out family's half-width is that of the other families' errors; that of rows given is the one that ships.
    """
    shares = {"share of the cap": predicted.cap_share, "nearest": predicted.nearest}
    newer = (runs.older == 0).to_numpy()
    newer = newer if newer.any() else ~newer
    plain = {name: values[newer] for name, values in shares.items()}
    everything = np.ones(len(runs), dtype=bool)
    cases: tuple[tuple[str, FloatArray, tuple[float, ...], dict[str, FloatArray], npt.NDArray[np.bool_]], ...] = (
        (POWER, predicted.power, GOALS["power"], shares, everything),
        (FACTORS, predicted.factors[newer], (), plain, newer),
        ("time of a further token", predicted.step, GOALS["step"], {"fitted roofline": predicted.roofline}, everything),
        (
            "energy of a token at this pace",
            predicted.joules,
            (),
            {"both": predicted.cap_share + predicted.roofline},
            everything,
        ),
    )
    for case, error, goals, others, chosen in cases:
        given = held == "rows given"
        half = SHIPPED.get(case) if given else _half(runs.family_name.to_numpy()[chosen], error)
        scored = of_errors(case, held, error, others)
        yield replace(scored, metrics=labelled(), goals=goals, half=half, reason=note)


def _half(families: npt.NDArray[np.object_], error: FloatArray) -> FloatArray:
    """Half-width of each row's band: the errors of the other families."""
    half = np.empty(len(error))
    for name in np.unique(families):
        mine = families == name
        half[mine] = np.quantile(np.abs(error[~mine]), DEFAULT_LEVEL)
    return half
