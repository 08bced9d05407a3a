"""What-ifs judged: pairs of measurements between which one or few fields changed, scored as ratios of their times.

One side is measured and known, the other was in no fit: an A100 of 40 or 80 GB, H100 and H200, the two boards of the
H100, a power limit, a cloud instance with fewer cores, loading workers, a longer sequence. Beside "no change" (the
ratio is 1) and the data sheet's roofline: error of the ratio, its direction, whether the changed part bounds, and how
often the 80 % band of the ratio holds. Nothing was chosen on these pairs.

Whole what-ifs as users ask them: a workload on a machine whose fields become those of another machine.

Image networks of the DLBricks authors as graphs of their layers, with their whole latency on each instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.space import Space
from slipstick.experiments.replay.trace_whatif import TraceChange, trace_whatif
from slipstick.experiments.scoreboards.dlbricks.layer_tables import CONVOLUTION, FILE, KINDS, layer_frame
from slipstick.experiments.scoreboards.energy.power_limit_scores import FILE as LIMITS
from slipstick.experiments.scoreboards.energy.power_limit_scores import fitted, limited_runs
from slipstick.experiments.scoreboards.programs.program_data import machine_of, programs, runs_of, times
from slipstick.experiments.scoreboards.programs.program_refit import ProgramTimes, some_networks
from slipstick.experiments.scoreboards.programs.vision_rows import FILE as NETWORKS
from slipstick.experiments.scoreboards.programs.vision_rows import read_rows
from slipstick.experiments.scoreboards.whatif.kernel_pairs import KernelRows, attention, products, single_precision
from slipstick.experiments.scoreboards.whatif.lengths import longer
from slipstick.experiments.scoreboards.whatif.machine_pairs import changes, difference
from slipstick.experiments.scoreboards.whatif.ratios import ALIKE, Ratios, together
from slipstick.experiments.scoring.asked import Fits, unseen
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Score, Scored, progress
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.studies.sweep import task
from slipstick.hwmodels.catalog import aliases, machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.importers.traces.kineto_graph import read_trace_graph

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
    axes: FrozenDict[tuple[float, ...]] = FrozenDict({f"machine.{path}": (value,) for path, value in changed.items()})
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
    known, timed = programs(folder) | programs(data.folder), runs_of(data.folder)
    image_networks = some_networks(read_rows(data.known(NETWORKS)))
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
        named = [machine_of(str(both[name].iloc[0])) for name in ("device", "device_after")]
        here, there = map(machine, named)
        pairs = []
        some = both.iloc[:: max(1, len(both) // PROGRAMS)]
        ratios = (some["mean_s_after"] / some["mean_s"]).to_numpy(dtype=float)
        for source, ratio in zip(some["source"].tolist(), ratios, strict=True):
            program = known[str(source)]
            if not program.unread and program.operations:
                pairs.append((program.workload, float(ratio)))
        note = f"hosts {before} and {after}" + (", mostly bound by the host" if cohort == "v0" else "")
        seen = [run for run in timed if run.source in known and run.machine not in ("", named[1])]
        fitted_programs = ProgramTimes(seen, known, image_networks).fit()
        fits = Fits(replace(unseen([there], [here]), programs=Same(fitted_programs)))
        result.append(
            _ratios(f"PyTorch programs ({cohort}), {before} -> {after}", here, there, pairs, note, fits, noise)
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
    fits: Fits | None = None,
    noise: float = ALIKE,
) -> Ratios | None:
    """Answers to all of the pairs (workload, measured ratio); `fits` answer in place of what ships."""
    answers, measured = [], []
    for graph, ratio in pairs:
        try:
            answers.append(answered(question(graph, here, calibration=fits), there))
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


LATENCIES = "dlbricks/end_to_end.csv"


@dataclass(frozen=True)
class CloudNetwork:
    """A network's layers, and its latency [s] by machine."""

    workload: Workload
    seconds: dict[str, float]


def networks(data: Data) -> list[CloudNetwork]:
    """Networks with layers and latencies: their convolutions, norms and elementwise layers, nearly all of the time."""
    layers, latencies = layer_frame(data.known(FILE)), csv_frame(data.judged(LATENCIES))
    names = {word: name for name, words in aliases().items() for word in words}
    by_model = {str(model): part for model, part in latencies.groupby("model")}
    result = []
    for model, part in layers.groupby("model_name"):
        rows = by_model.get(str(model))
        operations = _operations(part)
        if rows is None or not any(op.kind == "convolution" for op in operations):
            continue
        known = rows[rows["instance"].isin(list(names))]
        instances, times = known["instance"].tolist(), known["trimmed_mean_us"].to_numpy(dtype=float) * 1e-6
        seconds = {names[str(one)]: float(time) for one, time in zip(instances, times, strict=True)}
        result.append(CloudNetwork(Workload(str(model), tuple(operations)), seconds))
    return result


def _operations(frame: pd.DataFrame) -> list[Op]:
    kinds = {word: kind for kind, word in KINDS.items()}
    operations: list[Op] = []
    for row in frame[frame["kind"].isin(list(kinds))].to_dict("records"):
        kind, name = kinds[str(row["kind"])], f"{len(operations)}.{row['kind']}"
        dims, facts = _dims(kind, row)
        operations.append(operation(name, kind, dims, "float32", facts))
    return operations


def _dims(kind: str, row: dict[Any, Any]) -> tuple[dict[str, Amount], dict[str, Any]]:
    outputs = int(row["outputs"])
    if kind == "norm":
        return {"elements": outputs, "groups": int(row["output_channel"])}, {}
    if kind == "elementwise":
        return {"elements": outputs, "reads": outputs, "writes": outputs}, {}
    dims: dict[str, Amount] = {f"{part}_depth": 1 for part in ("in", "out", "kernel")}
    dims |= {ours: int(row[theirs]) for ours, theirs in CONVOLUTION.items()}
    stride = int(row["stride_1"])
    return {**dims, "batch": 1}, {"stride": (stride, stride)}


TWINS = (
    ("h100-sxm", "h200-sxm"),
    ("h200-sxm", "h100-sxm"),
    ("h100-pcie", "h100-sxm"),
    ("a100-pcie-40gb", "a100-pcie-80gb"),
)
"""Machines of one chip of which serving stacks and NeuSight timed the same kernels."""
ALL = "all pairs, each case alike"
NONE, FOUR = "resnet50_num_workers_0", "resnet50_num_workers_4"


def _kernels(data: Data) -> list[Ratios]:
    """KernelRows of an H100 and an H200, and of the A100's two memories."""
    folder = data.scored or data.folder
    classes: Iterable[KernelRows] = [
        *products(folder, ("bfloat16", "float8", "float8_block")),
        *attention(folder),
        *single_precision(folder),
    ]
    made = [one.pair(before, after) for one in classes for before, after in TWINS]
    if not (known := [one for one in made if one is not None]):
        raise MissingError(f"no kernels of two such machines in {folder}")
    return known


def _limits(data: Data) -> list[Ratios]:
    """Epochs of training under a power limit, each device from the others; the run without it is known."""
    known, tested = (limited_runs(csv_frame(path)) for path in (data.known(LIMITS), data.judged(LIMITS)))
    result = []
    for device in sorted(tested.gpu.unique()):
        mine, others = tested[(tested.gpu == device) & tested.rated_w.notna()], known[known.gpu != device]
        if mine.empty or others.empty:
            continue
        law = fitted(others)
        mean, limit, rated = mine.mean_power_w_free, mine.power_limit_w, mine.rated_w
        ours = np.asarray(law.ratios(mean, limit, rated)[0], dtype=float)
        half = quantile(DEFAULT_LEVEL, None) * np.asarray(law.spreads(mean, limit)[0], dtype=float)
        differs = f"machine.power.cap {rated.iloc[0]:g} W -> {limit.min():g} .. {limit.max():g} W"
        measured = np.asarray(mine.epoch_s / mine.epoch_s_free, dtype=float)
        half = half * np.ones(len(ours))
        free = others[others.power_limit_w >= others.mean_power_w_free]
        noise = float(np.std(np.log(free.epoch_s / free.epoch_s_free)))
        case, note = (
            f"power limit, {device}",
            f"a direction is more than {noise:.1%}, runs that no limit touches elsewhere",
        )
        result.append(Ratios(case, device, differs, measured, ours, half, 0.0, {}, note, noise))
    return result


def _workers(data: Data) -> list[Ratios]:
    """A training step whose images are loaded in the loop, from there to four loading processes."""
    files = sorted(((data.scored or data.folder) / "traces").rglob("*.json*"))
    graphs = {path: read_trace_graph(path) for path in files if NONE in path.name or FOUR in path.name}
    after = [float(np.median(graph.measured_steps)) for path, graph in graphs.items() if FOUR in path.name]
    if not after:
        raise MissingError("no traces with num_workers 0 and 4")
    result = []
    for path, graph in graphs.items():
        if NONE not in path.name:
            continue
        answer, today = trace_whatif(graph, TraceChange(workers=4)), float(np.median(graph.measured_steps))
        half = np.array([0.5 * np.log(answer.high / answer.low)])
        ours, measured = (np.array([seconds / today]) for seconds in (answer.after.step, float(np.median(after))))
        result.append(
            Ratios(f"loading workers, {path.name[:60]}", FOUR, "run.workers 0 -> 4", measured, ours, half, 0.0)
        )
    return result


@cache
def _made(name: str, data: Data) -> tuple[Ratios, ...]:
    """The ratios of a part; kept, since they are scored one by one and together."""
    return tuple(PARTS[name](data))


def _rows(name: str) -> Score:
    def scored(data: Data) -> Iterator[Scored | ValidationRow]:
        if not (made := _made(name, data)):
            raise MissingError(f"no two rows that differ in one part in {data.scored or data.folder}")
        yield from (one.scored() for one in made)
        yield from together(f"all {name}, each case alike", made).judged(name)

    return scored


def _together(data: Data) -> Iterator[Scored | ValidationRow]:
    """All cases as one."""
    known: list[Ratios] = []
    for name in PARTS:
        try:
            known += _made(name, data)
        except InputError:  # the part has a skipped row of its own
            continue
    if known:
        yield from together(ALL, known).judged("all pairs")


PARTS: dict[str, Callable[[Data], list[Ratios]]] = {
    "kernels": _kernels,
    "programs": compared_programs,
    "power limits": _limits,
    "cloud instances": cloud,
    "loading workers": _workers,
    "lengths": longer,
}
BOARD = Board(
    "How much faster or slower does it get when one part of the machine, the run or the workload changes?",
    {**{name: _rows(name) for name in PARTS}, "all pairs": _together},
    (
        Front(
            "How much faster with another memory, limit or instance?",
            "the second machine",
            ALL,
            "the second of each pair",
        ),
    ),
)
