"""The calibration across devices that ships: fitted to all public times of GPU operations, without the times.

`slipstick validate shipped` says what it is worth: every machine is taken out in turn, with its fits and what its rows
say of scatter, and predicted by what is left.

A calibration across devices without measured rows: parameters alone, and how far they err for which relatives.

It is small, holds nobody's measurements, and says less: nothing of the shapes at which libraries choose well or badly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import DEFAULT_LEVEL
from slipstick.estimators.base.machine_family import MOST_WORDS, shared_words
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore
from slipstick.estimators.fitting.scores import coverage, mean_error, width
from slipstick.estimators.fitting.similarity_weights import (
    ALL,
    NAME,
    WITHOUT,
    SimilarityWeights,
    fitted_similarity,
)
from slipstick.estimators.gpu.transfer import devices_file
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, Forecast, device_name, variant_name
from slipstick.estimators.gpu.transfer.device_fits import fit_devices
from slipstick.estimators.gpu.transfer.kernel_class import (
    KernelClass,
    Scatter,
    of_one_chip,
    pooled,
    times,
    unknown_part,
)
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, joined_times
from slipstick.estimators.gpu.transfer.pooling_constants import UNKNOWN
from slipstick.estimators.gpu.transfer.transfer_bands import LeaveOneOutDevice, at_least, left, of_one_source
from slipstick.experiments.calibrate.leave_one_device_out_report import roofline
from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.question.registry import CALIBRATIONS
from slipstick.experiments.scoreboards.experts.expert_data import layer_times
from slipstick.experiments.scoreboards.gpu import other_programs
from slipstick.experiments.scoreboards.gpu.gpu_cases import GpuCase, cases
from slipstick.experiments.scoreboards.gpu.similarity_fit import fitted_without_each, judging_rows, substitutes
from slipstick.experiments.scoring.fitted_files import ShippedFiles, rounded
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.unseen_answers import unseen_group
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd


def without_rows(calibration: DeviceCalibration, similarity: SimilarityWeights) -> DeviceCalibration:
    """The same, reduced to parameters; scatters are learned from the rows before they go."""
    machines = calibration.machines
    classes = [
        replace(
            one,
            rows={},
            scatters=tuple(_scatter(one, machines, closest, similarity) for closest in range(MOST_WORDS + 1)),
        )
        for one in calibration.classes
    ]
    return replace(calibration, classes=tuple(classes), anchors=())


def _scatter(one: KernelClass, machines: Mapping[str, Machine], closest: int, similarity: SimilarityWeights) -> Scatter:
    """Every machine predicted from the mean of those that share at most `closest` words of its family."""
    trials = []
    for fit in one.fits:
        here = device_name(machines[fit.machine])
        others = [other for other in one.fits if device_name(machines[other.machine]) != here]
        others = [other for other in others if shared_words(fit.family, other.family) <= closest] or others
        forms = one.sampled.get(fit.machine)
        if others and forms:
            predicted = np.log(times(forms, pooled(others, machines[fit.machine], similarity, one.priors)))
            nearest = max(shared_words(fit.family, other.family) for other in others)
            scale = similarity.errors[closest] / similarity.errors[nearest]
            seconds, new = np.log(joined_times(forms)), unknown_part(fit, nearest)
            trials.append(LeaveOneOutDevice(predicted, np.zeros(len(predicted)), seconds, scale, new))
    learned = left(trials, 0.0, similarity.tails) if trials else Scatter(UNKNOWN, UNKNOWN)
    return at_least(learned, of_one_source(closest, similarity)) if of_one_chip(one.fits, closest) else learned


SOURCE = "public times of GPU operations: NeuSight, DeepBench (FP32), aiconfigurator, AITER (BF16, FP8); fits alone"
CALLS = "neusight convolution"
"""Times of calls, not of kernels: fits to them want 0.25 to 0.57 ms a launch and up to 3.2 times the bandwidth of the
memory, where DeepBench's convolutions on the same GPUs want 0.03 to 0.09 ms and 0.66 to 0.88."""
GENERATION = 2
"""Words of a family that name vendor and generation: who shares fewer is of another generation."""
DATASET = "the calibration that ships"
NOTE = "What machines count for one another, from machines left out in turn: numbers of all, and without each group."


def public_times() -> list[OperationTimes]:
    """Every row that the scoreboard of operations looks at, once.

    Raises
    ------
    InputError
        Where the measurements are not here.
    """
    folder = needed_folder()
    result: dict[str, list[OperationTimes]] = {}
    shipped = ("BF16", "FP8 gemm a tensor", "FP8 gemm in blocks, its chip", "context", "generation", "deepbench conv")
    for case in cases():
        if repr(case.source) in result or case.name.startswith(CALLS):
            continue
        if case.dtype == "float32" or case.name.startswith(shipped):
            forms = case.board(case.frame(folder)).forms
            if not forms:
                raise InputError(f"{folder}: no rows of {case.name}")
            others = _second_stacks(case, case.of_all_stacks(folder)) if case.dtype == "bfloat16" else []
            named = [_run_by(form, case.stack) if case.stack else form for form in forms]
            result.setdefault(repr(case.source), [*named, *others])
    tuned = other_programs.tuned_times(other_programs.tuned_products(folder / other_programs.TUNED))
    return [*(form for forms in result.values() for form in forms), *layer_times(folder), *tuned]


def _second_stacks(case: GpuCase, frame: pd.DataFrame) -> list[OperationTimes]:
    """Rows of other serving stacks than the case's, as of machines of their own."""
    result = []
    for stack, part in frame[frame["stack"] != case.stack].groupby("stack"):
        for form in case.board(part).forms:
            ran = _run_by(form, str(stack))
            renamed = ran.machine.model_copy(update={"name": variant_name(form.machine.name, str(stack))})
            result.append(replace(ran, machine=renamed))
    return result


def _run_by(form: OperationTimes, stack: str) -> OperationTimes:
    return replace(form, machine=form.machine.using({"runtime.library": stack}))


def fitted(forms: list[OperationTimes]) -> DeviceCalibration:
    """Fits to all rows; the tested rows are those of test files."""
    return fit_devices(forms, SOURCE, typical=sorted({form.source for form in forms if "test" in form.source}))


def refit() -> ShippedFiles:
    """What ``--calibration gpus`` names, with the scores of machines left out.

    Raises InputError where the measurements are not here.
    """
    whole = fitted(public_times())
    made = fitted_without_each(judging_rows(whole), substitutes(whole))
    numbers = {group: each.similarity for group, each in made.items()}
    document = devices_file.to_dict(without_rows(whole, numbers[""]))
    document |= {name: rounded(document[name]) for name in ("classes", "scatters")}
    used = sum(fit.count for one in whole.classes for fit in one.fits)
    outer = tuple(_outer(whole, numbers))
    facts = {ALL: asdict(numbers.pop("")), WITHOUT: {group: asdict(one) for group, one in numbers.items()}}
    files = {"public times of GPU operations": whole.fingerprint[:16]}
    similarity = FittedFile(NAME, files, used, {"similarity": made[""].law}, outer, NOTE, facts)
    return ShippedFiles({CALIBRATIONS / "gpus.json": document}, used, outer, indent=None, beside=similarity)


def _outer(whole: DeviceCalibration, numbers: Mapping[str, SimilarityWeights]) -> Iterator[OuterScore]:
    """By class of operations, every machine left out in turn: its chip known, and its generation unseen."""
    for title, words in (("machine", MOST_WORDS + 1), ("generation", GENERATION)):
        for one in whole.classes:
            names = [fit.machine for fit in one.fits if one.sampled.get(fit.machine)]
            turns = [(one.sampled[name], _left_out(whole, one, name, numbers.__getitem__, words)) for name in names]
            known = [(forms, others.predict(forms)) for forms, others in turns if others is not None]
            if known:
                measured = np.concatenate([joined_times(forms) for forms, _ in known])
                seconds = np.concatenate([predicted.time for _, predicted in known])
                half = np.concatenate([np.log(predicted.high / predicted.low) / 2 for _, predicted in known])
                yield OuterScore.of(title, one.name, len(known), seconds, measured, half)


def _classes(_: Data) -> list[ValidationRow]:
    """By class of operations: error and band where the machine is left out."""
    whole = fitted(public_times())
    return [_row(whole, one) for one in whole.classes]


def _row(whole: DeviceCalibration, one: KernelClass) -> ValidationRow:
    """Mean over machines, each as its tested rows."""
    tested = [fit for fit in one.fits if one.sampled.get(fit.machine)]
    scores = np.array([_score(whole, one, fit.machine) for fit in tested])
    ours, plain, covered, width = scores.mean(axis=0)
    return ValidationRow(
        DATASET,
        one.name,
        "machine",
        len(scores),
        "MAPE, mean over machines",
        "1",
        float(ours),
        {"roofline": float(plain)},
        interval_level=DEFAULT_LEVEL,
        interval_coverage=float(covered),
        interval_width=float(width),
        reason=f"largest {scores[:, 0].max():.3f}",
    ).over([fit.machine for fit in tested], scores[:, 2])


def _score(whole: DeviceCalibration, one: KernelClass, name: str) -> FloatArray:
    """Of a machine that is left out: error, the roofline's error, coverage and width (high/low) of the band."""
    scored = one.sampled[name]
    measured = joined_times(scored)
    others = _left_out(whole, one, name, fitted_similarity)
    if others is None:
        raise InputError(f"{one.name}: no machine but {name} was measured")
    predicted = others.predict(scored)
    held, wide = coverage(predicted.low, predicted.high, measured), width(predicted.low, predicted.high)
    return np.array([mean_error(predicted.time, measured), mean_error(roofline(scored), measured), held, wide])


def _left_out(
    whole: DeviceCalibration,
    one: KernelClass,
    name: str,
    similarity: Callable[[str], SimilarityWeights],
    words: int = MOST_WORDS + 1,
) -> Forecast | None:
    """Of a machine from the others that share fewer than `words` words of its family; None where there are none.

    `similarity`: the numbers without a generation or vendor (`unseen_group`).
    """
    left, here = whole.machines[name], device_name(whole.machines[name])
    names = {
        n for n, o in whole.machines.items() if device_name(o) != here and shared_words(o.family, left.family) < words
    }
    fits = tuple(fit for fit in one.fits if fit.machine in names)
    kept = {machine: forms for machine, forms in one.rows.items() if machine in names}
    if not fits:
        return None
    counts = similarity(unseen_group([left.family], [fit.family for fit in fits]))
    others = without_rows(replace(whole, classes=(replace(one, fits=fits, rows=kept),)), counts)
    # As it was measured: its kernels may have been launched in recorded graphs.
    return others.forecast(one.sampled[name][0].machine, similarity=counts)


BOARD = Board(
    "What is the calibration across GPUs that ships worth on a GPU that it never saw?",
    {DATASET: _classes},
    closed={DATASET: "machines are held out within the public rows"},
)
