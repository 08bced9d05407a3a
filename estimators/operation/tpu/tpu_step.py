"""Operations of a training step on one core of a data-parallel accelerator with systolic arrays.

Products are padded to the array; what is not compute or memory traffic is hidden behind the longer side but for a
share; every operation pays a start; sums over the cores go over the interconnect; data come in through the infeed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import sympy as sp

from slipstick.estimators.core.formula import Formula
from slipstick.estimators.core.operation_model import FormulaModel
from slipstick.estimators.core.parameters import Parameter, check_parameters
from slipstick.hwmodels.files.expressions import symbol
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import AXES
from slipstick.workloads.graph.workload import Op

SOURCE = "calibrated on the public step rates of ParaDnn on a Cloud TPU v2-8"
DTYPE = "bfloat16"
"""Operands of a product on the matrix unit, whatever the workload's data type."""


@dataclass(frozen=True)
class TpuOperations(FormulaModel):
    """Times of one core's operations; the defaults are fitted values (slipstick validate tpu).

    * gemm and convolution (as a product of output channels, window and output places): max(padded flop / matrix rate,
      bytes / memory rate) + exposed x the shorter of the two;
    * collective: bytes over the interconnect; host: bytes through the infeed; all else: bytes / memory rate;
    * every operation but the infeed: + overhead a launch.

    `work_of`: whether operations are one core's share, or the whole machine's, shared out along the batch.
    """

    compute_efficiency: Annotated[float, Parameter("1", "share of the matrix units' peak", 0.05, 1.0)] = 0.97
    memory_efficiency: Annotated[float, Parameter("1", "share of the memory bandwidth", 0.05, 1.0)] = 0.612
    link_efficiency: Annotated[float, Parameter("1", "share of the interconnect's bandwidth", 0.01, 1.0)] = 0.5
    exposed: Annotated[float, Parameter("1", "share of the shorter side that is not hidden", 0.0, 1.0)] = 0.2
    overhead: Annotated[float, Parameter("s", "start of an operation", 0.0, 1e-3)] = 4.58e-6
    feature_bandwidth: Annotated[float, Parameter("byte/s", "infeed of features by the host", 1e6, 1e12)] = 5.66e9
    label_bandwidth: Annotated[float, Parameter("byte/s", "infeed of labels by the host", 1e6, 1e12)] = 3.69e9
    work_of: Literal["one_core", "all_cores"] = "one_core"

    def __post_init__(self) -> None:
        check_parameters(self)

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Products, sums over the cores, features, labels, and the rest."""
        if op.kind == "convolution":
            return "transposed" if op.attributes.get("transposed") else "convolution"
        if op.kind in ("gemm", "collective"):
            return op.kind
        if op.kind == "host":
            return "labels" if op.attributes.get("data") == "labels" else "features"
        return "free" if op.kind in machine.runtime.free_kinds else "traffic"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation dims and costs, machine.*, parameter.*."""
        start = symbol("operation.launches") * symbol("parameter.overhead")
        memory = symbol("operation.bytes_moved") / (
            symbol("parameter.memory_efficiency") * self._rate(machine, machine.bandwidth_factors(machine.main_memory))
        )
        match self.key(op, machine):
            case "free":
                return Formula(sp.Integer(0), "s", "free under this runtime")
            case "gemm" | "convolution" | "transposed":
                rate = self._rate(machine, machine.peak_factors("matrix", DTYPE))
                sides = _sides(op)
                compute = _padded_flop(machine, *sides) / (symbol("parameter.compute_efficiency") * rate)
                hidden = symbol("parameter.exposed") * sp.Min(compute, memory)
                terms = Table(compute=compute, memory=memory)
                return Formula(sp.Max(compute, memory) + hidden + start, "s", SOURCE, terms)
            case "collective":
                if not machine.links:
                    raise InputError(f"machine {machine.name!r} has no link for {op.name!r}")
                link = symbol(f"machine.links.{next(iter(machine.links))}.bandwidth")
                bytes_sent = symbol("operation.link.network")
                return Formula(bytes_sent / (symbol("parameter.link_efficiency") * link) + start, "s", SOURCE)
            case "features":
                return Formula(symbol("operation.host.bytes") / symbol("parameter.feature_bandwidth"), "s", SOURCE)
            case "labels":
                return Formula(symbol("operation.host.bytes") / symbol("parameter.label_bandwidth"), "s", SOURCE)
        return Formula(memory + start, "s", SOURCE)

    def _rate(self, machine: Machine, paths: tuple[str, ...]) -> sp.Expr:
        """A rate of the whole machine, or of one core."""
        whole = sp.Mul(*(symbol(f"machine.{path}") for path in paths))
        return whole / symbol("machine.cores") if self.work_of == "one_core" else whole


def _sides(op: Op) -> tuple[sp.Expr, dict[str, sp.Expr]]:
    """How many products an operation is, and the dims of each: m, n (the array's columns and rows), and k inside."""
    dim = {name: symbol(f"operation.{name}") for name in op.dims}
    if op.kind == "gemm":
        return dim["batch"], {name: dim[name] for name in ("m", "n", "k")}
    window = sp.Mul(*(dim[f"kernel_{axis}"] for axis in AXES))
    places = sp.Mul(*(dim[f"{'in' if op.attributes.get('transposed') else 'out'}_{axis}"] for axis in AXES))
    groups = dim["groups"]
    inputs, outputs = dim["channels_in"] / groups * window, dim["channels_out"] / groups
    return groups, {"m": outputs, "n": dim["batch"] * places, "k": inputs}


def _padded_flop(machine: Machine, products: sp.Expr, dims: Mapping[str, sp.Expr]) -> sp.Expr:
    """The flop that the array does: every dim is filled up to a multiple of its side."""
    rows, columns = symbol("machine.engines.matrix.rows"), symbol("machine.engines.matrix.columns")
    if not machine.engines["matrix"].rows:
        raise InputError(f"machine {machine.name!r}: engines.matrix.rows is 0; want a systolic array")
    sides = {"m": columns, "n": rows, "k": rows}
    filled = [side * sp.ceiling(dims[dim] / side) for dim, side in sides.items()]
    return 2 * products * sp.Mul(*filled)
