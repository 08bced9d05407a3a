"""Training steps on a Cloud TPU v2-8, public measurements of ParaDnn: step time, infeed share, matrix share.

The model is fitted to step rates alone; what is scored was held out by batch, by width, or because it was traced.

The TPU step model fitted to measured step times, and how far measurements scatter around it.

One side of a step on a TPU alone: what the device takes, or its infeed.

Public measurements of training steps on a Cloud TPU v2-8 (ParaDnn): step rates, and shares from profiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.readers import read_csv_rows, read_number
from slipstick.common.records import FrozenDict, content_digest
from slipstick.estimators.base.estimate import Spread
from slipstick.estimators.base.schedule_model import FormulaSchedule
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import Calibration, from_fit
from slipstick.estimators.fitting.calibration_file import to_dict
from slipstick.estimators.fitting.least_squares import fit_least_squares
from slipstick.estimators.fitting.scores import log_errors, mean_error
from slipstick.estimators.fitting.student_t import student_scale, student_scatter
from slipstick.estimators.schedules.infeed import InfeedOverlap, infeed_share
from slipstick.estimators.symbolic.formula import Formula, parameters, with_parameters
from slipstick.estimators.tpu.tpu_step import TpuOperations
from slipstick.experiments.calibrate.public_data import scored_file, training_file, why_missing
from slipstick.experiments.question.registry import CALIBRATIONS
from slipstick.experiments.scoring.fitted_files import ShippedFiles
from slipstick.experiments.scoring.score import Board, Data, Front, Metric, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.networks.data_parallel import data_parallel_mlp

STEPS = "tpu/paradnn_tpu_fc.csv"
TRACES = "tpu/paradnn_tpu_fc_trace.csv"
KEY = ("layer", "node", "input", "output", "bs")
SYMBOLS = ("layers", "width", "inputs", "outputs", "batch")
"""What the workload calls the columns of `KEY`."""
BOUND = 5.0
"""Infeed share [%] above which a step is called infeed-bound; no measured share lies between 1 and 5 %."""

Row = tuple[float, ...]


def read_steps(path: Path) -> dict[Row, float]:
    """Measured step times [s] by (layers, width, inputs, outputs, batch)."""
    steps = {}
    for line, row in read_csv_rows(path, (*KEY, "step_per_sec")):
        key = tuple(read_number(row[name], path, line, name, low=1) for name in KEY)
        steps[key] = 1 / read_number(row["step_per_sec"], path, line, "step_per_sec", low=1e-9)
    return steps


def read_traces(path: Path) -> dict[Row, tuple[float, float]]:
    """Mean infeed share and matrix share [%] of the profiled runs, by the same key."""
    traces = {}
    for line, row in read_csv_rows(path, (*KEY, "infeed_m", "flops_perc_m")):
        key = tuple(read_number(row[name], path, line, name, low=1) for name in KEY)
        infeed = read_number(row["infeed_m"], path, line, "infeed_m", 0, 100)
        traces[key] = (infeed, read_number(row["flops_perc_m"], path, line, "flops_perc_m", 0, 100))
    return traces


@dataclass(frozen=True)
class Lane(FormulaSchedule):
    """The total time of one lane of `InfeedOverlap` alone: to look at a side by itself."""

    name: str

    def lane(self, op: Op) -> str:
        """As `InfeedOverlap`."""
        return InfeedOverlap().lane(op)

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """The formula ``time.NAME``: seconds of this lane alone."""
        return Formula(symbol(f"time.{self.name}"), "s", f"the {self.name} alone")


FIXED = ("operation.link_efficiency",)
"""Not fitted: sums over the cores and the optimizer's traffic both grow with the parameters, so step times cannot
separate them. A ring uses two of a chip's four links."""
DRAWS = 100
"""Of the parameters, for bands of many rows."""
ROBUST = 0.05
"""Residuals of log time beyond this weigh linearly: a few runs of one batch size had a slow host."""


def estimator() -> ComposedEstimator:
    """The step model: products, traffic and sums on the device, overlapped with the infeed."""
    return ComposedEstimator(TpuOperations(), InfeedOverlap(), "data-parallel training step behind an infeed")


def compiled(model: ComposedEstimator, free: Sequence[str] = ()) -> Compiled:
    """The model as a function of the networks' sizes and the parameters `free`.

    Raises
    ------
    InputError
        Where the model is no formula.
    """
    names = tuple(f"workload.{name}" for name in SYMBOLS) + tuple(f"estimator.{name}" for name in free)
    function = model.compile(data_parallel_mlp(), machine("tpu-v2-8"), names)
    if not isinstance(function, Compiled):
        raise InputError("the TPU step model is a formula, and must compile")
    return function


def columns(rows: Sequence[Row]) -> dict[str, FloatArray]:
    """Rows (layers, width, inputs, outputs, batch) as arrays by symbol."""
    table = np.asarray(rows, dtype=np.float64).reshape(-1, len(SYMBOLS))
    return {f"workload.{name}": table[:, i] for i, name in enumerate(SYMBOLS)}


def times(model: ComposedEstimator, rows: Sequence[Row]) -> FloatArray:
    """Step times [s]."""
    return np.asarray(compiled(model)(columns(rows)))


def shares(model: ComposedEstimator, rows: Sequence[Row]) -> dict[str, FloatArray]:
    """The metrics of `InfeedOverlap` at many rows, 0..1: infeed, device, host, matrix."""
    step = times(model, rows)
    device = times(ComposedEstimator(model.operation, Lane("device")), rows)
    host = times(ComposedEstimator(model.operation, Lane("infeed")), rows) + parameters(model)["schedule.start"][0]
    table = columns(rows)
    layers, width = table["workload.layers"], table["workload.width"]
    inputs, outputs = table["workload.inputs"], table["workload.outputs"]
    # forward and two gradients of every matrix, but no gradient of the features
    weights = 3 * ((layers - 1) * width**2 + width * outputs) + 2 * inputs * width
    flop = 2 * table["workload.batch"] * weights
    return {
        "infeed": infeed_share(device, host, step),
        "device": device / step,
        "host": host / step,
        "matrix": flop / machine("tpu-v2-8").peak("matrix", "bfloat16") / step,
    }


def half_width(fitted: Calibration, rows: Sequence[Row], level: float) -> FloatArray:
    """Half of the band of log time at each row, as `Calibration.estimate` gives it one by one."""
    time = times(fitted.estimator, rows)
    sample = fitted.parameter_draws(DRAWS)
    drawn = np.ones((2, len(rows)))
    if sample is not None:
        function, table = compiled(fitted.estimator, fitted.names), columns(rows)
        points = ({f"estimator.{fitted.names[i]}": one[i : i + 1] for i in range(len(one))} for one in sample)
        drawn = np.stack([function({**table, **point}) for point in points])
    parameter = np.std(np.log(drawn), axis=0, ddof=1)
    pairs = zip(parameter.tolist(), fitted.residual(time).tolist(), strict=True)
    spreads = (Spread(*pair, fitted.degrees_of_freedom, fitted.residual_freedom) for pair in pairs)
    return np.array([spread.half_width(level) for spread in spreads], dtype=np.float64)


def fit(rows: Sequence[Row], measured: FloatArray) -> Calibration:
    """Fit all parameters to step times [s], robustly in log time, inside their physical bounds.

    The scatter is Student's t: `residual_std` and `residual_seconds` its scale, `residual_freedom` its tails, from
    three kinds of residuals: plain, with each width left out, with each batch left out.
    """
    model = estimator()
    names = tuple(name for name in parameters(model) if name not in FIXED)
    function = compiled(model, names)
    table = columns(rows)
    low, high = _limits(model, names)
    observed = np.log(measured)

    def plain(values: FloatArray) -> FloatArray:
        point = {f"estimator.{name}": np.array([value]) for name, value in zip(names, values, strict=True)}
        return np.asarray(np.log(function({**table, **point})) - observed)

    def residuals(values: FloatArray) -> FloatArray:
        raw = plain(np.clip(values, low, high))
        return np.asarray(np.sign(raw) * ROBUST * np.sqrt(2 * (np.sqrt(1 + (raw / ROBUST) ** 2) - 1)))

    def jacobian(values: FloatArray) -> FloatArray:
        raw = plain(np.clip(values, low, high))
        root = np.sqrt(1 + (raw / ROBUST) ** 2)
        bent = np.abs(residuals(values))
        slope = np.where(bent > 1e-9, np.abs(raw) / np.maximum(bent * root, 1e-12), 1.0)
        return slope[:, None] * _slopes(function, np.clip(values, low, high), high, names, table)

    start = [parameters(model)[name][0] for name in names]
    solution = fit_least_squares(residuals, names, start, low, high, jacobian, tolerance=1e-8)
    source = f"{len(rows)} step rates of fully connected networks on a Cloud TPU v2-8 (ParaDnn)"
    calibration = from_fit(model, solution, content_digest([list(map(list, rows)), measured]), source)
    error = plain(np.array(solution.values))
    slopes = log_slopes(calibration.estimator, names, rows)
    keys = np.asarray(rows)
    kinds = [error, *(_left_out(error, slopes, keys[:, column]) for column in (1, 4))]
    relative, seconds, freedom = student_scatter(
        np.concatenate(kinds), np.tile(times(calibration.estimator, rows), len(kinds))
    )
    return replace(calibration, residual_std=relative, residual_seconds=seconds, residual_freedom=freedom)


def refit() -> ShippedFiles:
    """Fit all public step times and profiles: what `question.registry` gives as the estimator "tpu".

    Raises InputError where the measurements are not here.
    """
    known, traced = read_steps(Data().known(STEPS)), read_traces(Data().known(TRACES))
    untraced = {key: time for key, time in known.items() if key not in traced}
    apart = with_share_scatter(fit(list(untraced), np.array(list(untraced.values()))), traced)
    fitted = fit(list(known), np.array(list(known.values())))
    document = to_dict(replace(fitted, metric_std=apart.metric_std, residuals=()), "tpu")
    return ShippedFiles({CALIBRATIONS / "tpu.json": document}, len(known) + len(traced))


def with_share_scatter(fitted: Calibration, traces: Mapping[Row, tuple[float, float]]) -> Calibration:
    """The calibration with the scatter of infeed and matrix share [%] around it, from profiles of other networks.

    Infeed scatters as the log of host over device time does: what a share leaves of it is known where the device
    waits, and where it does not only that the device takes longer.
    """
    rows = list(traces)
    ours = shares(fitted.estimator, rows)
    infeed, matrix = (np.array([pair[i] for pair in traces.values()]) / 100 for i in (0, 1))
    exposed = parameters(fitted.estimator)["schedule.exposed"][0]
    seen = np.maximum(infeed, BOUND / 100)
    # infeed = (host - device) / (host + exposed device)
    host_over_device = (1 + exposed * seen) / (1 - np.minimum(seen, 0.999))
    error = np.log(host_over_device) - np.log(ours["host"] / ours["device"])
    waits = infeed > BOUND / 100
    freedom = fitted.residual_freedom or np.inf
    known = matrix > 0
    return replace(
        fitted,
        metric_std=FrozenDict(
            infeed=student_scale(error[waits], freedom, above=error[~waits]),
            matrix=student_scale(np.log(matrix[known] / ours["matrix"][known]), freedom),
        ),
    )


def log_slopes(model: ComposedEstimator, names: Sequence[str], rows: Sequence[Row]) -> FloatArray:
    """Derivatives of log time by the named parameters, shape (rows, names), by differences in one call."""
    known = parameters(model)
    base = np.array([known[name][0] for name in names])
    return _slopes(compiled(model, names), base, _limits(model, names)[1], names, columns(rows))


def _limits(model: ComposedEstimator, names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    known = parameters(model)
    return np.array([known[name][1].low for name in names]), np.array([known[name][1].high for name in names])


def _slopes(
    function: Compiled, base: FloatArray, high: FloatArray, names: Sequence[str], table: Mapping[str, FloatArray]
) -> FloatArray:
    step = 1e-5 * np.maximum(np.abs(base), 1e-6 * np.minimum(high, 1.0))
    step = np.where(base + step > high, -step, step)
    points = np.vstack([base, base + np.diag(step)])
    # point by point: a few points that share many networks would be walked network by network
    named = [{f"estimator.{name}": point[i : i + 1] for i, name in enumerate(names)} for point in points]
    logs = np.stack([np.log(function({**table, **values})) for values in named])
    return np.asarray((logs[1:] - logs[0]).T / step)


def _left_out(error: FloatArray, slopes: FloatArray, groups: FloatArray) -> FloatArray:
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
    known = {key: known[key] for key in data.learnt([*known], [*judged, *looked_at], lambda key: key)}
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
    test = {key: value for key, value in judged.items() if key in looked_at}
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
) -> dict[str, tuple[FloatArray, FloatArray]]:
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


def _roofline(keys: Sequence[Row]) -> FloatArray:
    """The plain roofline of the whole step at full rates, infeed left out."""
    perfect = with_parameters(
        ComposedEstimator(TpuOperations(), Lane("device")),
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
