"""Measured times of operations, looked up by what they are, where they ran and how they were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from estimators.formula import FloatArray
from estimators.parameters import Parameter, check_parameters
from hwmodels.files import InputError
from hwmodels.machine import Machine
from hwmodels.records import Table
from workloads.workload import Op


@dataclass(frozen=True)
class MeasuredTimes:
    """A table of seconds of one execution.

    Parameters
    ----------
    seconds
        By operation: its attribute `measured_as` where it has one, else its identity.
    fingerprint
        Of the machine measured; a changed machine is refused, since the old times say nothing about it.
    protocol, source
        How and by whom they were measured.
    """

    seconds: Table[float]
    fingerprint: str
    protocol: str = ""
    source: str = ""
    scale: Annotated[float, Parameter("1", "time inside a model over time alone (warmer caches)", 0.01, 100.0)] = 1.0
    overhead: Annotated[float, Parameter("s", "of the framework for each operation in a model", -1e-3, 1.0)] = 0.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def times(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds of one execution of each operation, shape (operations,).

        Raises
        ------
        InputError
            Where the machine is another than the measured one, or an operation was not measured.
        """
        if machine.fingerprint != self.fingerprint:
            raise InputError(
                f"machine {machine.name!r} is not the measured one (fingerprint {machine.fingerprint}, measured "
                f"{self.fingerprint}): measured times do not answer a what-if on the machine"
            )
        missing = [op.name for op in operations if measured_key(op) not in self.seconds]
        if missing:
            raise InputError(f"no measured time for {', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}")
        alone = np.array([self.seconds[measured_key(op)] for op in operations])
        return np.maximum(self.scale * alone + self.overhead, 0.0)


def measured_key(op: Op) -> str:
    """The key of an operation in a table of measured times."""
    return str(op.attributes.get("measured_as") or op.identity)
