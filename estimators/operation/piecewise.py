"""Different models for different kinds of operations: the piecewise model of the SpMV paper, eq. 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from estimators.formula import FloatArray
from estimators.operation.model import OperationModel
from hwmodels.machine import Machine
from hwmodels.records import Table
from workloads.workload import Op


@dataclass(frozen=True)
class Piecewise:
    """Each operation is asked of the model of its kind, or of `otherwise`.

    Parameters
    ----------
    by_kind
        Operation models by kind: a learned one for "spmv", ...
    otherwise
        For every other kind: a roofline.
    """

    by_kind: Table[OperationModel]
    otherwise: OperationModel

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one execution of each operation, shape (operations,)."""
        times = np.empty(len(operations))
        chosen = [op.kind if op.kind in self.by_kind else None for op in operations]
        for kind in dict.fromkeys(chosen):
            indices = [i for i, own in enumerate(chosen) if own == kind]
            model = self.otherwise if kind is None else self.by_kind[kind]
            times[indices] = model.times([operations[i] for i in indices], machine)
        return times
