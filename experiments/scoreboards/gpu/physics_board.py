"""Public measurements checked against what their machines can do: faster than the arithmetic, or than main memory.

One row a file and machine: the share of its rows that undercut a bound, with the worst example. Nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.common.errors import InputError
from slipstick.common.formatting import ratio_shown
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, Violation, violations
from slipstick.experiments.calibrate.operation_measurements import read_operation_times
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoring.score import Board, Data, MissingError
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import KINDS
from slipstick.workloads.graph.workload import Attribute

if TYPE_CHECKING:
    import pandas as pd

DATASET = "physics of public measurements"


def _files(data: Data) -> Iterator[ValidationRow]:
    """One row a file and machine, of a folder of public files or of one table of measured operations (docs/devices.md),
    whose rows all have to hold.
    """
    folder = data.scored or data.folder
    table = folder.is_file()
    forms = read_operation_times(folder) if table else [form for read in READERS for form in read(folder)]
    if not forms:
        raise MissingError(f"no GPU measurements in {folder}")

    def place(form: OperationTimes) -> tuple[str, str]:
        return form.source, form.machine.name

    for (source, name), group in groupby(sorted(forms, key=place), key=place):
        members = list(group)
        flagged = violations(members)
        count, total = len({(one.operation, row) for one in flagged for row in one.rows}), sum(map(len, members))
        goal, ok = (0.0, count == 0) if table else (None, None)
        yield ValidationRow(
            DATASET, f"{source}, {name}", "", total, "faster than physics", "1", count / total, goal=goal, ok=ok,
            reason=_reason(flagged),
        )  # fmt: skip


def neusight(folder: Path) -> list[OperationTimes]:
    """NeuSight's FP32 operations by file."""
    forms = [form for name in ("bmm", "linear") for form in _products(gpu_data.neusight_products(folder, name), name)]
    forms += _forms(gpu_data.neusight_elementwise(folder), "elementwise", "float32", "elementwise", {"function": "add"})
    for name, kind in (("softmax", "softmax"), ("ln", "norm")):
        forms += _forms(gpu_data.neusight_rows(folder, name), kind, "float32", name)
    frame = gpu_data.neusight_convolutions(folder)
    return forms + _forms(frame, "convolution", "float32", "convolution", {"stride": (1, 1)})


def aiconfigurator(folder: Path) -> list[OperationTimes]:
    """Products and attention of serving stacks, by dtype; dtypes that no machine of ours has are left out."""
    forms = []
    gemm = gpu_data.aiconfigurator(folder, "gemm")
    for (stack, dtype), part in gemm.groupby(["stack", "dtype"]) if len(gemm) else ():
        forms += _forms(part, "gemm", str(dtype), f"{stack} gemm {dtype}")
    for name, causal in (("context_attention", True), ("generation_attention", False)):
        frame = gpu_data.aiconfigurator(folder, name)
        if len(frame):
            frame = frame[frame["window"] == 0]
            for (stack, dtype, stored), part in frame.groupby(["stack", "dtype", "kv_dtype"]):
                facts: dict[str, Attribute] = {"causal": causal, "kv_dtype": str(stored)}
                forms += _forms(part, "attention", str(dtype), f"{stack} {name} {dtype}, keys {stored}", facts)
    return forms


def deepbench(folder: Path) -> list[OperationTimes]:
    """DeepBench's FP32 training products."""
    return _products(gpu_data.deepbench_products(folder), "deepbench")


def _products(frame: pd.DataFrame, source: str) -> list[OperationTimes]:
    return _forms(frame, "gemm", "float32", source)


def _forms(
    frame: pd.DataFrame, kind: str, dtype: str, source: str, attributes: Mapping[str, Attribute] | None = None
) -> list[OperationTimes]:
    return list(_readable(frame, kind, dtype, source, attributes or {})) if len(frame) else []


def _readable(
    frame: pd.DataFrame, kind: str, dtype: str, source: str, attributes: Mapping[str, Attribute]
) -> Iterator[OperationTimes]:
    for name, part in frame[frame["machine"] != ""].groupby("machine"):
        columns = {dim: part[dim].to_numpy(float) for dim in KINDS[kind].dims}
        try:
            form = OperationTimes.of(
                machine(str(name)), kind, dtype, columns, part["time"].to_numpy(), attributes, source
            )
            violations([form.some(slice(0, 1))])
        except InputError:
            continue  # a dtype that our taxonomy or the machine lacks (block-scaled formats)
        yield form


def _reason(flagged: list[Violation]) -> str:
    if not flagged:
        return ""
    worst = max(flagged, key=lambda one: one.worst)
    return f"{ratio_shown(worst.worst)} x too fast for its {worst.bound}: {worst.operation}, {worst.example}"


READERS = (neusight, aiconfigurator, deepbench)


BOARD = Board("Which measured rows are faster than their machine can be?", {DATASET: _files})
