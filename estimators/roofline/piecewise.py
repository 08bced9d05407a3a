"""Different models for different kinds of operations: the piecewise model of the SpMV paper, eq. 3."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel, OperationModel
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True)
class Piecewise:
    """Each operation is evaluated by the model of its kind, or of `otherwise`.

    `by_kind`: operation models by kind: a learned one for "spmv", ...
    `otherwise`: for every other kind: a roofline.
    """

    by_kind: FrozenDict[OperationModel]
    otherwise: OperationModel

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one execution of each operation, shape (operations,)."""
        times = np.empty(len(operations))
        chosen = [op.kind if op.kind in self.by_kind else None for op in operations]
        for kind in dict.fromkeys(chosen):
            indices = [i for i, one in enumerate(chosen) if one == kind]
            model = self.otherwise if kind is None else self.by_kind[kind]
            times[indices] = model.times([operations[i] for i in indices], machine)
        return times


@dataclass(frozen=True)
class FormulaPiecewise(FormulaModel):
    """The same where all of them are formulas: it compiles, and its parameters can be fitted.

    `by_kind`, `otherwise`: as in `Piecewise`; their parameters are named ``by_kind.KIND.NAME`` and ``otherwise.NAME``.
    """

    by_kind: FrozenDict[FormulaModel]
    otherwise: FormulaModel

    def key(self, op: Op, machine: Machine) -> Hashable:
        """By kind, then as its model says."""
        place, model = self._of(op)
        return place, model.key(op, machine)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """That of the kind's model, its parameters under their longer names."""
        place, model = self._of(op)
        return _placed(model.formula(op, machine), place)

    def caches(self, machine: Machine) -> str:
        """What each part takes for granted."""
        notes = (model.caches(machine) for model in (*self.by_kind.values(), self.otherwise))
        return "; ".join(dict.fromkeys(text for text in notes if text))

    def _of(self, op: Op) -> tuple[str, FormulaModel]:
        if op.kind in self.by_kind:
            return f"by_kind.{op.kind}", self.by_kind[op.kind]
        return "otherwise", self.otherwise


@lru_cache(maxsize=64)
def _placed(formula: Formula, place: str) -> Formula:
    names = [name for name in formula.names if name.startswith("parameter.")]
    return formula.substitute({name: symbol(f"parameter.{place}.{name.partition('.')[2]}") for name in names})
