"""What a GPU's counters would show of an operation: flop, vector instructions, bytes by memory level, cycles.

The bytes are those of the tiles that the time model picks; a level that is off (capacity 0) shows none, and what it
would have held is read again from the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp
from slipstick.estimators.base.operation_model import amount_of, grouped, machine_values
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.symbolic.formula import Formula, MinOverConfigs, parameters
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

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
        moved = model.traffic(workload.operations[indices[0]], machine)
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


def _instructions(cost: Any) -> float:
    """Vector instructions: a multiply-add of a product is one on each lane, other work an operation each."""
    total = 0.0
    for name in cost:
        if name.startswith("flop."):
            total += float(cost[name]) / LANES / (2 if name.split(".")[1] == "matrix" else 1)
    return total
