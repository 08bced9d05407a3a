"""What-ifs judged: pairs of measurements between which one or few fields changed, scored as ratios of their times.

One side is measured and known, the other was in no fit: an A100 of 40 or 80 GB, H100 and H200, the two boards of the
H100, a power limit, a cloud instance with fewer cores, loading workers, a longer sequence. Beside "no change" (the
ratio is 1) and the data sheet's roofline: error of the ratio, its direction, whether the changed part bounds, and how
often the 80 % band of the ratio holds. Nothing was chosen on these pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.experiments.replay.trace_whatif import Change, trace_whatif
from slipstick.experiments.scoreboards.energy.power_limit_scores import FILE as LIMITS
from slipstick.experiments.scoreboards.energy.power_limit_scores import fitted, limited_runs
from slipstick.experiments.scoreboards.whatif.kernel_pairs import (
    KernelRows,
    attention,
    products,
    single_precision,
)
from slipstick.experiments.scoreboards.whatif.lengths import longer
from slipstick.experiments.scoreboards.whatif.paired_questions import cloud, compared_programs
from slipstick.experiments.scoreboards.whatif.ratios import Ratios, together
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Score, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.workloads.importers.traces.kineto_graph import read_trace_graph

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
        answer, today = trace_whatif(graph, Change(workers=4)), float(np.median(graph.measured_steps))
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
