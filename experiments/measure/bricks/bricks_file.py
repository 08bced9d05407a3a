"""Bricks as a text file: what somebody else's machine needs to run them, and nothing of the models they come from.

A sheet holds each brick's operations with the shapes of its inputs and weights (no values), under its identity, in a
drawn order. Models named beside one's own put their bricks among them as decoys. The file is data, so that a stranger's
sheet can be measured: operations are those of `brick_operations` alone, arguments are named as the operation names
them, and every brick runs on shapes first (`brick_rehearsal`), so that what it takes is bounded before memory is.
"""

from __future__ import annotations

import json
import math
import operator
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json
from slipstick.common.writer import atomic_write
from slipstick.experiments.measure.bricks.brick_dry_run import MAX_BYTES, check_parts, shapes_only
from slipstick.experiments.measure.bricks.brick_modules import synthetic
from slipstick.experiments.measure.bricks.brick_operations import OPERATIONS, check_arguments, operation

SCHEMA = "slipstick-brick-sheet-1"
GETITEM = "getitem"
MAX_NODES = 20_000
MAX_DIMENSIONS = 16
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
NAMED = ("dtype", "layout", "memory_format", "device")


def save_sheet(bricks: Iterable[tuple[str, Any]], path: Path, seed: int | None = None) -> int:
    """Write (identity, module of `brick_module`) in an order that is drawn anew each time; returns how many.

    Raises InputError where a brick holds what a sheet cannot say.
    """
    entries = [{"identity": identity, "nodes": _nodes(module)} for identity, module in bricks]
    random.Random(seed).shuffle(entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "w") as stream:
        json.dump({"schema": SCHEMA, "bricks": entries}, stream)
    return len(entries)


def load_sheet(path: Path) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Modules and synthetic inputs by identity.

    Raises InputError where the file is no sheet, names an operation or an argument that a sheet may not name, or takes
    too much.
    """
    sheet = read_json(path)
    if not isinstance(sheet, dict) or sheet.get("schema") != SCHEMA or not isinstance(sheet.get("bricks"), list):
        raise InputError(f"{path}: no sheet of bricks (schema {SCHEMA})")
    sheets = {}
    for number, entry in enumerate(sheet["bricks"]):
        where = f"{path}: brick {number}"
        try:
            sheets[str(entry["identity"])] = _module(entry["nodes"], where)
        except InputError:
            raise
        except Exception as error:  # torch raises dozens of kinds where shapes or arguments do not fit
            raise InputError(f"{where}: cannot be built ({one_line(error)})") from None
    return sheets


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
            entry = {"output": [place[one] for one in node.args[0]]}
        else:
            if node.target is operator.getitem:
                target = GETITEM
            elif isinstance(node.target, torch._ops.OpOverload) and str(node.target) in OPERATIONS:
                target = str(node.target)
            else:
                raise InputError(f"operation {node.target}: none that a sheet may name (brick_operations.py)")
            arguments = [_written(value, place) for value in node.args]
            entry = {"call": target, "args": arguments}
            if node.kwargs:
                entry["kwargs"] = {key: _written(value, place) for key, value in node.kwargs.items()}
        place[node] = len(nodes)
        nodes.append(entry)
    return nodes


def _shape(tensor: Any) -> list[Any]:
    return [list(tensor.shape), list(tensor.stride()), str(tensor.dtype).removeprefix("torch.")]


def _written(value: Any, place: dict[Any, int]) -> Any:
    import torch
    from torch import fx

    if isinstance(value, fx.Node):
        return {"node": place[value]}
    if isinstance(value, (list, tuple)):
        return [_written(one, place) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    for name in NAMED:
        if isinstance(value, getattr(torch, name)):
            return {name: str(value).removeprefix("torch.")}
    raise InputError(f"argument {value!r}: a sheet holds numbers, texts and names of torch's types")


def one_line(error: BaseException) -> str:
    """An error of torch's in a few words: its kind and the first line of its text."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def _module(nodes: list[dict[str, Any]], where: str) -> tuple[Any, tuple[Any, ...]]:
    """The module and its inputs; shapes are worked through before anything is allocated."""
    import torch
    from torch import fx

    if len(nodes) > MAX_NODES:
        raise InputError(f"{where}: {len(nodes)} operations, more than {MAX_NODES}")
    graph = fx.Graph()
    made: list[Any] = []
    shapes: list[Any] = []  # what each node gives, as tensors without memory
    wanted: dict[str, Any] = {}
    total = 0
    with torch.inference_mode(), shapes_only(where):
        for entry in nodes:
            shaped = entry.get("input") or entry.get("constant")
            if shaped is not None:
                tensor, size = _tensor(shaped, MAX_BYTES - total, where)
                total += size
                kind = "input" if "input" in entry else "constant"
                name = f"{kind}{len(wanted)}"
                wanted[name] = shaped
                made.append(graph.placeholder(name) if kind == "input" else graph.get_attr(name))
                shapes.append(tensor)
            elif "output" in entry:
                made.append(graph.output(tuple(_at(made, place) for place in entry["output"])))
                break
            else:
                target, keywords = _target(str(entry["call"]), where), entry.get("kwargs", {})
                if target is not operator.getitem:
                    check_arguments(target, len(entry["args"]), list(keywords), where)
                elif keywords or len(entry["args"]) != 2 or type(entry["args"][1]) is not int:
                    raise InputError(f"{where}: {GETITEM} takes a node and a whole number")
                args, kwargs = ([_meant(value, made) for value in entry["args"]], _each(keywords, made))
                tried, named = ([_meant(value, shapes) for value in entry["args"]], _each(keywords, shapes))
                check_parts(target, tried, named, where)
                shapes.append(target(*tried, **named))
                made.append(graph.call_function(target, tuple(args), kwargs))
    root = torch.nn.Module()
    inputs = []
    for name, shaped in wanted.items():
        tensor = synthetic(_tensor(shaped, MAX_BYTES, where, "meta")[0])
        if name.startswith("input"):
            inputs.append(tensor)
        else:
            root.register_buffer(name, tensor)
    module = fx.GraphModule(root, graph)
    module.eval()
    return module, tuple(inputs)


def _tensor(shaped: Any, limit: int, where: str, device: str = "cpu") -> tuple[Any, int]:
    import torch

    shape, strides, name = ([int(n) for n in shaped[0]], [int(n) for n in shaped[1]], str(shaped[2]))
    if name not in DTYPES or not len(shape) == len(strides) <= MAX_DIMENSIONS or min([0, *shape, *strides]) < 0:
        raise InputError(f"{where}: {str(shaped)[:100]} is no shape, strides and dtype")
    dtype = getattr(torch, name)
    span = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n)
    size = max(span, math.prod(shape)) * dtype.itemsize
    if size > limit:
        raise InputError(f"{where}: its tensors take more than {MAX_BYTES >> 30} GiB")
    return torch.empty_strided(shape, strides, dtype=dtype, device=device), size


def _target(name: str, where: str) -> Any:
    return operator.getitem if name == GETITEM else operation(name, where)


def _each(keywords: dict[str, Any], made: list[Any]) -> dict[str, Any]:
    return {key: _meant(value, made) for key, value in keywords.items()}


def _at(made: list[Any], place: Any) -> Any:
    if type(place) is not int or not 0 <= place < len(made):
        raise ValueError(f"node {str(place)[:40]!r} is none of the {len(made)} before it")
    return made[place]


def _meant(value: Any, made: list[Any]) -> Any:
    import torch

    if isinstance(value, list):
        return [_meant(content, made) for content in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "node":
        return _at(made, content)
    if kind == "float":
        return float(content)
    if kind == "device":
        return torch.device("cpu")
    meant = getattr(torch, str(content)) if kind in NAMED and str(content).isidentifier() else None
    if not isinstance(meant, getattr(torch, kind, ())):
        raise ValueError(f"{value!r} names no {kind} of torch")
    return meant
