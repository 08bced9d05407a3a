"""Training steps on a Cloud TPU v2-8, public measurements of ParaDnn: step time, infeed share, matrix share.

The model is fitted to step rates alone; what is scored was held out by batch, by width, or because it was traced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slipstick.estimators.composition.composed_estimator import Composite
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.fitting.scores import log_errors, mean_error
from slipstick.estimators.schedules.infeed import Lane
from slipstick.estimators.symbolic.parameters import with_parameters
from slipstick.estimators.tpu.tpu_step import TpuOperations
from slipstick.experiments.calibrate.public_data import scored_file, training_file, why_missing
from slipstick.experiments.scoreboards.tpu.tpu_data import BOUND, STEPS, TRACES, Row, read_steps, read_traces
from slipstick.experiments.scoreboards.tpu.tpu_fit import (
    Floats,
    fit,
    half_width,
    shares,
    times,
    with_share_scatter,
)
from slipstick.experiments.scoring.score import Board, Data, Front, Metric, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

DATASET = "ParaDnn, TPU v2-8"
LEVEL = 0.9
WIDTHS = ("step time, width >= 2048 unseen", "fitted to widths below 2048")
METRICS = (Metric("mean |predicted/measured - 1|", mean_error),)
FEW = 8
READING = 0.5
"""Percentage points: a profile shows up to 0.4 of infeed where nothing waits for it."""


def _rules(data: Data) -> Iterator[Scored | ValidationRow]:
    """Three rules of holding out, shares on the traced runs."""
    known = read_steps(data.known(STEPS))
    traced_path, steps_path, shares_path = (
        training_file(TRACES),
        scored_file(STEPS, data.scored),
        scored_file(TRACES, data.scored),
    )
    judged = read_steps(steps_path) if steps_path else {}
    traced = read_traces(traced_path) if traced_path else {}
    looked_at = read_traces(shares_path) if shares_path else {}
    if data.scored is not None:
        known = {key: value for key, value in known.items() if key not in judged and key not in looked_at}
    if not steps_path:
        yield skipped(DATASET, why_missing(STEPS, data.scored))
    rules: list[tuple[str, str, float, Any]] = [
        ("step time, batch >= 4096 unseen", "fitted to batches below 4096", 0.08, lambda key: key[4] >= 4096),
        (*WIDTHS, 0.06, lambda key: key[1] >= 2048),
    ]
    for case, held_out, goal, inside in rules:
        train = {key: value for key, value in known.items() if not inside(key)}
        test = {key: value for key, value in judged.items() if inside(key)}
        if test:
            yield _scored(case, held_out, goal, train, test)
    either = set(traced) | set(looked_at)
    train = {key: value for key, value in known.items() if key not in either}
    test = {key: value for key, value in judged.items() if key in (looked_at if data.scored else traced)}
    held_out = "no traced network in the fit"
    if test:
        yield _scored("step time, traced networks", held_out, 0.10, train, test)
    if looked_at:
        fitted = fit(list(train), np.array(list(train.values())))
        others = {key: pair for key, pair in traced.items() if key not in looked_at}
        yield from _score_shares(held_out, fitted, looked_at, others)
    else:
        yield skipped(DATASET, why_missing(TRACES, data.scored))
    if data.scored is not None and judged:
        yield _scored("step time, all scored rows", "scored rows taken out", None, known, judged)


def _scored(
    case: str, held_out: str, goal: float | None, train: Mapping[Row, float], test: Mapping[Row, float]
) -> Scored:
    fitted = fit(list(train), np.array(list(train.values())))
    measured, predicted = np.array(list(test.values())), times(fitted.estimator, list(test))
    error = log_errors(predicted, measured)
    constant = np.full(len(test), np.exp(np.mean(np.log(list(train.values())))))
    return Scored(
        case, held_out, measured, predicted, METRICS, (goal,),
        {"roofline": (roofline := _roofline(list(test))), "constant": constant}, least=roofline,
        half=half_width(fitted, list(test), LEVEL), level=LEVEL, enough=FEW, groups=held_out,
        reason=f"median |log| {np.median(error):.4f}, 90th percentile {np.quantile(error, 0.9):.4f}; "
        "the runs were not repeated: noise floor unknown",
    )  # fmt: skip


def _score_shares(
    held_out: str,
    fitted: Calibration,
    traces: Mapping[Row, tuple[float, float]],
    others: Mapping[Row, tuple[float, float]],
) -> list[ValidationRow]:
    """Rows of the shares; their scatter is taken from the `others`, or width by width from the other widths."""
    ours = shares(fitted.estimator, list(traces))
    infeed, matrix = (np.array([pair[i] for pair in traces.values()]) for i in (0, 1))
    bound = infeed > BOUND
    yes_no = float(np.mean((100 * ours["infeed"] > BOUND) == bound))
    enough = len(traces) >= FEW
    bands = _bands(fitted, traces, others)
    rows = []
    for case, name, measured, goal in (
        ("infeed share", "infeed", infeed, 3.0),
        ("matrix share of peak", "matrix", matrix, None),
    ):
        values = 100 * ours[name]
        error = float(np.mean(np.abs(values - measured)))
        baseline = float(np.mean(np.abs(measured - measured.mean())))
        low, high = bands[name]
        slack = READING if name == "infeed" else 0.0
        covered = (low - slack <= measured) & (measured <= high + slack)
        waiting = f"; band covers {np.mean(covered[bound]):.1%} of the infeed-bound" if bound.any() else ""
        rows.append(
            ValidationRow(
                DATASET,
                f"{case}, traced networks",
                held_out,
                len(traces),
                "mean |difference|",
                "percentage points",
                error,
                {"mean of these rows": baseline},
                goal,
                None if goal is None or not enough else error <= goal,
                LEVEL,
                float(np.mean(covered)),
                float(np.mean(high - low)),
                reason=f"median {np.median(np.abs(values - measured)):.2f} points{waiting}; "
                f"width in points; scatter from {'other files' if others else 'the other widths'}",
            )
        )
    majority = float(max(bound.mean(), 1 - bound.mean()))
    rows.append(
        ValidationRow(
            DATASET,
            "infeed-bound yes/no, traced networks",
            held_out,
            len(traces),
            f"share called right (infeed share above {BOUND:g} %)",
            "1",
            yes_no,
            {"the larger class": majority},
            0.97,
            yes_no >= 0.97 if enough else None,
        )
    )
    return rows


def _bands(
    fitted: Calibration, traces: Mapping[Row, tuple[float, float]], others: Mapping[Row, tuple[float, float]]
) -> dict[str, tuple[Floats, Floats]]:
    """Bands [%] of the shares at `LEVEL`, none from a scatter that knows the row's own width."""
    keys = list(traces)
    ours = shares(fitted.estimator, keys)
    bands = {name: (np.zeros(len(keys)), np.zeros(len(keys))) for name in ("infeed", "matrix")}
    for width in sorted({key[1] for key in keys}):
        known = others or {key: pair for key, pair in traces.items() if key[1] != width}
        scattered = with_share_scatter(fitted, known) if len(known) >= FEW else replace(fitted)
        for index in [i for i, key in enumerate(keys) if key[1] == width]:
            at = {name: float(values[index]) for name, values in ours.items()}
            for name, (low, high) in scattered.metric_intervals(at, LEVEL).items():
                bands[name][0][index], bands[name][1][index] = 100 * low, 100 * high
    return bands


def _roofline(keys: Sequence[Row]) -> Floats:
    """The plain roofline of the whole step at full rates, infeed left out."""
    perfect = with_parameters(
        Composite(TpuOperations(), Lane("device")),
        {
            "operation.compute_efficiency": 1.0,
            "operation.memory_efficiency": 1.0,
            "operation.link_efficiency": 1.0,
            "operation.exposed": 0.0,
            "operation.overhead": 0.0,
        },
    )
    return times(perfect, keys)


BOARD = Board(
    "How long does a training step take on a Cloud TPU, and does its infeed bound it?",
    {DATASET: _rules},
    (Front("Training step on a Cloud TPU", "networks this wide", *WIDTHS),),
)
