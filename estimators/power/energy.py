"""Power of a machine at work: idle, what an active chip draws, and energy for each flop and each byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.estimators.base.operation_model import machine_values
from slipstick.estimators.power.power_cap import rated_watts
from slipstick.estimators.power.serving_power_law import Use, power_fit, power_groups
from slipstick.estimators.power.voltage import knee, squared_voltage
from slipstick.estimators.symbolic.cache_residency import is_there
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import formulas_of
from slipstick.estimators.symbolic.lambdified.symbolic_max import Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind

SOURCE = "docs/notes/gpu-operations.md; energy roofline: Choi et al., IPDPS 2013"
NAMES = ("active", "flop", "byte", "settle")
"""The parameters."""
TYPICAL = {"idle": np.array([0.15]), "flop": np.array([0.2]), "byte": np.array([0.1])}
"""Shares of the cap of a device at work, for which a band of the pooled factors is given."""
MATRIX_ENERGY = {"bfloat16": 0.09, "float16": 0.09, "tfloat32": 0.15, "float8": 0.045, "int8": 0.045, "float32": 0.5}
MATRIX_ENERGY |= {"mxfp8": 0.045, "mxfp6": 0.045, "float4": 0.0225, "nvfp4": 0.0225, "mxfp4": 0.0225}
"""Energy of a flop in a matrix engine over that of a float32 flop in a vector engine; FP4's is half of FP8's, as their
rates are under one cap."""


def flop_energy(engine: str, rated: str) -> float:
    """Energy of a flop at the rate of an engine and data type, over that of a float32 flop in a vector engine."""
    return MATRIX_ENERGY.get(rated, 1.0) if engine == "matrix" else 1.0


@dataclass(frozen=True)
class PowerModel(CheckedParameters):
    """P = idle + (active idle + flop e_flop v^2 f / t + byte e_byte b / t) t / (t + settle), held at the cap.

    e_flop is the machine's energy of a float32 flop times the share of the dtype, v^2 what its clock costs
    (`voltage.squared_voltage`); e_byte the sum over the levels that a byte passes: that of main memory, or one of its
    technology, and those of caches that state one (`memory.LEVEL.per_byte`). Every byte counts as one of main memory,
    whatever caches hold; the clock of memory is another. Parameters are factors, so that they carry over to other
    machines. Kernels that are short against `settle` leave gaps between them
    in which the chip does nothing.
    """

    active: Annotated[float, Parameter("1", "what any running kernel draws above idle, over idle", 0, 100)] = 0.6
    flop: Annotated[float, Parameter("1", "energy of a flop over the machine's number", 0, 100)] = 1.0
    byte: Annotated[float, Parameter("1", "energy of a byte over the machine's number", 0, 100)] = 1.0
    settle: Annotated[float, Parameter("s", "length of a kernel that draws half of what a long one draws", 0, 1)] = 0.0

    def formula(self, machine: Machine) -> Formula:
        """Watts of measured times, which are those of the clock that the cap leaves.

        Symbols: time, operation.float32_flop (flop at the energy of a float32 flop), operation.bytes_moved.

        Raises
        ------
        InputError
            Where the machine states no cap or no energy of a flop.
        """
        nominal = self.uncapped(machine, squared_voltage(knee(machine)))
        return Formula(Smallest(symbol("machine.power.cap"), nominal.expression), "W", SOURCE)

    def uncapped(self, machine: Machine, squared: sp.Expr) -> Formula:
        """Watts at the square of a voltage (1: that up to the knee), whatever the cap; symbols as above."""
        _require(machine)
        idle = symbol("machine.power.idle")
        draw = symbol("parameter.active") * idle
        draw += symbol("parameter.flop") * squared * _flop_watts() + symbol("parameter.byte") * _byte_watts(machine)
        busy = symbol("time") / (symbol("time") + symbol("parameter.settle"))
        return Formula(idle + draw * busy, "W", SOURCE)

    def watts(self, machine: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray) -> FloatArray:
        """Mean power of operations of the given seconds, flop and bytes, each of one shape."""
        return self.evaluated(self._steps(machine), machine, time, float32_flop, moved)

    def _steps(self, machine: Machine) -> Evaluable:
        """`formula` as steps that are kept from run to run."""
        _require(machine)
        known = formulas_of(PowerModel, (machine.form, knee(machine)))
        steps = known.get("watts", lambda: self.formula(machine).lowered)
        known.keep()
        return steps

    def evaluated(
        self,
        formula: Formula | Evaluable,
        machine: Machine,
        time: FloatArray,
        float32_flop: FloatArray,
        moved: FloatArray,
    ) -> FloatArray:
        """Watts by a formula of the model, with or without the cap."""
        values = {**_values(formula, machine, time, float32_flop, moved), **self._own()}
        return np.asarray(formula.evaluate(values))

    def joules(self, machine: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray) -> FloatArray:
        """Energy of the same."""
        return self.watts(machine, time, float32_flop, moved) * time

    def _own(self) -> dict[str, float]:
        return {f"parameter.{name}": getattr(self, name) for name in NAMES}


def with_flop_energy(machine: Machine) -> Machine:
    """The machine with what its power needs, where a GPU states a cap and no energy of a flop: boards of today's."""
    power = machine.power
    if power.cap is None or power.per_flop is not None or machine_kind(machine) != "gpu":
        return machine
    return machine.using({"power.per_flop": FLOP_ENERGY, "power.idle": rated_watts(machine)[1]})


def pooled_power(machine: Machine, use: Use = "inference") -> tuple[PowerModel, float | None]:
    """The factors that hold for a machine, and half of the 80 % band of its log power.

    On GPUs they are pooled over what was metered (servers on H100 and B200, training on three older GPUs) by use and by
    generation; one of another generation has the common ones in a wider band. Other machines have the plain factors,
    fitted to nothing, and no band.
    """
    if machine_kind(machine) != "gpu":
        return PowerModel(), None
    return _pooled(tuple(power_groups(machine, use=use).items()))


@lru_cache(maxsize=64)
def _pooled(groups: tuple[tuple[str, str], ...]) -> tuple[PowerModel, float]:
    fitted, named = power_fit(), dict(groups)
    return PowerModel(**fitted.values(named)), fitted.factors_half_width(TYPICAL, named)


def _flop_watts() -> sp.Expr:
    return symbol("operation.float32_flop") * symbol("machine.power.per_flop") / symbol("time")


def _byte_watts(machine: Machine) -> sp.Expr:
    per_byte = symbol("machine.power.per_byte") if machine.power.per_byte is not None else sp.Float(BYTE_ENERGY)
    caches = [
        is_there(symbol(f"machine.memory.{name}.capacity")) * symbol(f"machine.memory.{name}.per_byte")
        for name, level in machine.memory.items()
        if level.per_byte is not None
    ]
    return symbol("operation.bytes_moved") * sp.Add(per_byte, *caches) / symbol("time")


FLOP_ENERGY = 7.02e-12
"""Joules of a float32 flop of a GPU whose file states none: the catalogue's estimate for 5 nm, of which those are."""
BYTE_ENERGY = 30e-12
"""Joules of a byte from stacked memory, caches passed on the way included (O'Connor et al., MICRO 2017: 4-6 pJ/bit for
the stack alone, 3.9 pJ/bit in HBM2)."""


def _values(
    formula: Formula | Evaluable, machine: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray
) -> Mapping[str, Any]:
    numbers = machine_values(formula, machine)
    return {**numbers, "time": time, "operation.float32_flop": float32_flop, "operation.bytes_moved": moved}


def _require(machine: Machine) -> None:
    missing = [f"power.{name}" for name in ("cap", "per_flop") if getattr(machine.power, name) is None]
    if missing:
        raise InputError(f"machine {machine.name!r} states no {' and no '.join(missing)}: its power is unknown")
