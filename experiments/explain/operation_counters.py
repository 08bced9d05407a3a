"""What a GPU's counters would show of one run of a workload, by kind of operation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from slipstick.common.errors import InputError
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.gpu.kernels.gpu_counters import Counters, counters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.experiments.question.question import Question


def counter_rows(question: Question) -> tuple[list[dict[str, Any]], float]:
    """One row a kind, most cycles first, and `all`; and the vector instructions a cycle, all cores.

    Raises InputError where the estimator's operations are not tiles on a GPU (`tiled-roofline`): others have no bytes
    by level.
    """
    counts = counters_at(question, {})
    frame = counts.to_frame().drop(columns="operation").groupby("kind").sum().sort_values("cycles", ascending=False)
    sums = {"all": frame.sum(), **{str(kind): row for kind, row in frame.iterrows() if row["cycles"] > 0}}
    named = {name: "time_s" if name == "seconds" else name.replace(".", "_") for name in counts.values}
    shown: list[dict[str, Any]] = [
        {"kind": kind, **{named[name]: float(row[name]) for name in named}} for kind, row in sums.items()
    ]
    return shown, counts.instructions_per_cycle


def counters_at(question: Question, sizes: Mapping[str, float]) -> Counters:
    """Counters (seconds, flop, bytes by level) of one run with these sizes of the workload (`{"seq_len": 94}`); see
    `counter_rows`.

    Raises InputError where the estimator is not the tiled roofline.
    """
    estimator = question.estimator.estimator if isinstance(question.estimator, Calibration) else question.estimator
    model = estimator.operation if isinstance(estimator, ComposedEstimator) else None
    if not isinstance(model, TiledRoofline):
        raise InputError("--counters: bytes by level are those of tiles; give --estimator tiled-roofline")
    known = {name: value for name, value in {**question.run, **sizes}.items() if name in question.workload.symbols}
    return counters(question.workload.bound(known), question.machine, model)


def selected_counters(
    question: Question, lengths: Sequence[float], weights: Sequence[float]
) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Counters of chosen iterations by their length, and their weighted mean an iteration.

    Ratios (instructions a cycle) are those of the weighted sums, as equation 1 of Pati et al. 2020 wants for ratios.
    """
    each: dict[float, dict[str, float]] = {}
    for length in lengths:
        if length not in each:
            counts = counters_at(question, {"seq_len": length})
            each[length] = {name.replace(".", "_"): counts.total(name) for name in counts.values if name != "seconds"}
    rows = [each[length] for length in lengths]
    whole = math.fsum(weights)
    mean = {name: math.fsum(w * row[name] for w, row in zip(weights, rows, strict=True)) / whole for name in rows[0]}
    return rows, {**mean, "instructions_per_cycle": mean["instructions"] / mean["cycles"]}
