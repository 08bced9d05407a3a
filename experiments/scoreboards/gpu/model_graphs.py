"""Graphs that stand beside NeuSight's whole-model labels, as operations of the boards' classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

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
