"""What two measurements on a new GPU are worth: one product and one addition, the machine otherwise left out.

`slipstick calibrate` with leave_out = "machine" on NeuSight's public FP32 operations: matrix products (batched and
linear, one class) and elementwise operations of ten machines. Each machine is predicted from the others, from its data
sheet alone and after the rows nearest to 4096^3 and to an addition of 2^26 elements were measured on it (these rows are
not scored). The trivial use of the same anchors is a baseline: the data sheet's roofline times the anchor's own ratio.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.fitting import scores
from slipstick.estimators.fitting.similarity_weights import fitted_similarity
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, fit_devices
from slipstick.estimators.gpu.transfer.operation_times import Anchor, OperationTimes, joined_times, taken, thinned
from slipstick.estimators.gpu.transfer.unmeasured_machine import Forecast
from slipstick.experiments.calibrate.leave_one_device_out_report import four_numbers, noise_floor, roofline
from slipstick.experiments.scoreboards.anchors import user_rows_scores
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoring.rules_of_thumb import BANDWIDTH, PEAK, RULE
from slipstick.experiments.scoring.score import MAPE, Board, Data, MissingError, Part, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.unseen_answers import unseen_group
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


def _machines(names: Sequence[str], data: Data) -> Iterator[Scored | ValidationRow]:
    """Each machine by its data sheet alone, and after two rows, or some drawn at random, were measured on it.

    `names`: of those that are scored; all where empty.
    """
    frames, tested = _frames(data.folder), _frames(data.judged_folder)
    if not tested or not frames:
        raise MissingError(f"none of NeuSight's files is in {data.judged_folder}")
    frames = {name: data.table(frame, tested[name], ["key"]) for name, frame in frames.items() if name in tested}
    training = [form for name, frame in frames.items() for form in _forms(name, frame)]
    scoring = [form for name, frame in tested.items() for form in _forms(name, frame)]
    present = {form.machine.name: form.machine for form in scoring}
    unknown = {device for frame in tested.values() for device in frame.loc[frame["machine"] == "", "device"]}
    yield from (skipped(DATASET, f"the catalogue lacks {device}") for device in sorted(unknown))
    made = fit_devices(training, "NeuSight, FP32", SAMPLE)
    for target in [machine(name) for name in names] or present.values():
        if target.name not in present:
            yield skipped(DATASET, f"no rows of {target.name}")
            continue
        forms, measured = taken([form for form in scoring if form.machine.name == target.name], ANCHORS)
        before, after = (_without(made, target, (target.name,), known) for known in ((), measured))
        for form in forms:
            others = [f for f in training if f.name == form.name and f.machine.name != target.name]
            if any(one.name == form.name for one in made.classes) and others and len(form) > 1:
                yield from _both(target, form, others, measured, before, after)
                yield from _at_random(made, target, form)


def _without(
    made: DeviceCalibration, machine: Machine, without: Sequence[str], known: Sequence[OperationTimes]
) -> Forecast:
    """A machine by others, which count as was found without its generation, or vendor where none of it is left."""
    others = [one.family for name, one in made.machines.items() if name not in without]
    return made.forecast(machine, without, known, fitted_similarity(unseen_group([machine.family], others)))


def _at_random(made: DeviceCalibration, machine: Machine, form: OperationTimes) -> list[ValidationRow]:
    """What rows that nobody chose are worth: worst and middle of some draws, machine and generation left out."""
    relatives = [other for other, there in made.machines.items() if shared_words(there.family, machine.family) >= 2]
    without = (machine.name, *relatives)
    if len(form) < 4 * DRAWN or not any(
        f.machine not in without for c in made.classes if c.name == form.name for f in c.fits
    ):
        return []
    part = thinned([form], SCORED)
    truth = joined_times(part)
    alone = scores.mean_error(_without(made, machine, without, ()).predict(part, LEVEL).time, truth)
    errors = []
    for draw in range(DRAWS):
        index = np.random.default_rng(draw).choice(len(form), DRAWN, replace=False)
        predicted = _without(made, machine, without, [form.some(index)])
        errors.append(scores.mean_error(predicted.predict(part, LEVEL).time, truth))
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


def _both(
    machine: Machine,
    form: OperationTimes,
    others: Sequence[OperationTimes],
    anchors: Sequence[OperationTimes],
    alone: Forecast,
    anchored: Forecast,
) -> Iterator[Scored]:
    """From the data sheet alone, and after one product and one addition."""
    part = thinned([form], SCORED)
    plain = roofline(part)
    baselines = {
        "roofline": plain,
        RULE: roofline(part, (PEAK, BANDWIDTH, 0.0, 0.0)),
        "calibrated roofline": roofline(part, four_numbers(others)),
    }
    before = alone.predict(part, LEVEL)
    known = {**baselines, "no anchors": before.time}
    if (by_anchor := _one_factor(part, plain, anchors)) is not None:
        known["roofline times the anchor's ratio"] = by_anchor
    for case, predicted, simple in (
        ("data sheet alone", before, baselines),
        ("one product and one addition measured", anchored.predict(part, LEVEL), known),
    ):
        truth = joined_times(part)
        score = scores.score(predicted.time, predicted.low, predicted.high, truth, LEVEL)
        yield Scored(
            f"{form.source}, {machine.name}, {case}", machine.name, truth, predicted.time, (MAPE,), (), simple, None,
            predicted.low, predicted.high, LEVEL, noise=noise_floor(part), groups=machine.name,
            reason=f"median |log ratio| {score.median:.3f}, 90th percentile {score.ninetieth:.3f}; "
            f"interval score {score.interval:.3f} of log time",
        )  # fmt: skip


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


BOARD = Board(
    "What are two measurements on a new GPU worth?",
    {
        DATASET: Part(partial(_machines, HELD_OUT), partial(_machines, ())),
        user_rows_scores.STEPS: user_rows_scores.steps,
        user_rows_scores.ATTENTION: user_rows_scores.attention,
    },
)
