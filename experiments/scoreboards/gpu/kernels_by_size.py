"""Kernels of an MI300A over their sizes, from the nearest cache to main memory: a GPU that no fit has seen.

HIP kernels whose sizes say what they move: two vectors added, a square transposed, a square under a stencil of nine
points, a square convolved with a mask (sarchlab/mgpusim's scripts; means of 51 runs, with the launch).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slipstick.common.formatting import format_quantity
from slipstick.common.frames import csv_frame
from slipstick.common.records import FrozenDict
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import LOGARITHMIC, Data, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.unseen_answers import answers, kernel
from slipstick.hwmodels.catalog import machine_of_device
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.layers.single import convolution, elementwise

FILE = "kernels/mi300a.csv"
DATASET = "HIP kernels by size"


def kernel_of(name: str, size: str) -> Op | None:
    """The operation of a kernel at a size, a text of its file's ("4096x4096_mask5"); None where no size says it."""
    numbers = [float(text) for text in re.findall(r"\d+", size)]
    if name == "vectoradd":
        return elementwise("add", numbers[0], inputs=2)
    if name == "matrixtranspose":
        return operation("transpose", "move", {"reads": numbers[0] ** 2, "writes": numbers[0] ** 2}, "float32")
    if name == "stencil2d":
        points = elementwise("stencil", numbers[0] * numbers[1])
        sides = {"y": numbers[0], "x": numbers[1]}
        return replace(points, dims=FrozenDict({**points.dims, **sides}), attributes=FrozenDict({"loop": "2d-9pt"}))
    if name == "simpleconvolution":
        mask = int(numbers[2])
        return convolution("convolution", 1, 1, 1, (mask, mask), (numbers[0], numbers[1]))
    return None


def kernels_by_size(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each kernel over its sizes; the noise is how far the fastest of the runs is off their mean."""
    frame = csv_frame(data.judged(FILE))
    for (device, name), rows in frame[frame.suspicious.isna()].groupby(["device", "kernel"]):
        gpu = machine_of_device(str(device))
        ops = [op for size in rows.problem_size if (op := kernel_of(str(name), str(size)))]
        if gpu is None or not ops:
            why = "the catalogue lacks the device" if gpu is None else "its sizes do not say what it computes"
            yield skipped(DATASET, f"{name} on {device}: {why}")
            continue
        ours = answers([(kernel(op), gpu) for op in ops])
        mean, least = (rows[column].to_numpy(dtype=float) for column in ("mean_s", "min_s"))
        yield Scored(
            f"{name} on {device}",
            gpu.name,
            mean,
            ours.seconds,
            LOGARITHMIC,
            baselines={RULE: ours.rule, "the middle size's time": np.full(len(mean), np.median(mean))},
            low=ours.low,
            high=ours.high,
            noise=[metric(least, mean) for metric in LOGARITHMIC],
            reason=f"{len(mean)} sizes, bytes from {_span(ops)}; no fit has seen the device",
            dataset=DATASET,
            groups=str(name),
        )


def _span(ops: Sequence[Op]) -> str:
    moved = [float(op.cost["read"]) + float(op.cost["written"]) for op in ops]
    return f"{format_quantity(min(moved), 'byte')} to {format_quantity(max(moved), 'byte')}"
