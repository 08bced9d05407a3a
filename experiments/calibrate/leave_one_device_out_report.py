"""What a calibration across devices is worth on a device that it never saw: every machine left out in turn.

Beside each error stand two baselines (the data sheet's roofline, and one of four numbers fitted to the same other
machines), the noise of the measurements, and the band's coverage with its width and interval score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.fitting.fitted_model import FormulaLaw
from slipstick.estimators.fitting.formula_model import expected, plain_fit
from slipstick.estimators.fitting.scores import Score, mean_error, score
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, Forecast
from slipstick.estimators.gpu.transfer.device_fits import SAMPLE
from slipstick.estimators.gpu.transfer.operation_times import Anchor, OperationTimes, joined_times, taken, thinned
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.symbolic.formula import Formula

SCORED = 1000
"""Rows of a machine and class that are scored."""
UNSURE = 1.0
"""Width of the logarithm of each of the baseline's four numbers, before any row."""


@dataclass(frozen=True)
class DeviceLeftOut:
    """One machine and class of operations.

    `pooled`: the machine new, nothing known of it but its data sheet.
    `anchored`: after the anchors were measured on it; None where none were requested, or it has no such rows.
    `roofline`, `calibrated_roofline`: MAPE of the baselines.
    `noise_floor`: mean relative deviation of repeated rows from their mean; None without repeats.
    """

    machine: str
    operation: str
    rows: int
    pooled: Score
    anchored: Score | None
    roofline: float
    calibrated_roofline: float
    noise_floor: float | None


def leave_devices_out(
    calibration: DeviceCalibration,
    forms: Sequence[OperationTimes],
    anchors: Sequence[Anchor] = (),
    level: float = 0.8,
    machines: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[DeviceLeftOut]:
    """Every fitted machine (or the named ones) predicted from the others, with and without anchors.

    Rows that stand for anchors are not scored.
    """
    scores = []
    for name in machines if machines is not None else sorted(calibration.machines):
        rows = [form for form in forms if form.machine.name == name]
        rows, measured = taken(rows, anchors)
        machine = calibration.machines[name]
        before = calibration.forecast(machine, (name,), ())
        after = calibration.forecast(machine, (name,), measured) if measured else None
        for one in calibration.classes:
            part = thinned([form for form in rows if form.name == one.name], SCORED)
            others = [f for f in forms if f.name == one.name and f.machine.name != name]
            if not part or not others:
                continue
            fitted = four_numbers(others)
            scores.append(
                DeviceLeftOut(
                    name,
                    one.name,
                    sum(map(len, part)),
                    _scored(before, part, level),
                    _scored(after, part, level) if after else None,
                    mean_error(roofline(part), joined_times(part)),
                    mean_error(roofline(part, fitted), joined_times(part)),
                    noise_floor(part),
                )
            )
        if progress:
            progress(name)
    return scores


def roofline(
    forms: Sequence[OperationTimes], numbers: tuple[float, float, float, float] = (1.0, 1.0, 0.0, 0.0)
) -> FloatArray:
    """Seconds by data-sheet peaks, or by four numbers: two efficiencies, launch, share that is not overlapped."""
    return _of_four(_sides(forms), numbers)


def four_numbers(forms: Sequence[OperationTimes]) -> tuple[float, float, float, float]:
    """The four numbers of the calibrated roofline, fitted in log time to all machines alike."""
    chosen = []
    for machine in sorted({form.machine.name for form in forms}):
        chosen += thinned([form for form in forms if form.machine.name == machine], SAMPLE)
    sides, measured = _sides(chosen), joined_times(chosen)
    start = {"compute": 0.7, "memory": 0.8, "launch": max(1e-6, float(measured.min()) / 2), "overlap": 0.3}
    priors = tuple(expected(name, value, UNSURE) for name, value in start.items())
    law = FormulaLaw(
        "calibrated roofline", priors, lambda numbers, _: _of_four(sides, [numbers[name] for name in start])
    )
    numbers = plain_fit(law, measured)
    return numbers["compute"], numbers["memory"], numbers["launch"], numbers["overlap"]


def _sides(forms: Sequence[OperationTimes]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of rows: seconds of arithmetic and of traffic at full efficiency, and launches."""
    columns: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for form in forms:
        formula = Roofline().formula(form.op, form.machine)
        compute, memory = (_side(form, formula, name) for name in ("compute", "memory"))
        columns.append((compute, memory, form.amount("operation.launches")))
    compute, memory, launches = (np.concatenate([one[at] for one in columns]) for at in range(3))
    return compute, memory, launches


def _of_four(
    sides: tuple[FloatArray, FloatArray, FloatArray], numbers: Sequence[float] | Sequence[FloatArray]
) -> FloatArray:
    """Seconds by two efficiencies, launch, and share that is not overlapped."""
    a, b = sides[0] / numbers[0], sides[1] / numbers[1]
    return np.asarray(numbers[2] * sides[2] + np.maximum(a, b) + numbers[3] * np.minimum(a, b))


def noise_floor(forms: Sequence[OperationTimes]) -> float | None:
    """Mean relative deviation of repeats (rows of equal dims) from their mean; None where nothing was repeated."""
    errors = []
    for form in forms:
        _, which = np.unique(form.place(), axis=0, return_inverse=True)
        counts = np.bincount(which.ravel())
        means = np.bincount(which.ravel(), form.times) / counts
        repeated = counts[which.ravel()] > 1
        errors.append(np.abs(form.times / means[which.ravel()] - 1)[repeated])
    together = np.concatenate(errors)
    return float(np.mean(together)) if len(together) else None


def _side(form: OperationTimes, formula: Formula, name: str) -> FloatArray:
    """One side of a roofline at full efficiency, seconds a row."""
    if not formula.terms:
        return np.zeros(len(form))
    side = Formula(formula.terms[name], "s", formula.source)
    values: dict[str, object] = {f"parameter.{n}_efficiency": 1.0 for n in ("compute", "memory")}
    values |= machine_values(side, form.machine)
    values |= {n: form.amount(n) for n in side.names if n.startswith("operation.")}
    return np.broadcast_to(side.evaluate(values), len(form))


def _scored(forecast: Forecast, part: Sequence[OperationTimes], level: float) -> Score:
    """Errors and band of what a forecast says of rows of one class of operations."""
    times = forecast.predict(part, level)
    return score(times.time, times.low, times.high, joined_times(part), level)
