"""Whole models (NeuSight's 42 cases on H100, L4 and A100-80) as sums of their operations' times.

The operations of a case and how often its block repeats come from the graphs that stand beside the labels; no time of
the machine that is predicted is used. A backward pass takes its forward's time times the ratio of that class of
operation on the other machines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.rows import ValidationRow, skipped
from experiments.validation.data import data_folder, scored_file, why_missing
from experiments.validation.gpu_data import machine_of
from experiments.validation.gpu_transfer import Transfer

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "gpu/neusight"
TARGETS = ("h100-sxm", "l4", "a100-pcie-80gb")
HOST = 9e-6
"""Seconds that a node takes in the labels when no kernel runs: it hides behind the device's work."""
_LAYER = re.compile(r"(?:^|_)(?:h|layers?|block)_0_")
_NORM = re.compile(r"ln|norm", re.IGNORECASE)
_TABLE = re.compile(r"wte|wpe|embed", re.IGNORECASE)
_ACTIVATION = re.compile(r"activation", re.IGNORECASE)
FREE = ("size", "getitem", "getattr", "view", "permute", "transpose", "split", "full", "arange", "tensor", "finfo")
MOVES = (
    "contiguous",
    "reshape",
    "to",
    "bool",
    "masked_fill",
    "masked_fill_",
    "where",
    "max",
    "max_1",
    "long",
    "lt",
    "sub",
)


@dataclass(frozen=True)
class Node:
    """One operation of a graph: its class, dims, and how often it is done."""

    kind: str
    dims: Mapping[str, float]
    times: float


def graph(nodes: pd.DataFrame, layers: float) -> list[Node]:
    """The operations of a case; those between the first and the last node of block 0 are done once a layer."""
    inside = [i for i, name in enumerate(nodes["Name"]) if _LAYER.search(f"_{name}_")]
    first, last = (min(inside), max(inside)) if inside else (0, -1)
    found = []
    row: Any
    for i, row in enumerate(nodes.itertuples()):
        node = _node(row, layers if first <= i <= last else 1.0)
        if node is not None:
            found.append(node)
    return found


def _node(row: Any, times: float) -> Node | None:
    target = _word(str(row.target))
    result = _shape(row.output_shape)
    inputs = [s for s in _shapes(row.input_shapes) if s != (1,)]
    if row.op in ("placeholder", "output", "get_attr") or target in FREE or len(result) < 2:
        return None
    elements = float(np.prod(result))
    if target in ("addmm", "matmul", "bmm") or (
        row.op == "call_module" and _is_linear(str(row.target), inputs, result)
    ):
        if target in ("matmul", "bmm") and len(inputs) == 2 and len(inputs[1]) > 2:
            batch = float(np.prod(result[:-2]))
            dims = {"batch": batch, "m": result[-1], "n": result[-2], "k": inputs[0][-1]}
            return Node("bmm", dims, times)
        last = inputs[-2] if target == "addmm" else inputs[0]
        return Node("linear", {"batch": 1.0, "m": result[-1], "n": elements / result[-1], "k": last[-1]}, times)
    if target == "softmax":
        return Node("softmax", {"rows": elements / result[-1], "columns": result[-1]}, times)
    if row.op == "call_module" and _NORM.search(str(row.target).split(".")[-1]):
        return Node("norm", {"elements": elements, "groups": elements / result[-1]}, times)
    if "drop" in str(row.target):
        return Node("dropout", {"elements": elements, "reads": elements, "writes": elements}, times)
    reads = sum(float(np.prod(s)) for s in inputs) if inputs else elements
    if row.op == "call_module" and _TABLE.search(str(row.target)):
        reads = elements
    return Node("elementwise", {"elements": elements, "reads": max(reads, elements), "writes": elements}, times)


def _is_linear(name: str, inputs: Sequence[tuple[int, ...]], result: tuple[int, ...]) -> bool:
    last = name.split(".")[-1]
    if _NORM.search(last) or _TABLE.search(last) or _ACTIVATION.search(last) or "drop" in last:
        return False
    return bool(inputs) and len(inputs[0]) >= 2


def _word(target: str) -> str:
    match = re.match(r"<(?:built-in )?(?:method|function|class) '?([\w.]+)", target)
    return match[1].split(".")[-1] if match else target.split(".")[-1]


def _shape(text: Any) -> tuple[int, ...]:
    value = ast.literal_eval(text) if isinstance(text, str) else ()
    return tuple(int(v) for v in value) if isinstance(value, (tuple, list)) else (int(value),)


def _shapes(text: Any) -> list[tuple[int, ...]]:
    value = ast.literal_eval(text) if isinstance(text, str) else []
    return [tuple(int(v) for v in shape) for shape in value if isinstance(shape, (tuple, list))]


def predicted(
    nodes: Sequence[Node], name: str, boards: Mapping[str, Transfer], left_out: Sequence[str]
) -> dict[str, float]:
    """Seconds by class of operation. What a launch costs alone hides behind other kernels; the device's share stays."""
    import pandas as pd

    total: dict[str, float] = {}
    for kind in {node.kind for node in nodes}:
        mine = [node for node in nodes if node.kind == kind]
        board = boards["elementwise" if kind == "dropout" else kind]
        frame = pd.DataFrame([node.dims for node in mine])
        time = board.predict(name, frame, left_out).time
        waiting = board.parameters(name, left_out)["overhead"]
        total[kind] = float(
            np.sum(np.maximum(time - waiting, _on(name).runtime.launch_overhead) * [node.times for node in mine])
        )
    return total


def rows(scored: Path | None, boards: Mapping[str, Transfer]) -> list[ValidationRow]:
    """MAPE over the cases, and the worst; cases without a graph are named."""
    import pandas as pd

    folder, title = data_folder(), "neusight whole models"
    labels_path = scored_file(f"{FOLDER}/e2e_labels.csv", scored)
    if folder is None or labels_path is None:
        return [skipped(title, why_missing(f"{FOLDER}/e2e_labels.csv", scored))]
    labels = pd.read_csv(labels_path)
    labels["machine"] = [machine_of(device) for device in labels["device"]]
    nodes = pd.read_csv(folder / FOLDER / "per_node_labels.csv.gz")
    nodes["machine"] = [_machine(device) for device in nodes["device"]]
    stored = pd.read_csv(folder / FOLDER / "e2e_predictions.csv").pivot_table(
        index=["device", "case"], columns="predictor", values="e2e_latency"
    )
    if scored is None:
        labels = labels[labels["machine"].isin(TARGETS)]
        labels = labels[
            [
                (d, c) in stored.index and stored.loc[(d, c)].get("roofline") > 0
                for d, c in zip(labels.device, labels.case, strict=True)
            ]
        ]
    ratios = {name: backward_ratios(nodes[nodes["machine"] != name]) for name in labels["machine"].unique()}
    ours, measured, plain, neusight, missing, names = [], [], [], [], [], []
    row: Any
    for row in labels.itertuples():
        graphs = nodes[nodes["case"] == row.case]
        if graphs.empty or not row.machine or not np.isfinite(row.num_layer):
            missing.append(f"{row.machine or row.device} {row.case}")
            continue
        one = graphs[graphs["device"] == graphs["device"].iloc[0]]
        parts = predicted(graph(one, row.num_layer), row.machine, boards, (row.machine,) if scored is None else ())
        training = "-train-" in str(row.case)
        factor = ratios[row.machine] if training else {}
        if not training:
            parts.pop("dropout", None)
        ours.append(sum(time * (1 + factor.get(kind, 0.0)) for kind, time in parts.items()))
        measured.append(row.e2e_latency * 1e-3)
        known = stored.loc[(row.device, row.case)] if (row.device, row.case) in stored.index else {}
        plain.append(known.get("roofline", np.nan) * 1e-3)
        neusight.append(known.get("neusight", np.nan) * 1e-3)
        names.append(f"{row.machine} {row.case}")
    if not ours:
        return [skipped(title, "no case with a graph")]
    numbers = np.array([ours, measured, plain, neusight], dtype=float)
    return _scores(title, names, numbers, missing)


def _scores(title: str, names: Sequence[str], numbers: Any, missing: Sequence[str]) -> list[ValidationRow]:
    ours, measured, plain, neusight = numbers
    error = np.abs(ours / measured - 1)
    apart = {"roofline (stored)": np.abs(plain / measured - 1), "NeuSight (stored)": np.abs(neusight / measured - 1)}
    worst = int(np.argmax(error))
    note = f"no graph for {', '.join(missing)}" if missing else ""
    found = [
        ValidationRow(
            title,
            "all cases",
            "each machine",
            len(error),
            "MAPE",
            "1",
            float(error.mean()),
            _over(apart, np.mean),
            0.06,
            bool(error.mean() <= 0.06),
            reason=note,
        ),
        ValidationRow(
            title,
            "all cases",
            "each machine",
            len(error),
            "largest error",
            "1",
            float(error.max()),
            _over(apart, np.max),
            0.20,
            bool(error.max() <= 0.20),
            reason=f"worst: {names[worst]}",
        ),
    ]
    for machine in sorted({name.split()[0] for name in names}):
        chosen = np.array([name.split()[0] == machine for name in names])
        own = _over({name: errors[chosen] for name, errors in apart.items()}, np.mean)
        found.append(
            ValidationRow(title, machine, machine, int(chosen.sum()), "MAPE", "1", float(error[chosen].mean()), own)
        )
    return found


def _over(errors: Mapping[str, Any], rule: Callable[[Any], Any]) -> dict[str, float]:
    """A rule over the finite errors of each baseline; those without any are left out."""
    known = {name: values[np.isfinite(values)] for name, values in errors.items()}
    return {name: float(rule(values)) for name, values in known.items() if len(values)}


def backward_ratios(nodes: pd.DataFrame) -> dict[str, float]:
    """By class of operation: backward (with accumulation) over forward time, on the machines of these labels."""
    training = nodes[nodes["case"].str.contains("-train-") & (nodes["fw_latency"] > 2 * HOST * 1e3)]
    sums: dict[str, list[float]] = {}
    row: Any
    for row in training.itertuples():
        node = _node(row, 1.0)
        if node is not None:
            both = sums.setdefault(node.kind, [0.0, 0.0])
            both[0] += row.fw_latency - HOST * 1e3
            both[1] += row.bw_latency + row.acc_latency
    return {kind: back / forward for kind, (forward, back) in sums.items()}


def _machine(device: str) -> str:
    return machine_of(device.replace("A100-PCIE", "A100 PCIE").replace("_", " ").replace("A100 PCIE", "A100-PCIE"))


def _on(name: str) -> Any:
    from hwmodels.catalog import machine

    return machine(name)
