"""What two measurements on a new GPU are worth: one product and one addition, the machine otherwise left out.

`slipstick calibrate` with leave_out = "machine" on NeuSight's public FP32 operations: matrix products (batched and
linear, one class) and elementwise operations of ten machines. Each machine is predicted from the others, from its data
sheet alone and after the rows nearest to 4096^3 and to an addition of 2^26 elements were measured on it (these rows are
not scored). The trivial use of the same anchors is a baseline: the data sheet's roofline times the anchor's own ratio.

What a few rows of one's own are worth on a device that is left out: none, two that are chosen, eight at random.

Steps of a server: every configuration (model, engine, version, system, way of storing weights) with enough rows, its
chip or its whole generation left out of the fit. Decode attention: every machine, its generation left out. The rows
that are measured are not scored; all others are, under each of the three, so that the errors compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.engine_steps.measured_steps import CONFIGURATION
from slipstick.estimators.engine_steps.step_law import STEP_LAW
from slipstick.estimators.fitting import scores
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import LawFit, LawRows
from slipstick.estimators.fitting.similarity_weights import fitted_similarity
from slipstick.estimators.fitting.updated_model import LawKnown, open_to, with_known
from slipstick.estimators.fitting.user_rows import chosen
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, Forecast
from slipstick.estimators.gpu.transfer.device_fits import fit_devices
from slipstick.estimators.gpu.transfer.next_measurements import next_rows
from slipstick.estimators.gpu.transfer.operation_times import Anchor, OperationTimes, joined_times, taken, thinned
from slipstick.experiments.calibrate.leave_one_device_out_report import four_numbers, noise_floor, roofline
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoreboards.gpu.gpu_cases import BLACKWELL, HOPPER, cases
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoreboards.serving.serving_board import case_key
from slipstick.experiments.scoreboards.serving.serving_refit import FILE, more_cases, trained_on
from slipstick.experiments.scoreboards.serving.serving_rows import read_cases
from slipstick.experiments.scoreboards.serving.step_fit import step_rows
from slipstick.experiments.scoring.rules_of_thumb import BANDWIDTH, PEAK, RULE
from slipstick.experiments.scoring.score import MAPE, PERCENT, Board, Data, MissingError, Part, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.unseen_answers import unseen_group
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd


STEPS, ATTENTION = "known steps of a server", "known rows of decode attention"
ENOUGH = 20
"""Rows of a configuration."""
CHOSEN, OWN_DRAWN, OWN_DRAWS = 2, 8, 4
OFFERED, OWN_SCORED = 300, 1500
"""Rows of a machine among which two are chosen, and that are scored at most."""
NEVER_WORSE = 1.05
GENERATIONS = (("a100-sxm-80gb",), ("l40s",), HOPPER, BLACKWELL)


@dataclass(frozen=True, eq=False)
class Tried:
    """Rows of one target under one set of measured rows, those left out: seconds with and without these, half-width."""

    measured: FloatArray
    with_rows: FloatArray
    without: FloatArray
    half: FloatArray

    @property
    def ratio(self) -> float:
        """Mean error with the measured rows over that without."""
        return scores.mean_error(self.with_rows, self.measured) / scores.mean_error(self.without, self.measured)


def steps(data: Data) -> Iterator[Scored | ValidationRow]:
    """Further tokens of a server on a chip, or of a generation, that is left out of the law of a step."""
    known, given = [*read_cases(data.known(FILE))[0], *more_cases()], read_cases(data.judged(FILE))[0]
    every = data.rows(trained_on(known), trained_on(given), case_key)
    public, judged = step_rows(every.known), step_rows(every.scored)
    near = fit(STEP_LAW, public)
    for level in ("chip", "generation"):
        made: dict[str, list[Tried]] = {"2 chosen": [], "8 at random": []}
        for name in sorted(set(judged.groups[level])):
            mine = np.flatnonzero([group == name for group in judged.groups[level]])
            families = np.array(judged.cluster)[mine]
            parts = [mine[families == one] for one in sorted(set(families))]
            parts = [part for part in parts if len(part) >= ENOUGH]
            others = np.flatnonzero([group != name for group in public.groups[level]])
            if not parts or not len(others):
                continue
            alone = fit(STEP_LAW, public.take(others), near=near)
            for part in parts:
                rows = judged.take(part)
                made["2 chosen"].append(_steps_tried(alone, rows, _chosen_steps(alone, rows)))
                made["8 at random"] += [_steps_tried(alone, rows, places) for places in _draws(len(rows))]
        yield from _shown(STEPS, "a step of a server", f"its {level}", made)


def _chosen_steps(alone: LawFit, rows: LawRows) -> list[int]:
    law = STEP_LAW
    model = LawKnown.of(open_to(alone, law, rows, CONFIGURATION), law, rows)
    _, slope = model.linear(np.zeros(model.size))
    return [one.place for one in chosen(slope, model.noise, CHOSEN)]


def _steps_tried(alone: LawFit, rows: LawRows, places: Sequence[int]) -> Tried:
    law, rest = STEP_LAW, np.setdiff1d(np.arange(len(rows)), places)
    made, left = with_known(alone, law, rows.take(np.array(places)), CONFIGURATION).fit, rows.take(rest)
    at = left.columns, left.groups
    return Tried(left.seconds, made.seconds(law, *at), alone.seconds(law, *at), made.half_width(law, *at))


def attention(data: Data) -> Iterator[Scored | ValidationRow]:
    """Attention of new tokens over a cache, on every machine of a generation that is left out."""
    case = next(one for one in cases() if one.name == "generation attention")
    training = case.frame(data.folder)
    judged = case.frame(data.judged_folder)
    if training.empty or judged.empty:
        raise MissingError("no table of decode attention")
    board, given = case.board(training), case.board(judged)
    made: dict[str, list[Tried]] = {"2 chosen": [], "8 at random": []}
    for group in GENERATIONS:
        for name in group:
            frame = judged[judged["machine"] == name]
            if len(frame) < ENOUGH:
                continue
            form = given.rows(name, frame.sample(min(len(frame), OWN_SCORED), random_state=1))
            alone = board.forecast(name, group)
            made["2 chosen"].append(_rows_tried(board, name, group, form, alone, _chosen_rows(form, alone)))
            made["8 at random"] += [_rows_tried(board, name, group, form, alone, at) for at in _draws(len(form))]
    yield from _shown(ATTENTION, "decode attention", "its generation", made)


def _chosen_rows(form: OperationTimes, alone: Forecast) -> list[int]:
    places = np.arange(min(len(form), OFFERED))
    offered = [form.some(np.array([place])) for place in places]
    sizes = [{dim: float(one.column(dim)[0]) for dim in one.op.dims} for one in offered]
    return [sizes.index(dict(one.dims)) for one in next_rows(alone.belief, offered, CHOSEN)]


def _rows_tried(
    board: OperationBoard,
    name: str,
    group: Sequence[str],
    form: OperationTimes,
    alone: Forecast,
    places: Sequence[int],
) -> Tried:
    left = form.some(np.setdiff1d(np.arange(len(form)), places))
    made = board.forecast(name, group, [form.some(np.array(places))])
    after, before = made.predict([left]), alone.predict([left])
    return Tried(left.times, after.time, before.time, np.log(after.high / after.time))


def _draws(count: int) -> list[list[int]]:
    """Rows that nobody chose."""
    return [
        sorted(np.random.default_rng(draw).choice(count, OWN_DRAWN, replace=False).tolist())
        for draw in range(OWN_DRAWS)
    ]


def _shown(dataset: str, what: str, held: str, made: Mapping[str, Sequence[Tried]]) -> Iterator[Scored | ValidationRow]:
    for how, tried in made.items():
        if not tried:
            continue
        measured, ours, alone, half = (
            np.concatenate([getattr(one, name) for one in tried])
            for name in ("measured", "with_rows", "without", "half")
        )
        draws = len(tried) // max(1, len(made["2 chosen"]))
        groups = [str(at // max(1, draws)) for at, one in enumerate(tried) for _ in one.measured]
        yield Scored(
            f"{what}, {how}", held, measured, ours, (MAPE, *PERCENT), (), {"nothing measured": alone}, half,
            groups=groups, dataset=dataset,
        )  # fmt: skip
        ratios = np.array([one.ratio for one in tried])
        case = f"{what}, {how}: error over that with nothing measured, 95th percentile of tries"
        yield ValidationRow(
            dataset, case, held, len(ratios),
            "ratio of MAPE", "1", float(np.quantile(ratios, 0.95)), {"nothing measured": 1.0}, NEVER_WORSE,
            bool(np.quantile(ratios, 0.95) <= NEVER_WORSE),
            reason=f"median {np.median(ratios):.2f}, worst {ratios.max():.2f}",
        )  # fmt: skip


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
    alone = scores.mean_error(_without(made, machine, without, ()).predict(part, scores.LEVEL).time, truth)
    errors = []
    for draw in range(DRAWS):
        index = np.random.default_rng(draw).choice(len(form), DRAWN, replace=False)
        predicted = _without(made, machine, without, [form.some(index)])
        errors.append(scores.mean_error(predicted.predict(part, scores.LEVEL).time, truth))
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
    before = alone.predict(part, scores.LEVEL)
    known = {**baselines, "no anchors": before.time}
    if (by_anchor := _one_factor(part, plain, anchors)) is not None:
        known["roofline times the anchor's ratio"] = by_anchor
    for case, predicted, simple in (
        ("data sheet alone", before, baselines),
        ("one product and one addition measured", anchored.predict(part, scores.LEVEL), known),
    ):
        truth = joined_times(part)
        score = scores.score(predicted.time, predicted.low, predicted.high, truth, scores.LEVEL)
        yield Scored(
            f"{form.source}, {machine.name}, {case}", machine.name, truth, predicted.time, (MAPE,), (), simple, None,
            predicted.low, predicted.high, scores.LEVEL, noise=noise_floor(part), groups=machine.name,
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
        STEPS: steps,
        ATTENTION: attention,
    },
)
