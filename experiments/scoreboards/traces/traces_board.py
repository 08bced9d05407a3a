"""Scoreboard: traces replayed, and the training loop fed by workers predicted from the one that loads by itself.

Kernels moved between vendors: public timings of one operation on both machines, beside no change at all.

What a trace's kernels are moved by (`estimators.operation.gpu.kernels`) is scored on operations that AMD's and NVIDIA's
machines both ran. How far small changes are doubted is chosen again for each pair, from pairs without its machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.gpu.kernels.traced_kernels import KernelScaling, between_vendors, doubted
from slipstick.estimators.schedules.trace_replay import replay
from slipstick.experiments.replay.trace_whatif import TraceChange, trace_whatif
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoring.score import Board, Data, MissingError
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine, machine_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.importers.traces.activity import DEVICE
from slipstick.workloads.importers.traces.chrome_trace import read_events
from slipstick.workloads.importers.traces.kernel_shapes import read_kernel_operations
from slipstick.workloads.importers.traces.kineto_graph import read_trace_graph
from slipstick.workloads.importers.traces.trace_graph import TraceGraph

if TYPE_CHECKING:
    import pandas as pd


WIDENINGS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
LEAST, SAMPLE, FEWEST = 20e-6, 40, 20
"""Seconds from which a kernel counts; kernels of a pair of machines; fewer are no pair."""
NOISE = 0.01
"""Log error by which a pair must be worse than by no change to count as worse."""
NEAR = 0.4
"""Log of the factor of all kernels together up to which two machines count as near each other."""


def moved_kernels(folder: Path) -> list[ValidationRow]:
    """Rows over pairs of machines of two vendors, both machines left out of the choice; none without the timings."""
    table = _moves(folder)
    if not len(table):
        return []
    pairs = _errors(table)
    chosen = np.array([_choice(pairs, one, other) for _, one, other in pairs.index])
    ours = np.array([row[doubt] for (_, row), doubt in zip(pairs.iterrows(), chosen, strict=True)])
    none, whole, set_ = (pairs[name].to_numpy() for name in ("none", 0.0, KernelScaling().vendor_doubt))
    steps, near = _steps(table)
    choices = f"chosen on the others: {', '.join(f'{doubt:g} x {int((chosen == doubt).sum())}' for doubt in WIDENINGS)}"
    return [
        _row("mean |log error| of a kernel", len(pairs), float(ours.mean()), none.mean(), whole.mean(), choices),
        _row(
            "pairs worse than by no change",
            len(pairs),
            float(np.sum(ours > none + NOISE)),
            0.0,
            float(np.sum(whole > none + NOISE)),
            f"with the shipped {KernelScaling().vendor_doubt:g}: {int(np.sum(set_ > none + NOISE))}, "
            f"the worst by {float(np.max(set_ - none)):+.3f}",
        ),
        _row(
            f"mean |log error| of all kernels together, machines within {np.exp(NEAR):.1f} x",
            near,
            steps["ours"],
            steps["none"],
            steps["whole"],
            "with the shipped value",
        ),
    ]


def _row(metric: str, n: int, ours: float, none: float, whole: float, reason: str) -> ValidationRow:
    return ValidationRow(
        dataset="traces",
        case="kernels moved between vendors",
        held_out="both machines of a pair",
        n=n,
        metric=metric,
        unit="1",
        ours=ours,
        baselines={"no change": float(none), "whole factor": float(whole)},
        goal=float(none),
        ok=bool(ours <= float(none)) if "pairs" not in metric else None,
        reason=reason,
    )


def _moves(folder: Path) -> pd.DataFrame:
    """Columns kind, here, there, time [s], measured and moved (logs of the factor, whole)."""
    import pandas as pd

    parts = []
    for kind, dims, name, frame in _timings(folder):
        if frame.empty:
            continue
        facts = [fact for fact in ("OPName", "layout") if fact in frame]
        wide = frame.pivot_table(index=[*dims, *facts], columns="machine", values="time", aggfunc="median")
        for here, there in permutations([one for one in wide.columns if one], 2):
            today, other = machine(here), machine(there)
            if not between_vendors(today, other) or "xeon" in here + there:
                continue
            both = wide[[here, there]].dropna()
            both = both[both[here] > LEAST]
            if len(both) < FEWEST:
                continue
            both = both.sample(min(len(both), SAMPLE), random_state=0)
            sizes = [dict(zip(dims, map(float, row), strict=False)) for row in both.index]
            ops = [operation("kernel", kind, size, "float32") for size in sizes]
            scaling = KernelScaling(fixed=0.0, vendor_doubt=0.0)
            factors = scaling.ratios([name] * len(ops), both[here].to_numpy(), today, other, ops)
            columns = {"kind": name, "here": here, "there": there, "time": both[here].to_numpy()}
            measured = np.log(both[there].to_numpy() / both[here].to_numpy())
            parts.append(pd.DataFrame({**columns, "measured": measured, "moved": np.log(factors)}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _timings(folder: Path) -> Iterator[tuple[str, tuple[str, ...], str, pd.DataFrame]]:
    """Kind of operation, its sizes, a kernel's name, and timings in float32."""
    for name in ("linear", "bmm"):
        yield "gemm", gpu_data.GEMM_DIMS, f"sgemm_{name}", gpu_data.neusight_products(folder, name)
    yield "gemm", gpu_data.GEMM_DIMS, "sgemm_deepbench", gpu_data.deepbench_products(folder)
    yield "norm", ("elements", "groups"), "layer_norm", gpu_data.neusight_rows(folder, "ln")


def _errors(table: pd.DataFrame) -> pd.DataFrame:
    """Mean |log error| by kind and pair of machines (both ways together), a column for each doubt and for no change."""
    import pandas as pd

    measured, moved = table["measured"].to_numpy(float), table["moved"].to_numpy(float)
    misses: dict[float | str, FloatArray] = {"none": np.abs(measured)}
    misses |= {doubt: np.abs(doubted(moved, doubt) - measured) for doubt in WIDENINGS}
    ends = [sorted(pair) for pair in zip(table["here"], table["there"], strict=True)]
    frame = pd.DataFrame(misses).assign(
        kind=table["kind"].to_numpy(), one=[end[0] for end in ends], other=[end[1] for end in ends]
    )
    return frame.groupby(["kind", "one", "other"]).mean()


def _choice(pairs: pd.DataFrame, one: str, other: str) -> float:
    """The least doubt by which no pair without these machines is worse than by no change; the largest where none is."""
    members = [{first, second} & {one, other} for _, first, second in pairs.index]
    rest = pairs[[not shared for shared in members]]
    return next((doubt for doubt in WIDENINGS if (rest[doubt] - rest["none"]).max() <= NOISE), WIDENINGS[-1])


def _steps(table: pd.DataFrame) -> tuple[dict[str, float], int]:
    """Mean |log error| of all kernels of a pair of machines near each other together, and the number of such pairs."""
    doubt = KernelScaling().vendor_doubt
    measured, moved, time = (table[name].to_numpy(float) for name in ("measured", "moved", "time"))
    factors = {"measured": measured, "whole": moved, "ours": doubted(moved, doubt), "none": np.zeros(len(table))}
    seconds = {name: time * np.exp(log) for name, log in factors.items()}
    sums = table[["here", "there"]].assign(**seconds).groupby(["here", "there"]).sum().apply(np.log)
    near = sums[(sums["none"] - sums["measured"]).abs() < NEAR]
    return {name: float((near[name] - near["measured"]).abs().mean()) for name in ("ours", "none", "whole")}, len(near)


PAIR_GOAL = 15.0
SAME = {("trace_diff_test", "trace_diff_control"): "HTA trace_diff"}
"""Files of one model on two machines whose names do not say so."""
LOOKED_AT = (
    "the share that products rounded to tfloat32 reach, and the waits between streams, were set looking at this pair; "
    "its two programs differ: on the V100 each step makes 774 copies within the device, on the A100 three"
)
NONE, FOUR = "resnet50_num_workers_0", "resnet50_num_workers_4"


def _traces(data: Data) -> list[ValidationRow]:
    """Replay of every trace below traces/, then the what-if on the number of workers where both sides are there."""
    folder = data.scored or data.folder
    files = sorted(p for p in (folder / "traces").rglob("*.json*") if "chakra" not in p.name)
    if not files:
        raise MissingError("no traces/*/*.json.gz (set SLIPSTICK_DATA; `slipstick data list` says where to get them)")
    scores: list[ValidationRow] = []
    graphs: dict[Path, TraceGraph] = {}
    for path in files:
        try:
            graphs[path] = read_trace_graph(path)
        except InputError as error:
            scores.append(skipped("traces", str(error).replace(str(path), path.name)))
            continue
        scores += _replayed(path, graphs[path])
    return [*scores, *_workers(graphs), *_pairs(graphs)]


def _replayed(path: Path, graph: TraceGraph) -> list[ValidationRow]:
    again = replay(graph)
    error = 100 * float(np.max(np.abs(np.asarray(again.steps) / graph.measured_steps - 1)))
    marked = graph.step_names != ("whole trace",)
    busy = 100 * abs(again.busy - _busy(path, graph)) if marked else 0.0
    device = sum(node.service for node in graph.nodes if node.kind == "kernel")
    ours = ValidationRow(
        dataset="traces",
        case=f"replay, {path.name}",
        held_out="",
        n=len(graph.steps),
        metric="largest |step / measured - 1|",
        unit="%",
        ours=error,
        baselines={"sum of kernels": 100 * abs(1 - device / float(sum(graph.measured_steps)))},
        goal=1.0,
        ok=error <= 1.0,
        reason="delays that no launch, stream or wait explains are kept: a check of the graph, not a prediction",
    )
    if not marked:
        return [ours]
    return [
        ours,
        replace(ours, metric="busy share off by", unit="points", ours=busy, baselines={}, goal=2.0, ok=busy <= 2.0),
    ]


def _busy(path: Path, graph: TraceGraph) -> float:
    """The share of the steps' span in which any device operation runs, straight from the events."""
    table = read_events(path)
    kinds = [name.lower() in DEVICE for name in table.categories]
    device = np.flatnonzero(np.asarray(kinds)[table.category])
    marks = [
        (table.start[i], table.start[i] + table.duration[i])
        for i in range(len(table))
        if table.names[table.name[i]] in graph.step_names and "gpu" not in table.categories[table.category[i]]
    ]
    begin, end = min(mark[0] for mark in marks), max(mark[1] for mark in marks)
    order = device[np.argsort(table.start[device])]
    covered, reach = 0.0, begin
    for i in order:
        start, stop = max(float(table.start[i]), reach), min(float(table.start[i] + table.duration[i]), end)
        if stop > start:
            covered += stop - start
        reach = max(reach, stop)
    return float(covered / (end - begin))


def _workers(graphs: dict[Path, TraceGraph]) -> list[ValidationRow]:
    """From loading in the loop to four workers; the naive answer subtracts the loading time."""
    before = [path for path in graphs if NONE in path.name]
    after = [path for path in graphs if FOUR in path.name]
    if not before or not after:
        return [skipped("traces", "no pair of ResNet-50 traces with num_workers 0 and 4")]
    measured = float(np.median([np.median(graphs[path].measured_steps) for path in after]))
    repeat = [float(np.median(graphs[path].measured_steps)) for path in after]
    errors = []
    for path in before:
        answer = trace_whatif(graphs[path], TraceChange(workers=4))
        loading = float(np.median([node.service for node in graphs[path].nodes if node.kind == "loader"]))
        naive = float(np.median(graphs[path].measured_steps)) - loading
        error = 100 * abs(answer.after.step / measured - 1)
        errors.append(
            ValidationRow(
                dataset="traces",
                case=f"ResNet-50, 0 -> 4 workers, {path.name}",
                held_out="num_workers = 4",
                n=len(after),
                metric="|median step / measured - 1|",
                unit="%",
                ours=error,
                baselines={
                    "wait subtracted": 100 * abs(naive / measured - 1),
                    "no change": 100 * abs(answer.before.step / measured - 1),
                },
                goal=8.0,
                ok=error <= 8.0,
                interval_level=0.8,
                interval_coverage=float(answer.low <= measured <= answer.high),
                interval_width=answer.high / answer.low,
                noise_floor=100 * abs(max(repeat) / min(repeat) - 1),
                reason="two traces a side: the coverage is of one value",
            )
        )
    return errors


def _pairs(graphs: dict[Path, TraceGraph]) -> list[ValidationRow]:
    """The same model recorded on two machines: the step there from the trace here, in both directions."""
    groups: dict[str, list[Path]] = {}
    for path, graph in graphs.items():
        if _machine(path, graph) is not None:
            groups.setdefault(_model(path), []).append(path)
    ratios = []
    for paths in groups.values():
        for here in paths:
            for there in paths:
                if _machine(here, graphs[here]) != _machine(there, graphs[there]):
                    ratios.append(_moved(here, there, graphs))
    if not ratios:
        return [skipped("traces", "no model recorded on two machines")]
    errors = [row.ours or 0.0 for row in ratios]
    whole = replace(
        ratios[0],
        case=f"another machine, all {len(ratios)} moves",
        n=len(ratios),
        metric="mean |step / measured - 1|",
        ours=float(np.mean(errors)),
        ok=float(np.mean(errors)) <= PAIR_GOAL,
        baselines={name: float(np.mean([row.baselines[name] for row in ratios])) for name in ratios[0].baselines},
        interval_coverage=float(np.mean([row.interval_coverage or 0.0 for row in ratios])),
        interval_width=float(np.median([row.interval_width or 1.0 for row in ratios])),
    )
    return [*ratios, whole]


def _model(path: Path) -> str:
    """What is left of a path without the names of devices."""
    known = next((name for words, name in SAME.items() if any(word in path.name for word in words)), None)
    text = "/".join(path.parts[-3:]).lower()
    return known or re.sub(r"(nvidia|amd|instinct|h100|h200|a100|v100|mi300x?|mi2[15]0)[^a-z0-9]?", "", text)


def _machine(path: Path, graph: TraceGraph) -> Machine | None:
    """Where a trace was recorded: what it says itself, or (ROCm's profiler notes no device) its folder or file."""
    return machine_of_device(graph.device) or machine_of_device(" ".join(path.parts[-3:]))


def _moved(here: Path, there: Path, graphs: dict[Path, TraceGraph]) -> ValidationRow:
    target = _machine(there, graphs[there])
    change = TraceChange(_machine(here, graphs[here]), target)
    answer = trace_whatif(graphs[here], change, operations=read_kernel_operations(here))
    measured = replay(graphs[there]).step
    name = graphs[there].device or (target.name if target else "")
    error = 100 * abs(answer.after.step / measured - 1)
    return ValidationRow(
        dataset="traces",
        case=f"another machine, {here.name[:40]} -> {name}",
        held_out=name,
        n=1,
        metric="|step / measured - 1|",
        unit="%",
        ours=error,
        baselines={"no change": 100 * abs(answer.before.step / measured - 1)},
        goal=PAIR_GOAL,
        ok=error <= PAIR_GOAL,
        interval_level=0.8,
        interval_coverage=float(answer.low <= measured <= answer.high),
        interval_width=answer.high / answer.low,
        reason=LOOKED_AT if _model(here) in SAME.values() else "",
    )


BOARD = Board(
    "How long would a recorded training step take with other workers, or on another machine?",
    {"traces": _traces, "moved kernels": lambda data: moved_kernels(data.scored or data.folder)},
)
