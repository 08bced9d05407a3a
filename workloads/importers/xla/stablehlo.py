"""StableHLO text as a workload: `jax.jit(f).lower(...).as_text()`, `jax.export`, PyTorch/XLA, TensorFlow.

Calls are followed; loops are listed as unknown, since their trips are not in the text. Reshapes and broadcasts are
views, as XLA fuses them; every other operation stands for itself, so an estimate is that of a program in which nothing
is fused, unless the machine's runtime fuses. The older dialect mhlo has the same operations and is read as well.

Source: https://github.com/openxla/stablehlo/blob/main/docs/spec.md
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.records import Table
from slipstick.workloads.graph.assembly import ImportedNode, assemble
from slipstick.workloads.graph.workload import Attribute, Workload
from slipstick.workloads.importers.xla.mlir_text import Function, Statement, read_functions
from slipstick.workloads.importers.xla.stablehlo_operations import NOTHING, pieces_of

MAX_NODES = 200_000
MAX_CALLS = 64


def import_stablehlo(path: str | os.PathLike[str]) -> Workload:
    """The function main (or the first one) of a StableHLO module, with what it calls.

    Raises InputError where the file holds no function, calls go in circles, shapes are open, or an operation
    contradicts its shapes.
    """
    path = Path(path)
    functions = read_functions(path)
    first = functions.get("main") or next(iter(functions.values()))
    walk = _Walk(path, functions)
    walk.function(first, {}, 0)
    if not walk.nodes:
        raise InputError(f"{path}: function {first.name} holds no operation that takes time")
    built = assemble(walk.nodes)
    metadata: dict[str, Attribute] = {"purpose": "run", "source": "stablehlo", "assumptions": tuple(walk.notes)}
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    return Workload(name, built.operations, built.edges, metadata=Table(metadata), uncounted=built.uncounted)


class _Walk:
    """Collects nodes of a function and of those it calls."""

    def __init__(self, path: Path, functions: Mapping[str, Function]) -> None:
        self.path, self.functions = path, functions
        self.nodes: list[ImportedNode] = []
        self.notes: dict[str, None] = {}

    def function(self, function: Function, made: dict[str, set[int]], depth: int) -> set[int]:
        """Walk a function whose arguments wait for the nodes in `made`; returns what its results wait for."""
        if depth > MAX_CALLS:
            raise InputError(f"{self.path}: calls nest deeper than {MAX_CALLS}, or in a circle")
        last: set[int] = set()
        for statement in function.statements:
            before = (
                set().union(*(made.get(name, set()) for name in statement.operands)) if statement.operands else set()
            )
            kind = statement.operation.rpartition(".")[2]
            if kind == "return":
                last = before
                continue
            after = self._call(statement, made, depth) if kind == "call" else self._operation(statement, kind, before)
            for name in statement.results:
                made[name] = after
        return last

    def _call(self, statement: Statement, made: dict[str, set[int]], depth: int) -> set[int]:
        at = statement.text.find("@")
        name = statement.text[at + 1 :].partition("(")[0].strip().strip('"') if at >= 0 else ""
        called = self.functions.get(name)
        if called is None:
            raise InputError(f"{self.path}: line {statement.line}: calls @{name[:60]}, which is not in the file")
        given = zip(called.arguments, statement.operands, strict=False)
        return self.function(called, {argument: made.get(value, set()) for argument, value in given}, depth + 1)

    def _operation(self, statement: Statement, kind: str, before: set[int]) -> set[int]:
        if kind in NOTHING:
            return before
        if len(self.nodes) >= MAX_NODES:
            raise InputError(f"{self.path}: more than {MAX_NODES:,} operations")
        where = f"{self.path}: line {statement.line}: {kind}"
        if kind == "while":
            self.notes["loops are counted as unknown operations: their trips are not in the text"] = None
        pieces = pieces_of(kind, statement, where)
        waits: set[tuple[int, int | None]] = {(index, None) for index in before}
        self.nodes.append(ImportedNode(kind, "forward", "", statement.reads, statement.writes, pieces, waits))
        return {len(self.nodes) - 1}
