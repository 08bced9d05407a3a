"""Bricks as a text file: what somebody else's machine needs to run them, and nothing of the models they come from.

A sheet holds each brick's operations with the shapes of its inputs and weights (no values), under its identity, in a
drawn order. Models named beside one's own put their bricks among them as decoys. The file is data: only operations of
torch's own `aten` library are looked up by name, so a stranger's sheet can be measured.
"""

from __future__ import annotations

import json
import math
import operator
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.measure.brick_modules import synthetic
from hwmodels.files import InputError, atomic_write, read_json

SCHEMA = "slipstick-brick-sheet-1"
OPERATION = re.compile(r"aten\.([a-z][a-z0-9_]*)\.([A-Za-z0-9_]+)")
REFUSED = ("from_file",)  # it opens a file
GETITEM = "getitem"
MAX_NODES = 20_000
MAX_BYTES = 8 << 30
NAMED = ("dtype", "layout", "memory_format", "device")


def save_sheet(bricks: Iterable[tuple[str, Any]], path: Path, seed: int | None = None) -> int:
    """Write (identity, module of `brick_module`) in an order that is drawn anew each time; returns how many.

    Raises
    ------
    InputError
        Where a brick holds what a sheet cannot say.
    """
    entries = [{"identity": identity, "nodes": _nodes(module)} for identity, module in bricks]
    random.Random(seed).shuffle(entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "w") as stream:
        json.dump({"schema": SCHEMA, "bricks": entries}, stream)
    return len(entries)


def load_sheet(path: Path) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Modules and synthetic inputs by identity.

    Raises
    ------
    InputError
        Where the file is no sheet, names an operation that is none of `aten`'s, or asks for too much memory.
    """
    sheet = read_json(path)
    if not isinstance(sheet, dict) or sheet.get("schema") != SCHEMA or not isinstance(sheet.get("bricks"), list):
        raise InputError(f"{path}: no sheet of bricks (schema {SCHEMA})")
    found = {}
    for number, entry in enumerate(sheet["bricks"]):
        where = f"{path}: brick {number}"
        try:
            found[str(entry["identity"])] = _module(entry["nodes"], where)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            raise InputError(f"{where}: cannot be built ({type(error).__name__}: {error})") from None
    return found


def _nodes(module: Any) -> list[dict[str, Any]]:
    import torch

    place: dict[Any, int] = {}
    nodes: list[dict[str, Any]] = []
    for node in module.graph.nodes:
        entry: dict[str, Any]
        if node.op == "placeholder":
            entry = {"input": _shape(node.meta["made"])}
        elif node.op == "get_attr":
            entry = {"constant": _shape(getattr(module, node.target))}
        elif node.op == "output":
            entry = {"output": [place[own] for own in node.args[0]]}
        else:
            if node.target is operator.getitem:
                target = GETITEM
            elif isinstance(node.target, torch._ops.OpOverload) and OPERATION.fullmatch(str(node.target)):
                target = str(node.target)
            else:
                raise InputError(f"operation {node.target}: a sheet holds operations of torch's aten library only")
            arguments = [_said(value, place) for value in node.args]
            entry = {"call": target, "args": arguments}
            if node.kwargs:
                entry["kwargs"] = {key: _said(value, place) for key, value in node.kwargs.items()}
        place[node] = len(nodes)
        nodes.append(entry)
    return nodes


def _shape(tensor: Any) -> list[Any]:
    return [list(tensor.shape), list(tensor.stride()), str(tensor.dtype).removeprefix("torch.")]


def _said(value: Any, place: dict[Any, int]) -> Any:
    import torch
    from torch import fx

    if isinstance(value, fx.Node):
        return {"node": place[value]}
    if isinstance(value, (list, tuple)):
        return [_said(own, place) for own in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    for name in NAMED:
        if isinstance(value, getattr(torch, name)):
            return {name: str(value).removeprefix("torch.")}
    raise InputError(f"argument {value!r}: a sheet holds numbers, texts and names of torch's types")


def _module(nodes: list[dict[str, Any]], where: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import fx

    if len(nodes) > MAX_NODES:
        raise InputError(f"{where}: {len(nodes)} operations, more than {MAX_NODES}")
    graph, root = fx.Graph(), torch.nn.Module()
    made: list[Any] = []
    inputs: list[Any] = []
    total = 0
    for entry in nodes:
        shaped = entry.get("input") or entry.get("constant")
        if shaped is not None:
            tensor, size = _tensor(shaped, MAX_BYTES - total, where)
            total += size
            if "input" in entry:
                made.append(graph.placeholder(f"input{len(inputs)}"))
                inputs.append(tensor)
            else:
                root.register_buffer(f"constant{len(made)}", tensor)
                made.append(graph.get_attr(f"constant{len(made)}"))
        elif "output" in entry:
            made.append(graph.output(tuple(made[place] for place in entry["output"])))
        else:
            args = tuple(_meant(value, made) for value in entry["args"])
            kwargs = {str(key): _meant(value, made) for key, value in entry.get("kwargs", {}).items()}
            made.append(graph.call_function(_operation(str(entry["call"]), where), args, kwargs))
    module = fx.GraphModule(root, graph)
    module.eval()
    return module, tuple(inputs)


def _tensor(shaped: Any, limit: int, where: str) -> tuple[Any, int]:
    import torch

    shape, strides, name = ([int(n) for n in shaped[0]], [int(n) for n in shaped[1]], str(shaped[2]))
    dtype = getattr(torch, name) if name.isidentifier() else None
    if not isinstance(dtype, torch.dtype) or len(shape) != len(strides) or min([0, *shape, *strides]) < 0:
        raise InputError(f"{where}: {shaped!r} is no shape, strides and dtype")
    size = (1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n)) * dtype.itemsize
    if size > limit:
        raise InputError(f"{where}: its tensors take more than {MAX_BYTES >> 30} GiB")
    return synthetic(torch.empty_strided(shape, strides, dtype=dtype, device="meta")), size


def _operation(name: str, where: str) -> Any:
    import torch

    if name == GETITEM:
        return operator.getitem
    found = OPERATION.fullmatch(name)
    if found is None or found.group(1) in REFUSED:
        raise InputError(f"{where}: operation {name!r} is none that a sheet may name")
    return getattr(getattr(torch.ops.aten, found.group(1)), found.group(2))


def _meant(value: Any, made: list[Any]) -> Any:
    import torch

    if isinstance(value, list):
        return [_meant(own, made) for own in value]
    if not isinstance(value, dict):
        return value
    ((kind, own),) = value.items()
    if kind == "node":
        return made[own]
    if kind == "float":
        return float(own)
    if kind == "device":
        return torch.device("cpu")
    meant = getattr(torch, str(own)) if kind in NAMED and str(own).isidentifier() else None
    if not isinstance(meant, getattr(torch, kind, ())):
        raise ValueError(f"{value!r} names no {kind} of torch")
    return meant
