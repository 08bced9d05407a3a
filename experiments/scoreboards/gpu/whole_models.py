"""Whole models (NeuSight's 42 cases on H100, L4 and A100-80) as sums of their operations' times.

The operations of a case and how often its block repeats come from the graphs that stand beside the labels; no time of
the machine that is predicted is used. A backward pass takes its forward's time times the ratio of that class of
operation on the other machines.

The switch transformer (mixture of experts) as operations, from its published configuration.

Encoder and decoder of T5 (Raffel et al., JMLR 21, 2020) whose every second feed-forward block is a set of experts, one
a token (Fedus, Zoph, Shazeer, JMLR 23, 2022); what is executed follows `SwitchTransformersForConditionalGeneration` of
Hugging Face: no flash attention, norms of separate operations, experts one after another.

Graphs that stand beside NeuSight's whole-model labels, as operations of the boards' classes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.frames import csv_frame
from slipstick.experiments.calibrate.public_data import data_folder, scored_file, why_missing
from slipstick.experiments.scoreboards.gpu.gpu_data import machine_of
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

if TYPE_CHECKING:
    import pandas as pd


_LAYER = re.compile(r"(?:^|_)(?:h|layers?|block)_0_")
_NORM = re.compile(r"ln|norm", re.IGNORECASE)
_TABLE = re.compile(r"wte|wpe|embed", re.IGNORECASE)
_ACTIVATION = re.compile(r"activation", re.IGNORECASE)
FREE = (
    "size",
    "expand",
    "unsqueeze",
    "getitem",
    "getattr",
    "view",
    "permute",
    "transpose",
    "split",
    "full",
    "arange",
    "tensor",
    "finfo",
)
CASTS = ("to", "type", "type_as", "float")
"""They copy where the type changes; all numbers but masks and indices are float32 here, so one to float32 does not."""
SHUFFLED = ("permute", "transpose", "getitem")
"""What leaves a tensor in another order than memory's, so that `contiguous` after it copies."""


@dataclass(frozen=True)
class Node:
    """One operation of a graph: its class, dims, and how often it is done."""

    kind: str
    dims: Mapping[str, float]
    times: float


def graph(nodes: pd.DataFrame, layers: float) -> list[Node]:
    """The operations of a case; those between the first and the last node of block 0 count `layers` times."""
    inside = [i for i, name in enumerate(nodes["Name"]) if _LAYER.search(f"_{name}_")]
    first, last = (min(inside), max(inside)) if inside else (0, -1)
    operations = []
    row: Any
    before = ""
    for i, row in enumerate(nodes.itertuples()):
        node = node_of(row, layers if first <= i <= last else 1.0, before)
        before = _word(str(row.target))
        if node is not None:
            operations.append(node)
    return operations


def node_of(row: Any, times: float, before: str = "transpose") -> Node | None:
    """The operation of one line of a graph, done a number of `times`; None where nothing is done.

    `before`: what the line before it does.
    """
    target = _word(str(row.target))
    result = _shape(row.output_shape)
    inputs = [s for s in _shapes(row.input_shapes) if s != (1,)]
    if row.op in ("placeholder", "output", "get_attr") or target in FREE or len(result) < 2:
        return None
    if (target in CASTS and "float32" in str(row.dtype)) or (target == "contiguous" and before not in SHUFFLED):
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


@dataclass(frozen=True)
class SwitchConfiguration:
    """Sizes by the names of the published configuration; `layers` of encoder and of decoder each."""

    d_model: int
    d_ff: int
    d_kv: int
    heads: int
    layers: int
    experts: int = 4
    capacity: int = 64
    sparse_step: int = 2
    vocabulary: int = 32128


MODELS = {
    "switch4": SwitchConfiguration(768, 3072, 64, 12, 12),
    "switchxl4": SwitchConfiguration(1024, 16384, 128, 32, 24),
}
"""NeuSight's names: google/switch-base and google/switch-xxl's shape at 24 layers, with four experts."""
NORM_OPERATIONS = 4
"""Passes over the tokens in a root-mean-square norm of separate operations: square, mean, scale, weight."""
EXPERT_LAUNCHES = 12
"""Operations of one expert: its tokens' indices (3), gathering (2), two products, activation, dropout, scattering (3).
How many tokens an expert has is read from the device, so that the host cannot run ahead and hide their launches."""


def switch_transformer(model: SwitchConfiguration, batch: int, length: int) -> list[Node]:
    """The operations of one forward pass over `batch` pairs of sequences of `length` tokens each."""
    tokens = batch * length
    nodes: list[Node] = []
    for attentions in (1, 2):  # the encoder's layers attend once, the decoder's to themselves and to the encoder
        nodes += [node for _ in range(attentions) for node in _attention(model, batch, length)]
        sparse = model.layers // model.sparse_step
        nodes += _feed_forward(model, tokens, model.layers - sparse)
        # A token beyond an expert's capacity passes by; at least as many come as experts can hold, or all.
        each = min(model.capacity * batch, tokens // model.experts)
        nodes += _feed_forward(model, each, sparse * model.experts)
        nodes += _router(model, tokens, sparse)
        nodes.append(Node("waiting", {"launches": EXPERT_LAUNCHES}, sparse * model.experts))
        norms = model.layers * (attentions + 1) + 1
        nodes.append(_elementwise(tokens * model.d_model, 1, NORM_OPERATIONS * norms))
    nodes.append(_linear(model.d_model, model.vocabulary, tokens, 1))
    return nodes


def _attention(model: SwitchConfiguration, batch: int, length: int) -> list[Node]:
    inner, tokens, times = model.heads * model.d_kv, batch * length, model.layers
    scores, blocks = batch * model.heads * length**2, batch * model.heads
    return [
        _linear(model.d_model, inner, tokens, 3 * times),
        _product(blocks, length, length, model.d_kv, times),
        _elementwise(scores, 2, times),  # the bias of relative positions
        Node("softmax", {"rows": blocks * length, "columns": length}, times),
        Node("dropout", {"elements": scores, "reads": scores, "writes": scores}, times),
        _product(blocks, model.d_kv, length, length, times),
        _elementwise(tokens * inner, 1, times),  # heads side by side again
        _linear(inner, model.d_model, tokens, times),
        _elementwise(tokens * model.d_model, 2, times),
    ]


def _feed_forward(model: SwitchConfiguration, tokens: int, times: float) -> list[Node]:
    wide = tokens * model.d_ff
    return [
        _linear(model.d_model, model.d_ff, tokens, times),
        _elementwise(wide, 1, times),
        Node("dropout", {"elements": wide, "reads": wide, "writes": wide}, times),
        _linear(model.d_ff, model.d_model, tokens, times),
        _elementwise(tokens * model.d_model, 2, times),
    ]


def _router(model: SwitchConfiguration, tokens: int, times: float) -> list[Node]:
    choices = tokens * model.experts
    return [
        _linear(model.d_model, model.experts, tokens, times),
        Node("softmax", {"rows": tokens, "columns": model.experts}, times),
        _elementwise(choices, 1, 3 * times),  # the best, its mask, tokens within capacity
        _elementwise(tokens * model.d_model, 2, times * (model.experts + 1)),  # gathered, scattered, weighted
    ]


def _linear(inputs: int, outputs: int, tokens: int, times: float) -> Node:
    return Node("linear", {"batch": 1.0, "m": outputs, "n": tokens, "k": inputs}, times)


def _product(batch: int, m: int, n: int, k: int, times: float) -> Node:
    return Node("bmm", {"batch": batch, "m": m, "n": n, "k": k}, times)


def _elementwise(elements: int, inputs: int, times: float) -> Node:
    return Node("elementwise", {"elements": elements, "reads": inputs * elements, "writes": elements}, times)


FOLDER = "gpu/neusight"
TARGETS = ("h100-sxm", "l4", "a100-pcie-80gb")
HOST = 9e-6
"""Seconds that a node takes in the labels when no kernel runs: it hides behind the device's work."""


def predicted(
    nodes: Sequence[Node], name: str, boards: Mapping[str, OperationBoard], left_out: Sequence[str]
) -> dict[str, float]:
    """Seconds by class of operation. What a launch costs alone hides behind other kernels; the device's share stays."""
    import pandas as pd

    total: dict[str, float] = {}
    for kind in {node.kind for node in nodes} - {"waiting"}:
        mine = [node for node in nodes if node.kind == kind]
        board = boards["elementwise" if kind == "dropout" else kind]
        frame = pd.DataFrame([node.dims for node in mine])
        time = board.predict(name, frame, left_out).time
        waiting = board.overhead(name, left_out)
        total[kind] = float(
            np.sum(np.maximum(time - waiting, _on(name).runtime.launch_overhead) * [node.times for node in mine])
        )
    total["waiting"] = HOST * sum(node.times * node.dims["launches"] for node in nodes if node.kind == "waiting")
    return total


def accumulations(nodes: Sequence[Node]) -> list[Node]:
    """What training adds: each weight's gradient is added to what is there."""
    weights = [(node.dims["m"] * node.dims["k"], node.times) for node in nodes if node.kind == "linear"]
    return [Node("elementwise", {"elements": w, "reads": 2 * w, "writes": w}, times) for w, times in weights]


def rows(scored: Path | None, boards: Mapping[str, OperationBoard]) -> list[ValidationRow]:
    """MAPE over the cases, and the worst; cases without a graph are named."""

    folder, title = data_folder(), "neusight whole models"
    labels_path = scored_file(f"{FOLDER}/e2e_labels.csv", scored)
    if folder is None or labels_path is None:
        return [skipped(title, why_missing(f"{FOLDER}/e2e_labels.csv", scored))]
    labels = csv_frame(labels_path)
    labels["machine"] = [machine_of(device) for device in labels["device"]]
    nodes = csv_frame(folder / FOLDER / "per_node_labels.csv.gz")
    nodes["machine"] = [machine_of(device) for device in nodes["device"].str.replace("_", " ")]
    stored = csv_frame(folder / FOLDER / "e2e_predictions.csv").pivot_table(
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
    others = csv_frame(folder / FOLDER / "e2e_labels.csv")
    others["machine"] = [machine_of(device) for device in others["device"]]
    sums = excess(others, nodes, boards)
    missed = {name: float(np.median([v for m, v in sums if m != name] or [0.0])) for name in ratios}
    ours, measured, plain, neusight, missing, names = [], [], [], [], [], []
    row: Any
    for row in labels.itertuples():
        work = _operations(row, nodes) if row.machine else None
        if work is None:
            missing.append(f"{row.machine or row.device} {row.case}")
            continue
        left_out = (row.machine,) if scored is None else ()
        predicted = seconds(row, work, boards, left_out, ratios[row.machine])
        ours.append(predicted * np.exp(missed[row.machine]))
        measured.append(row.e2e_latency * 1e-3)
        known = stored.loc[(row.device, row.case)] if (row.device, row.case) in stored.index else {}
        plain.append(known.get("roofline", np.nan) * 1e-3)
        neusight.append(known.get("neusight", np.nan) * 1e-3)
        names.append(f"{row.machine} {row.case}")
    if not ours:
        return [skipped(title, "no case with a graph")]
    numbers = np.array([ours, measured, plain, neusight], dtype=float)
    return _scores(title, names, numbers, missing)


def seconds(
    row: Any,
    work: Sequence[Node],
    boards: Mapping[str, OperationBoard],
    left_out: Sequence[str],
    backward: Mapping[str, float],
) -> float:
    """The sum over a case's operations; training adds the backward pass and the accumulation of gradients."""
    parts = predicted(work, row.machine, boards, left_out)
    if "-train-" not in str(row.case):
        parts.pop("dropout", None)
        return sum(parts.values())
    total = sum(time * (1 + backward.get(kind, 0.0)) for kind, time in parts.items())
    return total + predicted(accumulations(work), row.machine, boards, left_out)["elementwise"]


def excess(labels: pd.DataFrame, nodes: pd.DataFrame, boards: Mapping[str, OperationBoard]) -> list[tuple[str, float]]:
    """By machine and forward pass: log of what a model takes over the sum of its operations on that measured machine.

    Operations that are timed one by one find their inputs in caches and a chip at rest.
    """
    measured = [
        machine for machine in labels["machine"].unique() if machine and all(b.fitted(machine) for b in boards.values())
    ]
    ratios = []
    row: Any
    for row in labels[labels["machine"].isin(measured)].itertuples():
        plain = len(str(row.case).split("-")) == 4 and "-inf-" in str(row.case)
        work = _operations(row, nodes) if plain else None
        if work is not None:
            ratios.append((row.machine, float(np.log(row.e2e_latency * 1e-3 / seconds(row, work, boards, (), {})))))
    return ratios


def _operations(row: Any, nodes: pd.DataFrame) -> list[Node] | None:
    """What a case does: its graph, or the published configuration of a model without one; None where neither is."""
    model, *rest = str(row.case).split("-")
    if model in MODELS and len(rest) == 3:
        return switch_transformer(MODELS[model], int(rest[2]), int(rest[1]))
    graphs = nodes[nodes["case"] == row.case]
    if graphs.empty or not np.isfinite(row.num_layer):
        return None
    return graph(graphs[graphs["device"] == graphs["device"].iloc[0]], row.num_layer)


def _scores(title: str, names: Sequence[str], numbers: Any, missing: Sequence[str]) -> list[ValidationRow]:
    ours, measured, plain, neusight = numbers
    error = np.abs(ours / measured - 1)
    apart = {"roofline (stored)": np.abs(plain / measured - 1), "NeuSight (stored)": np.abs(neusight / measured - 1)}
    worst = int(np.argmax(error))
    note = f"no graph for {', '.join(missing)}" if missing else ""
    rows = [
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
        over_machines = _over({name: errors[chosen] for name, errors in apart.items()}, np.mean)
        rows.append(
            ValidationRow(
                title, machine, machine, int(chosen.sum()), "MAPE", "1", float(error[chosen].mean()), over_machines
            )
        )
    return rows


def _over(errors: Mapping[str, Any], rule: Callable[[Any], Any]) -> dict[str, float]:
    """A rule over the finite errors of each baseline; those without any are left out."""
    known = {name: values[np.isfinite(values)] for name, values in errors.items()}
    return {name: float(rule(values)) for name, values in known.items() if len(values)}


def backward_ratios(nodes: pd.DataFrame) -> dict[str, float]:
    """Ratio of backward to forward time by class of operation, on the machines of these labels."""
    training = nodes[nodes["case"].str.contains("-train-") & (nodes["fw_latency"] > 2 * HOST * 1e3)]
    sums: dict[str, list[float]] = {}
    row: Any
    for row in training.itertuples():
        node = node_of(row, 1.0)
        if node is not None:
            both = sums.setdefault(node.kind, [0.0, 0.0])
            both[0] += row.fw_latency - HOST * 1e3
            both[1] += row.bw_latency
    return {kind: back / forward for kind, (forward, back) in sums.items()}


def _on(name: str) -> Any:
    from slipstick.hwmodels.catalog import machine

    return machine(name)
