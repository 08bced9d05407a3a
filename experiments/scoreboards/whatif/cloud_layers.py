"""Image networks of the DLBricks authors as graphs of their layers, with their whole latency on each instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slipstick.common.frames import csv_frame
from slipstick.experiments.scoreboards.dlbricks.layer_tables import CONVOLUTION, FILE, KINDS, layer_frame
from slipstick.experiments.scoring.score import Data
from slipstick.hwmodels.catalog import aliases
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload

if TYPE_CHECKING:
    import pandas as pd

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
