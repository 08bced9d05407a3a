"""Seconds of operations, asked once: in a loop over what the schedule alone reads, operations and machine stay."""

from __future__ import annotations

from functools import lru_cache

from slipstick.common.records import Same
from slipstick.estimators.base.operation_model import OperationModel, is_formula
from slipstick.estimators.composition.workload_cache import FEW
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op


def seconds_of(model: OperationModel, operations: tuple[Op, ...], machine: Machine) -> FloatArray:
    """Seconds of one execution of each operation, shape (operations,); not to be changed.

    Those of formulas are kept; what is measured or drawn is asked anew.
    `machine`: as the operations find it (`Composite.as_found`).

    Raises InputError where one takes less than the machine's arithmetic and main memory need.
    """
    if is_formula(model):
        return _kept_seconds(Same(model), Same(operations), Same(machine))
    return _seconds(model, operations, machine)


@lru_cache(maxsize=FEW)
def _kept_seconds(model: Same[OperationModel], operations: Same[tuple[Op, ...]], machine: Same[Machine]) -> FloatArray:
    times = _seconds(model.it, operations.it, machine.it)
    times.flags.writeable = False
    return times


def _seconds(model: OperationModel, operations: tuple[Op, ...], machine: Machine) -> FloatArray:
    times = model.times(operations, machine)
    PhysicalBound(machine).check(operations, times)
    return times
