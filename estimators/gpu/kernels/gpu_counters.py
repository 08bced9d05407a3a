"""What a GPU's counters would show of an operation: flop, vector instructions, bytes by memory level, cycles.

The bytes are those of the tiles that the time model picks; a level that is off (capacity 0) shows none, and what it
would have held is read again from the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.estimators.base.operation_model import amount_of, grouped, machine_values
from slipstick.estimators.gpu.kernels.kernel_classes import bytes_beside, convolution_dims, operand_sizes
from slipstick.estimators.gpu.kernels.matrix_tiles import Resources, Sizes, panels_read, staged_side
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline, resources, runs_with, stored_type, variant_of
from slipstick.estimators.symbolic.formula import Formula, MinOverConfigs, parameters
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload

if TYPE_CHECKING:
    import pandas as pd

LANES = 64
"""Elements of one vector instruction: a wavefront of AMD's, two warps of NVIDIA's."""


@dataclass(frozen=True, eq=False)
class Counters:
    """Of one execution of a workload, by operation.

    `values`: name -> sums over all times an operation is done, shape (operations,): seconds, cycles, flop, instructions
        (of `LANES` elements), launches, and bytes.LEVEL.
    """

    operations: tuple[str, ...]
    kinds: tuple[str, ...]
    values: dict[str, FloatArray]

    def total(self, name: str) -> float:
        """Of the whole workload."""
        return float(self.values[name].sum())

    @property
    def instructions_per_cycle(self) -> float:
        """Vector instructions of all cores over cycles."""
        return self.total("instructions") / self.total("cycles")

    def to_frame(self) -> pd.DataFrame:
        """One row an operation."""
        import pandas as pd

        return pd.DataFrame({"operation": self.operations, "kind": self.kinds, **self.values})


def counters(workload: Workload, machine: Machine, model: TiledRoofline) -> Counters:
    """Counters of every operation of a bound workload under the time model's own choice of tiles."""
    times = np.array([float(op.times) for op in workload])
    seconds = model.times(workload.operations, machine) * times
    result = {"seconds": seconds, "cycles": seconds * machine.clock, "flop": np.zeros(len(times))}
    result |= {"instructions": np.zeros(len(times)), "launches": np.zeros(len(times))}
    for index, op in enumerate(workload):
        result["flop"][index] = float(op.cost.flop) * times[index]
        result["instructions"][index] = _instructions(op.cost) * times[index]
        result["launches"][index] = float(op.cost["launches"]) * times[index]
    result |= {f"bytes.{level}": np.zeros(len(times)) for level in machine.memory}
    fitted = {f"parameter.{name}": value for name, (value, _) in parameters(model).items()}
    for formula, indices in grouped(model, workload.operations, machine):
        moved = traffic(workload.operations[indices[0]], machine)
        needed = Formula(sp.Add(formula.expression, *moved.values()), "1", "")
        values: dict[str, Any] = {**fitted, **machine_values(needed, machine)}
        for name in needed.names:
            if name.startswith("operation."):
                values[name] = np.array([float(amount_of(workload.operations[i], name)) for i in indices])
        if isinstance(formula, MinOverConfigs):
            menu = {name: np.array(column)[:, np.newaxis] for name, column in formula.menu.items()}
            rows = len(next(iter(menu.values())))
            costs = np.broadcast_to(evaluate(formula.expression, {**values, **menu}), (rows, len(indices)))
            best = np.argmin(costs, axis=0)
            values |= {name: np.array(column)[best] for name, column in formula.menu.items()}
        for level, expression in moved.items():
            each = np.broadcast_to(np.asarray(evaluate(expression, values), dtype=np.float64), (len(indices),))
            result[f"bytes.{level}"][indices] = each * times[indices]
    return Counters(tuple(op.name for op in workload), tuple(op.kind for op in workload), result)


def traffic(op: Op, machine: Machine) -> dict[str, sp.Expr]:
    """Bytes that one execution moves out of each level of the memory, in the symbols of its formula and of its menu.

    Products load tiles: from the nearest memory what a core reads, from the last cache what that cannot stage,
    from main memory what no cache held. Other operations move their operands and results once through all levels, and
    so do the kernels beside a product.
    """
    levels, none = list(machine.memory), sp.Integer(0)
    near, cache, main = _bytes_by_level(op, resources(machine, none, 1.0, 1.0, 0.0))
    moved = dict.fromkeys(levels, cache) | ({levels[0]: near} if len(levels) > 2 else {}) | {levels[-1]: main}
    free = op.kind in machine.runtime.free_kinds
    return {level: none if free or machine.memory[level].capacity == 0 else amount for level, amount in moved.items()}


def _bytes_by_level(op: Op, has: Resources) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Out of the nearest memory, the last cache, and main memory."""
    moved, size = symbol("operation.bytes_moved"), operand_sizes(op.dtype, stored_type(op))
    dims = _product_dims(op)
    if dims is None:
        return moved, moved, moved
    beside = sp.Add(*bytes_beside(op.dtype, **runs_with(op))) if op.kind == "gemm" else sp.Integer(0)
    if op.kind == "recurrent":
        beside = Largest(0, moved - dims[1] * dims[3] * size[0])
    near, cache = _loaded(dims, size, has)
    return near + beside, cache + beside, panels_read(dims, size, has) + beside


def _product_dims(op: Op) -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr] | None:
    """batch, m, n, k of the product that an operation is; None where it is none, or another algorithm picks its own."""
    if op.kind == "convolution":
        direction, winograd, transposed = variant_of(op)
        return None if winograd else convolution_dims(str(direction), transposed=bool(transposed))
    batch, m, n, k, hidden, gates, outputs = (
        symbol(f"operation.{name}") for name in ("batch", "m", "n", "k", "hidden", "gates", "outputs")
    )
    dims = {"gemm": (batch, m, n, k), "recurrent": (sp.Integer(1), gates * hidden, batch, outputs)}
    return dims.get(op.kind)


def _loaded(dims: tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr], size: Sizes, has: Resources) -> tuple[sp.Expr, sp.Expr]:
    """Bytes that the cores of `batch` products load from their nearest memory, and from the cache behind it."""
    batch, m, n, k = dims
    rows, columns = symbol("choice.rows"), symbol("choice.columns")
    loaded = batch * sp.ceiling(m / rows) * sp.ceiling(n / columns) * k * (rows * size[0] + columns * size[1])
    written = batch * m * n * size[2]
    return loaded + written, loaded / staged_side(rows, columns, has) + written


def _instructions(cost: Any) -> float:
    """Vector instructions: a multiply-add of a product is one on each lane, other work an operation each."""
    total = 0.0
    for name in cost:
        if name.startswith("flop."):
            total += float(cost[name]) / LANES / (2 if name.split(".")[1] == "matrix" else 1)
    return total
