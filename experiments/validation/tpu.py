"""Training steps on a Cloud TPU v2-8, public measurements of ParaDnn: step time, infeed share, matrix share.

The model is fitted to step rates alone; what is scored was held out by batch, by width, or because it was traced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from estimators.calibration import Calibration, from_fit
from estimators.compiled import Compiled
from estimators.composite import Composite
from estimators.fitting import fit_least_squares
from estimators.operation.tpu_step import TpuOperations
from estimators.parameters import parameters, with_parameters
from estimators.schedule.infeed import InfeedOverlap, Lane, infeed_share
from experiments.rows import ValidationRow, skipped
from experiments.validation.data import scored_file, training_file, why_missing
from hwmodels.catalog import machine
from hwmodels.files import InputError, read_csv_rows, read_number
from hwmodels.records import content_digest
from workloads.networks.data_parallel import data_parallel_mlp

STEPS = "tpu/paradnn_tpu_fc.csv"
TRACES = "tpu/paradnn_tpu_fc_trace.csv"
KEY = ("layer", "node", "input", "output", "bs")
SYMBOLS = ("layers", "width", "inputs", "outputs", "batch")
DATASET = "ParaDnn, TPU v2-8"
LEVEL = 0.9
BOUND = 5.0
"""Infeed share [%] above which a step is called infeed-bound; no measured share lies between 1 and 5 %."""
FEW = 8
FIXED = ("operation.link_efficiency",)
"""Not fitted: sums over the cores and the optimizer's traffic both grow with the parameters, so step times cannot tell
them apart. A ring uses two of a chip's four links."""
ROBUST = 0.05
"""Residuals of log time beyond this weigh linearly: a few runs of one batch size had a slow host."""

Floats = npt.NDArray[np.float64]
Row = tuple[float, ...]


@dataclass(frozen=True)
class TpuFit:
    """The fitted step model: its calibration and the scatter of measurements around it.

    Scatter of log time is hypot(`relative`, `start` / time): a part that grows with the step, and the seconds by which
    the start of the infeed differs from run to run. `factors` are the quantiles of |residual| / scatter by level.
    """

    calibration: Calibration
    relative: float
    start: float
    factors: Mapping[float, float]

    def spread(self, rows: Sequence[Row], level: float = LEVEL) -> Floats:
        """Half-width of the band of log time at each row."""
        time = times(self.calibration.estimator, rows)
        scatter = np.hypot(self.relative, self.start / time)
        covariance = np.asarray(self.calibration.covariance)
        known = np.isfinite(np.diag(covariance))
        slopes = log_slopes(self.calibration.estimator, self.calibration.names, rows)[:, known]
        parameter = np.einsum("ij,jk,ik->i", slopes, covariance[np.ix_(known, known)], slopes)
        return np.asarray(self.factors[level] * np.sqrt(scatter**2 + np.maximum(parameter, 0.0)))


def estimator() -> Composite:
    """The step model: products, traffic and sums on the device, overlapped with the infeed."""
    return Composite(TpuOperations(), InfeedOverlap(), "data-parallel training step behind an infeed")


def compiled(model: Composite, free: Sequence[str] = ()) -> Compiled:
    """The model as a function of the networks' sizes and the parameters `free`."""
    names = tuple(f"workload.{name}" for name in SYMBOLS) + tuple(f"estimator.{name}" for name in free)
    function = model.compile(data_parallel_mlp(), machine("tpu-v2-8"), names)
    if not isinstance(function, Compiled):
        raise InputError("the TPU step model is a formula, and must compile")
    return function


def columns(rows: Sequence[Row]) -> dict[str, Floats]:
    """Rows (layers, width, inputs, outputs, batch) as arrays by symbol."""
    table = np.asarray(rows, dtype=np.float64).reshape(-1, len(SYMBOLS))
    return {f"workload.{name}": table[:, i] for i, name in enumerate(SYMBOLS)}


def times(model: Composite, rows: Sequence[Row]) -> Floats:
    """Step times [s]."""
    return np.asarray(compiled(model)(columns(rows)))


def shares(model: Composite, rows: Sequence[Row]) -> dict[str, Floats]:
    """Shares [%] of the step: waiting for the infeed, and of the matrix units' peak rate."""
    device = times(Composite(model.operation, Lane("device")), rows)
    infeed = times(Composite(model.operation, Lane("infeed")), rows) + parameters(model)["schedule.start"][0]
    step = times(model, rows)
    on = machine("tpu-v2-8")
    table = columns(rows)
    layers, width = table["workload.layers"], table["workload.width"]
    inputs, outputs = table["workload.inputs"], table["workload.outputs"]
    # forward and two gradients of every matrix, but no gradient of the features
    weights = 3 * ((layers - 1) * width**2 + width * outputs) + 2 * inputs * width
    flop = 2 * table["workload.batch"] * weights
    return {
        "infeed": 100 * infeed_share(device, infeed, step),
        "matrix": 100 * flop / on.peak("matrix", "bfloat16") / step,
    }


def log_slopes(model: Composite, names: Sequence[str], rows: Sequence[Row]) -> Floats:
    """Derivatives of log time by the named parameters, shape (rows, names), by differences in one call."""
    known = parameters(model)
    base = np.array([known[name][0] for name in names])
    return _slopes(compiled(model, names), base, *_limits(model, names), names, columns(rows))


def _limits(model: Composite, names: Sequence[str]) -> tuple[Floats, Floats]:
    known = parameters(model)
    return np.array([known[name][1].low for name in names]), np.array([known[name][1].high for name in names])


def _slopes(
    function: Compiled, base: Floats, low: Floats, high: Floats, names: Sequence[str], table: Mapping[str, Floats]
) -> Floats:
    step = 1e-5 * np.maximum(np.abs(base), 1e-6 * np.minimum(high, 1.0))
    step = np.where(base + step > high, -step, step)
    points = np.vstack([base, base + np.diag(step)])
    # point by point: a few points that share many networks would be walked network by network
    named = [{f"estimator.{name}": point[i : i + 1] for i, name in enumerate(names)} for point in points]
    logs = np.stack([np.log(function({**table, **values})) for values in named])
    return np.asarray((logs[1:] - logs[0]).T / step)


def fit(rows: Sequence[Row], measured: Floats) -> TpuFit:
    """Fit all parameters to step times [s], robustly in log time, inside their physical bounds."""
    model = estimator()
    names = tuple(name for name in parameters(model) if name not in FIXED)
    function = compiled(model, names)
    table = columns(rows)
    low, high = _limits(model, names)
    observed = np.log(measured)

    def plain(values: Floats) -> Floats:
        point = {f"estimator.{name}": np.array([value]) for name, value in zip(names, values, strict=True)}
        return np.asarray(np.log(function({**table, **point})) - observed)

    def residuals(values: Floats) -> Floats:
        raw = plain(np.clip(values, low, high))
        return np.asarray(np.sign(raw) * ROBUST * np.sqrt(2 * (np.sqrt(1 + (raw / ROBUST) ** 2) - 1)))

    def jacobian(values: Floats) -> Floats:
        raw = plain(np.clip(values, low, high))
        root = np.sqrt(1 + (raw / ROBUST) ** 2)
        bent = np.abs(residuals(values))
        slope = np.where(bent > 1e-9, np.abs(raw) / np.maximum(bent * root, 1e-12), 1.0)
        return slope[:, None] * _slopes(function, np.clip(values, low, high), low, high, names, table)

    start = [parameters(model)[name][0] for name in names]
    found = fit_least_squares(residuals, names, start, low, high, jacobian, tolerance=1e-8)
    calibration = from_fit(model, found, content_digest([list(map(list, rows)), measured]), f"{len(rows)} step rates")
    error = plain(np.array(found.values))
    slopes = log_slopes(calibration.estimator, names, rows)
    keys = np.asarray(rows)
    kinds = [error, *(_left_out(error, slopes, keys[:, column]) for column in (1, 4))]
    time = np.tile(times(calibration.estimator, rows), len(kinds))
    return TpuFit(calibration, *_scatter(np.concatenate(kinds), time))


def _left_out(error: Floats, slopes: Floats, groups: Floats) -> Floats:
    """Errors of log time at each group (a width, a batch) by a fit without it: one Gauss-Newton step from the full fit.

    With the plain errors these are the three kinds of question that the band is for: a known configuration run again,
    an unseen width, an unseen batch.
    """
    weight = (1 + (error / ROBUST) ** 2) ** -0.25
    scaled = slopes / np.maximum(np.linalg.norm(slopes, axis=0), 1e-300)
    result = np.empty_like(error)
    for group in np.unique(groups):
        inside = groups == group
        others = weight[~inside]
        step = np.linalg.lstsq(scaled[~inside] * others[:, None], -error[~inside] * others, rcond=1e-6)[0]
        result[inside] = error[inside] + scaled[inside] @ step
    return result


def _scatter(error: Floats, time: Floats) -> tuple[float, float, dict[float, float]]:
    """Scatter hypot(relative, start / time) by the largest Laplace likelihood, and quantiles of what it leaves."""
    from scipy.optimize import minimize

    def cost(logs: Floats) -> float:
        scale = np.hypot(np.exp(logs[0]), np.exp(logs[1]) / time)
        return float(np.sum(np.log(scale) + np.abs(error) / scale))

    best = minimize(cost, np.log([0.02, 1e-4]), method="Nelder-Mead")
    relative, start = (float(np.exp(value)) for value in best.x)
    ratio = np.abs(error) / np.hypot(relative, start / time)
    return relative, start, {level: float(np.quantile(ratio, level)) for level in (0.5, 0.8, LEVEL)}


def read_steps(path: Path) -> dict[Row, float]:
    """Measured step times [s] by (layers, width, inputs, outputs, batch)."""
    found = {}
    for line, row in read_csv_rows(path, (*KEY, "step_per_sec")):
        key = tuple(read_number(row[name], path, line, name, low=1) for name in KEY)
        found[key] = 1 / read_number(row["step_per_sec"], path, line, "step_per_sec", low=1e-9)
    return found


def read_traces(path: Path) -> dict[Row, tuple[float, float]]:
    """Mean infeed share and matrix share [%] of the profiled runs, by the same key."""
    found = {}
    for line, row in read_csv_rows(path, (*KEY, "infeed_m", "flops_perc_m")):
        key = tuple(read_number(row[name], path, line, name, low=1) for name in KEY)
        infeed = read_number(row["infeed_m"], path, line, "infeed_m", 0, 100)
        found[key] = (infeed, read_number(row["flops_perc_m"], path, line, "flops_perc_m", 0, 100))
    return found


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """The scoreboard: three rules of holding out, shares on the traced runs."""
    known_path, traced_path = training_file(STEPS), training_file(TRACES)
    steps_path, shares_path = scored_file(STEPS, scored), scored_file(TRACES, scored)
    if known_path is None:
        return [skipped(DATASET, why_missing(STEPS))]
    known = read_steps(known_path)
    judged = read_steps(steps_path) if steps_path else {}
    traced = read_traces(traced_path) if traced_path else {}
    looked_at = read_traces(shares_path) if shares_path else {}
    if scored is not None:
        known = {key: value for key, value in known.items() if key not in judged and key not in looked_at}
    result = [] if steps_path else [skipped(DATASET, why_missing(STEPS, scored))]
    rules: list[tuple[str, str, float, Any]] = [
        ("step time, batch >= 4096 unseen", "fitted to batches below 4096", 0.08, lambda key: key[4] >= 4096),
        ("step time, width >= 2048 unseen", "fitted to widths below 2048", 0.06, lambda key: key[1] >= 2048),
    ]
    for case, held_out, goal, inside in rules:
        train = {key: value for key, value in known.items() if not inside(key)}
        test = {key: value for key, value in judged.items() if inside(key)}
        if test:
            result.append(_score_times(case, held_out, goal, train, test))
    either = set(traced) | set(looked_at)
    train = {key: value for key, value in known.items() if key not in either}
    test = {key: value for key, value in judged.items() if key in (looked_at if scored else traced)}
    held_out = "no traced network in the fit"
    if test:
        result.append(_score_times("step time, traced networks", held_out, 0.10, train, test))
    if looked_at:
        result += _score_shares(held_out, train, looked_at)
    else:
        result.append(skipped(DATASET, why_missing(TRACES, scored)))
    if scored is not None and judged:
        result.append(_score_times("step time, all scored rows", "scored rows taken out", None, known, judged))
    return result


def _score_times(
    case: str, held_out: str, goal: float | None, train: Mapping[Row, float], test: Mapping[Row, float]
) -> ValidationRow:
    fitted = fit(list(train), np.array(list(train.values())))
    measured = np.array(list(test.values()))
    predicted = times(fitted.calibration.estimator, list(test))
    error = np.abs(np.log(predicted / measured))
    half = fitted.spread(list(test))
    constant = np.exp(np.mean(np.log(list(train.values()))))
    mape = float(np.mean(np.abs(predicted / measured - 1)))
    return ValidationRow(
        DATASET,
        case,
        held_out,
        len(test),
        "mean |predicted/measured - 1|",
        "1",
        mape,
        {
            "roofline": float(np.mean(np.abs(_roofline(list(test)) / measured - 1))),
            "constant": float(np.mean(np.abs(constant / measured - 1))),
            "8-parameter fit with unphysical constants": {0.08: 0.118, 0.06: 0.072, 0.10: 0.133}.get(goal or 0, np.nan),
        },
        goal,
        None if goal is None or len(test) < FEW else mape <= goal,
        LEVEL,
        float(np.mean(error <= half)),
        float(np.mean(np.exp(2 * half))),
        reason=f"median |log| {np.median(error):.4f}, 90th percentile {np.quantile(error, 0.9):.4f}; "
        "the runs were not repeated: noise floor unknown",
    )


def _score_shares(
    held_out: str, train: Mapping[Row, float], traces: Mapping[Row, tuple[float, float]]
) -> list[ValidationRow]:
    fitted = fit(list(train), np.array(list(train.values())))
    ours = shares(fitted.calibration.estimator, list(traces))
    infeed, matrix = (np.array([pair[i] for pair in traces.values()]) for i in (0, 1))
    bound = infeed > BOUND
    yes_no = float(np.mean((ours["infeed"] > BOUND) == bound))
    enough = len(traces) >= FEW
    rows = []
    for case, values, measured, goal in (
        ("infeed share", ours["infeed"], infeed, 3.0),
        ("matrix share of peak", ours["matrix"], matrix, None),
    ):
        error = float(np.mean(np.abs(values - measured)))
        baseline = float(np.mean(np.abs(measured - measured.mean())))
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
                reason=f"median {np.median(np.abs(values - measured)):.2f} points",
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
