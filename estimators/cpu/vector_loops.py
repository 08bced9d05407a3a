"""Loops over vectors: each at the bandwidth of the level where its vectors are found."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.roofline.roofline import product_of_fields
from slipstick.estimators.symbolic.cache_residency import cost_by_level
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True)
class LevelLoops(CheckedParameters, FormulaModel):
    """T = start + max(bytes at the bandwidth of the level that holds them, chain of dependent additions).

    A vector is found in the nearest level that holds what was touched since its last use (its reuse volume, handed on
    from loop to loop by the workload); between 0.7 and 1.4 of a level's capacity the share is interpolated in log
    volume. A sum whose order may not change waits `addition` for every element, whatever the bandwidth.
    """

    addition: Annotated[float, Parameter("cycle", "latency of a dependent addition", 0.0, 100.0)] = 4.0
    start: Annotated[float, Parameter("s", "of every loop: call, vector set-up, remainder", 0.0, 1e-3)] = 2e-8
    gather: Annotated[float, Parameter("1", "share of a level's bandwidth that a gather reaches", 1e-3, 10.0)] = 1.0

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Gathers apart from plain loops."""
        return op.kind == "gather_sum"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.{first,second}_{bytes,volume}, operation.chain, machine.*, parameter.*."""
        _require(op, "chain", "first_bytes", "first_volume", "second_bytes", "second_volume")
        levels = tuple(level for level in machine.memory if machine.memory[level].capacity)
        kind = "gather_sum" if op.kind == "gather_sum" else "vector_loop"
        return _level_formula(kind, levels, tuple(map(machine.bandwidth_factors, levels)))


@lru_cache(maxsize=64)
def _level_formula(kind: str, levels: tuple[str, ...], factors: tuple[tuple[str, ...], ...]) -> Formula:
    rates = [product_of_fields(paths) for paths in factors]

    def stream(name: str) -> sp.Expr:
        capacities = [symbol(f"machine.memory.{level}.capacity") for level in levels[:-1]]
        cost = cost_by_level(symbol(f"operation.{name}_volume"), capacities, [1 / rate for rate in rates])
        return symbol(f"operation.{name}_bytes") * cost

    second = stream("second") / (symbol("parameter.gather") if kind == "gather_sum" else 1)
    chain = symbol("operation.chain") * symbol("parameter.addition") / symbol("machine.clock")
    terms = {"memory": stream("first") + second, "latency": chain}
    whole = symbol("parameter.start") + sp.Max(*terms.values())
    return Formula(whole, "s", "level-aware loops, docs/notes/spmv.md", FrozenDict(terms))


def _require(op: Op, *dims: str) -> None:
    missing = [name for name in dims if name not in op.dims]
    if missing:
        raise InputError(f"operation {op.name!r} ({op.kind}) is no counted loop: it lacks {', '.join(missing)}")
