"""A workload as arrays: its amounts compiled once, then bound to many sizes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.lazy_sympy import sp
from slipstick.common.readers import unknown_name
from slipstick.estimators.symbolic.lambdified import compiled
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Workload

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CompiledWorkload:
    """The amounts of a workload as one function of its open names.

    A graph of a thousand operations holds a few dozen different expressions: each is evaluated once.

    `operations`: names of the operations: the last axis of every array.
    `symbols`: the open names, all to be given.

    Examples
    --------
    >>> from slipstick.workloads.catalog import workload
    >>> compiled = compile_workload(workload("gnmt"))
    >>> compiled.bind(batch=64, seq_len=[9, 94])["flop.matrix.float32"].shape
    (2, 193)
    """

    operations: tuple[str, ...]
    symbols: tuple[str, ...]
    _evaluate: Callable[..., Any] = field(repr=False)
    _slots: Mapping[str, npt.NDArray[np.intp]] = field(repr=False)

    def bind(self, **values: Any) -> dict[str, FloatArray]:
        """Arrays by amount: "times", "dims.NAME" and the resources of the cost, shape (..., operations).

        Values are numbers or arrays that broadcast together; counts are exact up to 2**53.
        Raises InputError where a name is missing or unknown.
        """
        for name in values:
            if name not in self.symbols:
                raise unknown_name("symbol of the compiled workload", name, self.symbols)
        missing = [name for name in self.symbols if name not in values]
        if missing:
            raise InputError(f"compiled workload: give a value for {', '.join(missing)}")
        given = [np.asarray(values[name], dtype=np.float64) for name in self.symbols]
        shape = np.broadcast_shapes(*(array.shape for array in given))
        results = self._evaluate(*given)
        table = np.empty((*shape, len(results)))
        for index, result in enumerate(results):
            table[..., index] = result
        return {name: table[..., slots] for name, slots in self._slots.items()}

    def totals(self, **values: Any) -> dict[str, FloatArray]:
        """The cost of the whole workload by resource, each operation as often as it is done; shape (...)."""
        bound = self.bind(**values)
        times = bound.pop("times")
        return {name: (array * times).sum(axis=-1) for name, array in bound.items() if not name.startswith("dims.")}


def compile_workload(workload: Workload) -> CompiledWorkload:
    """Compile all amounts of a workload (dims, cost, times) for `CompiledWorkload.bind`."""
    expressions: dict[Amount, int] = {0: 0}
    slots: dict[str, list[int]] = {"times": [0] * len(workload)}
    for index, op in enumerate(workload):
        amounts: dict[str, Amount] = {"times": op.times, **op.cost}
        amounts |= {f"dims.{name}": amount for name, amount in op.dims.items()}
        for name, amount in amounts.items():
            slots.setdefault(name, [0] * len(workload))[index] = expressions.setdefault(amount, len(expressions))
    symbols = tuple(sorted(workload.symbols))
    evaluate = compiled(sp.Tuple(*(sp.sympify(expression, strict=True) for expression in expressions)), symbols)
    indices = {name: np.array(positions, dtype=np.intp) for name, positions in slots.items()}
    return CompiledWorkload(tuple(op.name for op in workload), symbols, evaluate, indices)
