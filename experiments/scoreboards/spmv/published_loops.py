"""Loops of PageRank over one bandwidth, as the SpMV paper published them: a baseline."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.roofline.roofline import product_of_fields
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.blocks import VALUE_BYTES

PAPER = "Barreda, Dolz, Castano 2020, Section 6.2"


@dataclass(frozen=True)
class LoopRoofline(FormulaModel):
    """I = max(flops, 1) / (max(memops, 1) x 8 bytes), T = max(flops, 1) / min(p, b I), as published.

    p is the machine's double-precision vector peak, b the bandwidth of its main memory.
    """

    def key(self, op: Op, machine: Machine) -> Hashable:
        """One formula for all loops."""
        return "loop"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.flops, operation.memops, machine.*."""
        flops = sp.Max(symbol("operation.flops"), 1)
        traffic = sp.Max(symbol("operation.memops"), 1) * VALUE_BYTES
        peak = product_of_fields(machine.peak_factors("vector", "float64"))
        bandwidth = product_of_fields(machine.bandwidth_factors(machine.main_memory))
        intensity = flops / traffic
        terms = {"compute": flops / peak, "memory": flops / (bandwidth * intensity)}
        return Formula(flops / sp.Min(peak, bandwidth * intensity), "s", PAPER, FrozenDict(terms))
