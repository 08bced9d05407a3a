"""Whole what-ifs as users ask them: a workload on a machine whose fields become those of another machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.records import Table
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.gpu.gpu_step import gpu_step
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.question.precision import precision
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.space import Space
from slipstick.experiments.scoreboards.programs.program_data import machine_of, programs, times
from slipstick.experiments.scoreboards.whatif.cloud_layers import networks
from slipstick.experiments.scoreboards.whatif.machine_pairs import changes, difference
from slipstick.experiments.scoreboards.whatif.ratios import ALIKE, Ratios
from slipstick.experiments.scoring.score import Data, progress
from slipstick.experiments.studies.sweep import task
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

PROGRAMS = 60
"""Programs of a pair that are predicted: every so many in the order of their problems."""
CLOUD = (("ec2-c5-2xlarge", "ec2-c5-xlarge"), ("ec2-c5-2xlarge", "ec2-c5-large"), ("ec2-c5-xlarge", "ec2-c5-large"))
HOSTS = (
    ("v0", "A100_modal", "A100-80GB_modal", 0.19),
    ("v0.1", "H100_PCIe_LambdaLabs", "H100_Modal", ALIKE),
)
"""KernelBench's cohort, hosts of today's machine and of the other, and |log ratio| below which there is no direction:
in the first cohort, which is bound by the host, programs on one GPU differ by 19 % between hosts."""


@dataclass(frozen=True)
class MovedRatio:
    """Ratio of times, half of its 80 % band in log, largest change of a field that is read, the roofline's ratio."""

    ratio: float
    half: float
    change: float
    roofline: float


def answered(query: Question, after: Machine) -> MovedRatio:
    """What the what-if says where the machine's fields become another's."""
    changed = changes(query.machine, after)
    axes: Table[tuple[float, ...]] = Table({f"machine.{path}": (value,) for path, value in changed.items()})
    work = task(replace(query, vary=Space(axes)))
    row = work.columns(0, 1)
    ratio = float(row["time_ratio"][0])
    half = float(np.log(row["high_ratio"][0] / ratio)) if "high_ratio" in row else 0.0
    change = work.fields.change({name: np.asarray(values) for name, values in axes.items()}, 1)[0]
    plain = [
        question(query.workload, one, "roofline").answer().time for one in (query.machine, query.machine.using(changed))
    ]
    return MovedRatio(ratio, half, float(change), plain[1] / plain[0])


def cloud(data: Data) -> list[Ratios]:
    """Image networks on instances of one family with more or fewer cores (DLBricks)."""
    known = networks(data)
    result = []
    for before, after in CLOUD:
        progress(f"{before} -> {after}")
        here, there = machine(before), machine(after)
        pairs = [
            (one.workload, one.seconds[after] / one.seconds[before])
            for one in known
            if {before, after} <= {*one.seconds}
        ]
        result.append(_ratios(f"image networks, {before} -> {after}", here, there, pairs))
    return [one for one in result if one is not None]


def compared_programs(data: Data) -> list[Ratios]:
    """PyTorch programs of KernelBench on two GPUs of one generation, the second one in no fit."""
    folder = data.scored or data.folder
    known = programs(folder)
    result = []
    for cohort, before, after, noise in HOSTS:
        frame = times(folder, cohort)
        if frame.empty or not known:
            continue
        progress(f"{before} -> {after}")
        eager = frame[(frame["mode"] == "eager") & frame["source"].isin(list(known))]
        both = _joined(eager, before, after)
        if both.empty:
            continue
        here, there = (machine(machine_of(str(both[name].iloc[0]))) for name in ("device", "device_after"))
        pairs = []
        some = both.iloc[:: max(1, len(both) // PROGRAMS)]
        ratios = (some["mean_s_after"] / some["mean_s"]).to_numpy(dtype=float)
        for source, ratio in zip(some["source"].tolist(), ratios, strict=True):
            program = known[str(source)]
            if not program.unread and program.operations:
                pairs.append((Workload("program", program.operations, program.edges), float(ratio)))
        note = f"hosts {before} and {after}" + (", mostly bound by the host" if cohort == "v0" else "")
        result.append(
            _ratios(f"PyTorch programs ({cohort}), {before} -> {after}", here, there, pairs, note, there.name, noise)
        )
    return [one for one in result if one is not None]


def _joined(frame: pd.DataFrame, before: str, after: str) -> pd.DataFrame:
    first, second = (frame[frame["machine"] == name] for name in (before, after))
    return first.merge(second, on=["source", "level", "problem"], suffixes=("", "_after")).sort_values(
        ["level", "problem"]
    )


def _ratios(
    case: str,
    here: Machine,
    there: Machine,
    pairs: Sequence[tuple[Workload, float]],
    note: str = "",
    left_out: str = "",
    noise: float = ALIKE,
) -> Ratios | None:
    """Answers to all of the pairs (workload, measured ratio)."""
    answers, measured = [], []
    known = without(gpu_kernels(), left_out) if left_out else None
    for graph, ratio in pairs:
        try:
            answers.append(answered(_question(graph, here, known), there))
        except InputError:
            continue
        measured.append(ratio)
    if not answers:
        return None
    ours, half, change, plain = (
        np.array([getattr(one, name) for one in answers]) for name in ("ratio", "half", "change", "roofline")
    )
    words = f"{len(pairs) - len(answers)} refused" if len(pairs) > len(answers) else ""
    fields = difference(here, there)
    text = "; ".join(filter(None, (note, words)))
    return Ratios(
        case,
        there.name,
        fields,
        np.array(measured),
        ours,
        half,
        float(change.max()),
        {"roofline": plain},
        text,
        noise,
    )


def _question(graph: Workload, here: Machine, known: DeviceCalibration | None) -> Question:
    """As the default answers it; on a GPU with a calibration that never saw the other machine."""
    if known is None:
        return question(graph, here)
    rounded = precision(graph, here, None)
    made: Estimator = gpu_step(known, here, rounded).estimator
    return Question(rounded, here, made)


def without(known: DeviceCalibration, name: str) -> DeviceCalibration:
    """A calibration across devices that never saw one of them, by whatever library."""
    classes = tuple(
        replace(one, fits=tuple(f for f in one.fits if not f.machine.startswith(name))) for one in known.classes
    )
    machines = Table({key: value for key, value in known.machines.items() if not key.startswith(name)})
    return replace(known, classes=classes, machines=machines)
