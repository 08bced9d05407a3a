"""What two measurements on a new GPU are worth: one product and one addition, the machine otherwise left out.

`slipstick calibrate` with leave_out = "machine" on NeuSight's public FP32 operations: matrix products (batched and
linear, one class) and elementwise operations of ten machines. Each machine is predicted from the others, from its data
sheet alone and after the rows nearest to 4096^3 and to an addition of 2^26 elements were measured on it (these rows are
not scored). The trivial use of the same anchors is a baseline: the data sheet's roofline times the anchor's own ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.across_devices.anchors import Anchor, taken
from slipstick.estimators.across_devices.devices import DeviceCalibration, fit_devices
from slipstick.estimators.across_devices.forecast import Forecast
from slipstick.estimators.across_devices.operation_times import OperationTimes, joined_times, thinned
from slipstick.estimators.core.kinship import shared_words
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.learning.scores import Score, mean_error, score
from slipstick.experiments.calibrate.devices_left_out import four_numbers, noise_floor, roofline
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.gpu import gpu_data
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.8
SAMPLE, SCORED = 250, 800
DRAWN, DRAWS = 8, 6
ANCHORS = (
    Anchor("gemm.float32", {"m": 4096, "n": 4096, "k": 4096}),
    Anchor("elementwise.float32", {"elements": 2**26, "reads": 2**27}),
)
HELD_OUT = ("h100-sxm", "a100-pcie-80gb", "l4", "mi210", "v100-pcie", "t4")
DATASET = "anchors on a new GPU"


def rows(scored_at: Path | None = None) -> list[ValidationRow]:
    """The scoreboard; skipped cases say why."""
    folder = data_folder()
    if folder is None:
        return [skipped(DATASET, "no public measurements here (set SLIPSTICK_DATA; `slipstick data list` says where)")]
    frames = _frames(folder)
    tested = frames if scored_at is None else _frames(scored_at)
    if not tested or not frames:
        return [skipped(DATASET, f"none of NeuSight's files is in {scored_at or folder}")]
    if scored_at is not None:
        frames = {
            name: gpu_data.without(frame, tested[name]["key"]) for name, frame in frames.items() if name in tested
        }
    training = [form for name, frame in frames.items() for form in _forms(name, frame)]
    scoring = [form for name, frame in tested.items() for form in _forms(name, frame)]
    present = {form.machine.name for form in scoring}
    held_out = [machine(name) for name in HELD_OUT] if scored_at is None else []
    if scored_at is not None:
        held_out = list({form.machine.name: form.machine for form in scoring}.values())
    made = fit_devices(training, "NeuSight, FP32", SAMPLE)
    unknown = {device for frame in tested.values() for device in frame.loc[frame["machine"] == "", "device"]}
    scores = [skipped(DATASET, f"the catalogue lacks {device}") for device in sorted(unknown)]
    for target in held_out:
        if target.name not in present:
            scores.append(skipped(DATASET, f"no rows of {target.name}"))
            continue
        forms, measured = taken([form for form in scoring if form.machine.name == target.name], ANCHORS)
        before, after = (made.forecast(target, (target.name,), known) for known in ((), measured))
        for form in forms:
            others = [f for f in training if f.name == form.name and f.machine.name != target.name]
            if any(one.name == form.name for one in made.classes) and others and len(form) > 1:
                scores += _rows_of(target, form, others, measured, before, after)
                scores += _at_random(made, target, form)
    return scores


def _at_random(made: DeviceCalibration, machine: Machine, form: OperationTimes) -> list[ValidationRow]:
    """What rows that nobody chose are worth: worst and middle of some draws, machine and generation left out."""
    kin = [other for other, there in made.machines.items() if shared_words(there.family, machine.family) >= 2]
    without = (machine.name, *kin)
    if len(form) < 4 * DRAWN or not any(
        f.machine not in without for c in made.classes if c.name == form.name for f in c.fits
    ):
        return []
    part = thinned([form], SCORED)
    truth = joined_times(part)
    alone = mean_error(made.forecast(machine, without, ()).predict(part, LEVEL).time, truth)
    errors = []
    for draw in range(DRAWS):
        index = np.random.default_rng(draw).choice(len(form), DRAWN, replace=False)
        predicted = made.forecast(machine, without, [form.some(index)])
        errors.append(mean_error(predicted.predict(part, LEVEL).time, truth))
    base, count = {"no anchors": alone}, len(truth)
    return [
        ValidationRow(
            DATASET,
            f"{form.source}, {machine.name}, {DRAWN} rows drawn at random: {words} of {DRAWS} draws",
            "its generation",
            count,
            "MAPE",
            "1",
            value,
            base,
            share * alone,
            value <= share * alone,
        )
        for words, value, share in (("worst", max(errors), 1.05), ("median", float(np.median(errors)), 0.6))
    ]


def _rows_of(
    machine: Machine,
    form: OperationTimes,
    others: Sequence[OperationTimes],
    anchors: Sequence[OperationTimes],
    alone: Forecast,
    anchored: Forecast,
) -> list[ValidationRow]:
    part = thinned([form], SCORED)
    truth = joined_times(part)
    plain = roofline(part)
    baselines = {
        "roofline": mean_error(plain, truth),
        "calibrated roofline": mean_error(roofline(part, four_numbers(others)), truth),
    }
    by_anchor = _one_factor(part, plain, anchors)
    predictions = [forecast.predict(part, LEVEL) for forecast in (alone, anchored)]
    before, then = (score(one.time, one.low, one.high, truth, LEVEL) for one in predictions)
    known = {**baselines, "no anchors": before.mape}
    if by_anchor is not None:
        known["roofline times the anchor's ratio"] = mean_error(by_anchor, truth)
    floor = noise_floor(part)
    case = f"{form.source}, {machine.name}"
    return [
        _row(f"{case}, data sheet alone", machine, len(truth), before, baselines, floor),
        _row(f"{case}, one product and one addition measured", machine, len(truth), then, known, floor),
    ]


def _row(
    case: str, machine: Machine, count: int, score: Score, baselines: dict[str, float], floor: float | None
) -> ValidationRow:
    note = f"median |log ratio| {score.median:.3f}, 90th percentile {score.ninetieth:.3f}; "
    return ValidationRow(
        DATASET,
        case,
        machine.name,
        count,
        "MAPE",
        "1",
        score.mape,
        baselines,
        None,
        None,
        LEVEL,
        score.coverage,
        score.width,
        floor,
        f"{note}interval score {score.interval:.3f} of log time",
    )


def _one_factor(
    part: Sequence[OperationTimes], plain: FloatArray, anchors: Sequence[OperationTimes]
) -> FloatArray | None:
    of_kind = [anchor for anchor in anchors if anchor.name == part[0].name]
    if not of_kind:
        return None
    return plain * float(np.exp(np.mean(np.log(joined_times(of_kind) / roofline(of_kind)))))


def _frames(folder: Path) -> dict[str, pd.DataFrame]:
    frames = {
        "linear": gpu_data.neusight_products(folder, "linear"),
        "bmm": gpu_data.neusight_products(folder, "bmm"),
        "elementwise": gpu_data.neusight_elementwise(folder),
    }
    return {name: frame for name, frame in frames.items() if len(frame)}


def _forms(name: str, frame: pd.DataFrame) -> list[OperationTimes]:
    kind, dims = (
        ("elementwise", ("elements", "reads", "writes")) if name == "elementwise" else ("gemm", gpu_data.GEMM_DIMS)
    )
    forms = []
    for where, part in frame[frame["machine"] != ""].groupby("machine"):
        columns = {dim: part[dim].to_numpy(float) for dim in dims}
        times = part["time"].to_numpy(float)
        forms.append(OperationTimes.of(machine(str(where)), kind, "float32", columns, times, source=name))
    return forms
