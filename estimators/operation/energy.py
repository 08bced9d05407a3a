"""Power of a machine at work: idle, what an active chip draws, and energy for each flop and each byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import sympy as sp
from scipy.optimize import lsq_linear

from estimators.extrema import Largest, Smallest
from estimators.formula import FloatArray, Formula
from estimators.parameters import Parameter, check_parameters
from hwmodels.expressions import symbol
from hwmodels.files import InputError
from hwmodels.machine import Machine

SOURCE = "docs/notes/gpu-operations.md; energy roofline: Choi et al., IPDPS 2013"


@dataclass(frozen=True)
class PowerModel:
    """P = idle + active (cap - idle) + flop e_flop f + bytes e_byte b, all over time, never above the cap.

    e_flop is the machine's energy of a float32 flop times the share of the dtype; e_byte the machine's, or one of
    memory technology. Parameters are factors, so that they carry over to other machines.
    """

    active: Annotated[float, Parameter("1", "share of the range above idle that any running kernel draws", 0, 1)] = 0.1
    flop: Annotated[float, Parameter("1", "energy of a flop over the machine's number", 0, 100)] = 1.0
    byte: Annotated[float, Parameter("1", "energy of a byte over the machine's number", 0, 100)] = 1.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def formula(self, on: Machine) -> Formula:
        """Watts. Symbols: time, operation.float32_flop (flop at the energy of a float32 flop), operation.bytes_moved.

        Raises
        ------
        InputError
            Where the machine states no cap or no energy of a flop.
        """
        _require(on)
        idle, cap = symbol("machine.power.idle"), symbol("machine.power.cap")
        draw = (
            idle
            + symbol("parameter.active") * (cap - idle)
            + symbol("parameter.flop") * _flop_watts()
            + symbol("parameter.byte") * _byte_watts(on)
        )
        return Formula(Smallest(cap, Largest(idle, draw)), "W", SOURCE)

    def watts(self, on: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray) -> FloatArray:
        """Mean power of operations of the given seconds, flop and bytes, each of one shape."""
        values = {**_values(on, time, float32_flop, moved), **self._own()}
        return np.asarray(self.formula(on).evaluate(values))

    def joules(self, on: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray) -> FloatArray:
        """Energy of the same."""
        return self.watts(on, time, float32_flop, moved) * time

    def _own(self) -> dict[str, float]:
        return {f"parameter.{name}": getattr(self, name) for name in ("active", "flop", "byte")}


def fit_power(
    on: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray, watts: FloatArray
) -> PowerModel:
    """Non-negative least squares in relative error; rows at the cap say nothing about the energies and are left out."""
    _require(on)
    cap, idle = float(on.power.cap or 0), float(on.power.idle)
    below = watts < 0.93 * cap
    if below.sum() < 3:
        raise InputError(f"power of {on.name}: {int(below.sum())} rows below the cap, want at least 3")
    values = {name: v[below] if np.ndim(v) else v for name, v in _values(on, time, float32_flop, moved).items()}
    columns = [
        np.full(below.sum(), cap - idle),
        np.broadcast_to(Formula(_flop_watts(), "W", SOURCE).evaluate(values), below.sum()),
        np.broadcast_to(Formula(_byte_watts(on), "W", SOURCE).evaluate(values), below.sum()),
    ]
    matrix = np.stack(columns, axis=1) / watts[below, None]
    found = lsq_linear(matrix, 1 - idle / watts[below], bounds=(0, [1, 100, 100]))
    return PowerModel(*map(float, found.x))


def _flop_watts() -> sp.Expr:
    return symbol("operation.float32_flop") * symbol("machine.power.per_flop") / symbol("time")


def _byte_watts(on: Machine) -> sp.Expr:
    per_byte = symbol("machine.power.per_byte") if on.power.per_byte is not None else sp.Float(BYTE_ENERGY)
    return symbol("operation.bytes_moved") * per_byte / symbol("time")


BYTE_ENERGY = 30e-12
"""Joules of a byte from stacked memory, caches passed on the way included (O'Connor et al., MICRO 2017: 4-6 pJ/bit for
the stack alone, 3.9 pJ/bit in HBM2)."""


def _values(on: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray) -> Mapping[str, Any]:
    power = {f"machine.power.{name}": getattr(on.power, name) for name in ("idle", "cap", "per_flop", "per_byte")}
    own = {name: value for name, value in power.items() if value is not None}
    return {**own, "time": time, "operation.float32_flop": float32_flop, "operation.bytes_moved": moved}


def _require(on: Machine) -> None:
    if on.power.cap is None or on.power.per_flop is None:
        raise InputError(f"machine {on.name!r} states no power.cap or no power.per_flop: its power cannot be told")
