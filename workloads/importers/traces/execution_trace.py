"""Execution traces of torch as workloads: the JSON that `torch.profiler.ExecutionTraceObserver` writes (Chakra schema).

Source of the schema: github.com/mlcommons/chakra, wiki "Chakra Execution Trace Schema"; schema text "1.x-chakra".
Nodes form a tree (`ctrl_deps` is the parent): the outermost operation of the taxonomy on each branch is taken, with its
real shapes; edges follow the storages that it reads and writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import read_json, require_mapping
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.assembly import DTYPES, ImportedNode, Piece, Tensor, assemble, traced_shape
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.importers.torch.aten import Call, read_call

LIMIT_BYTES = 1024 * MEGABYTE
MAX_DEPTH = 1000
_TAKEN = "inside an operation that is taken"
_ALIASES = frozenset({"detach", "alias", "lift_fresh", "contiguous", "resolve_conj", "resolve_neg", "record_stream"})


@dataclass
class _Memory:
    """Who wrote and who reads each storage."""

    writer: dict[Any, int] = field(default_factory=dict)
    readers: dict[Any, set[int]] = field(default_factory=dict)

    def waits(self, index: int, reads: list[Any], writes: list[Any]) -> set[tuple[int, int | None]]:
        before = {self.writer[key] for key in reads if key in self.writer}
        for key in reads:
            self.readers.setdefault(key, set()).add(index)
        for key in writes:
            before |= self.readers.pop(key, set()) | ({self.writer[key]} if key in self.writer else set())
            self.writer[key] = index
        return {(maker, None) for maker in before if maker != index}


def import_execution_trace(path: str | os.PathLike[str]) -> Workload:
    """The operations of one recorded run with their real shapes; phases by where autograd and optimizers stand.

    Raises InputError where the file is no such trace, is truncated, or a node contradicts itself; names file and node.
    """
    document = require_mapping(read_json(path, LIMIT_BYTES), str(path), "the document")
    schema, entries = str(document.get("schema", "")), document.get("nodes")
    if not isinstance(entries, list) or ("chakra" not in schema.lower() and not schema[:1].isdigit()):
        raise InputError(f"{path}: no execution trace (want a 'schema' and a list of 'nodes')")
    nodes: list[ImportedNode] = []
    memory = _Memory()
    for entry, phase in _operations(entries, str(path)):
        where = f"{path}: node {entry.get('id')}"
        try:
            _take(entry, phase, nodes, memory)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, StopIteration) as error:
            name = str(entry.get("name"))[:60]
            raise InputError(f"{where} ({name}): inputs do not fit ({type(error).__name__}: {error})") from None
    built = assemble(nodes)
    metadata = FrozenDict({"source": f"execution trace {schema[:40]}", "purpose": "run", "assumptions": ()})
    return Workload("execution-trace", built.operations, built.edges, FrozenDict(), metadata, built.uncounted)  # type: ignore[arg-type]


def _operations(entries: list[Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The outermost known operation on each branch, in order of its number, with its phase."""
    known: dict[Any, Mapping[str, Any]] = {}
    children: dict[Any, list[Any]] = {}
    for entry in entries:
        entry = require_mapping(entry, path, "nodes")
        number = entry.get("id")
        if not isinstance(number, int) or isinstance(number, bool) or not isinstance(entry.get("name"), str):
            raise InputError(f"{path}: a node needs a number 'id' and a text 'name', got {str(entry)[:60]!r}")
        if number in known:
            raise InputError(f"{path}: two nodes have the id {number}")
        known[number] = entry
        parent = entry.get("ctrl_deps", entry.get("parent"))
        if isinstance(parent, (list, Mapping)):
            raise InputError(f"{path}: node {number}: parent {str(parent)[:40]!r}: want the number of a node")
        children.setdefault(parent, []).append(number)
    roots = [n for parent, below in children.items() if parent not in known for n in below]
    roots += [n for n, entry in known.items() if entry.get("ctrl_deps", entry.get("parent")) == n]
    operations: list[tuple[int, str]] = []
    reached: set[int] = set()
    stack = [(number, "forward", 0) for number in dict.fromkeys(roots)]
    while stack:
        number, phase, depth = stack.pop()
        if number in reached:
            continue
        reached.add(number)
        if depth > MAX_DEPTH:
            raise InputError(f"{path}: node {number}: nested deeper than {MAX_DEPTH} levels")
        name = str(known[number]["name"])
        below = [child for child in children.get(number, ()) if child != number]
        if name.startswith("autograd::engine"):
            phase = "backward"
        elif "Optimizer.step" in name:
            phase = "optimizer"
        if phase != _TAKEN and name.startswith("aten::") and (not below or _is_known(known[number])):
            operations.append((number, phase))
            phase = _TAKEN
        stack += [(child, phase, depth + 1) for child in below]
    if len(reached) < len(known):
        lost = next(number for number in known if number not in reached)
        raise InputError(f"{path}: node {lost}: its parents form a cycle")
    return iter([(known[number], phase) for number, phase in sorted(operations)])


def _is_known(entry: Mapping[str, Any]) -> bool:
    name = str(entry["name"]).removeprefix("aten::")
    if name in _ALIASES:
        return False
    try:
        return read_call(_call(entry)[0]) is not None
    except (InputError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, StopIteration):
        return False


def _take(entry: Mapping[str, Any], phase: str, nodes: list[ImportedNode], memory: _Memory) -> None:
    call, reads, writes = _call(entry)
    if call.name in _ALIASES:
        return
    pieces: list[Piece] | None = read_call(call)
    index = len(nodes)
    before = memory.waits(index, reads, writes)
    nodes.append(ImportedNode(call.name, phase, "", tuple(call.tensors()), call.results, pieces, before))


def _call(entry: Mapping[str, Any]) -> tuple[Call, list[Any], list[Any]]:
    """The call, and the storages it reads and writes (what an in-place operation changes is among its results)."""
    arguments, reads = _side(entry, "inputs")
    results, writes = _side(entry, "outputs")
    flat = [t for result in results for t in (result if isinstance(result, tuple) else (result,))]
    name = str(entry["name"]).removeprefix("aten::")
    return Call(name, tuple(arguments), tuple(t for t in flat if isinstance(t, Tensor))), reads, writes


def _side(entry: Mapping[str, Any], side: str) -> tuple[list[Any], list[Any]]:
    part = entry.get(side)
    if not isinstance(part, Mapping):
        raise InputError(f"no {side}")
    values, types, shapes = part.get("values", []), part.get("types", []), part.get("shapes", [])
    strides = part.get("strides") or [None] * len(values)
    storages: list[Any] = []
    read = [_value(v, str(t), s, d, storages) for v, t, s, d in zip(values, types, shapes, strides, strict=True)]
    return read, storages


def _value(value: Any, kind: str, shape: Any, strides: Any, storages: list[Any]) -> Any:
    if kind.startswith("Tensor("):
        storages.append(value[1])
        sizes = traced_shape(shape)
        steps = tuple(int(s) for s in strides) if isinstance(strides, list) and len(strides) == len(sizes) else None
        return Tensor(sizes, DTYPES.get(kind[7:-1], "float32"), steps)
    if kind.startswith("GenericList[") and isinstance(value, list):
        inner = kind[len("GenericList[") : -1].split(",")
        kinds = inner if len(inner) == len(value) else [inner[0]] * len(value)
        below = strides if isinstance(strides, list) and len(strides) == len(value) else [None] * len(value)
        return tuple(_value(v, k, s, d, storages) for v, k, s, d in zip(value, kinds, shape, below, strict=True))
    return None if value == "<None>" else value
