"""Operations of a training step on one core of a data-parallel accelerator with systolic arrays.

Products are padded to the array; what is not compute or memory traffic is hidden behind the longer side but for a
share; every operation pays a start; sums over the cores go over the interconnect; data come in through the infeed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.lazy_sympy import sp
from slipstick.common.records import Table
from slipstick.estimators.base.operation_model import FormulaModel, machine_values
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.estimators.symbolic.parameters import Parameter, check_parameters
from slipstick.estimators.tpu.tpu_products import padded_flop, shape_of
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import MATRIX_KINDS
from slipstick.workloads.graph.workload import Op

SOURCE = "calibrated on the public step rates of ParaDnn on a Cloud TPU v2-8"
DTYPE = "bfloat16"
"""Operands of a product on the matrix unit, unless the workload's are narrower and have a rate."""
NARROW = ("int8", "float8", "float4")
STILL = ("slice", "expand", "squeeze", "unsqueeze", "detach", "alias", "split", "chunk", "select")
"""Views that a compiler makes part of their reader; all others realign data in the tiled memory and cost a copy."""


@dataclass(frozen=True)
class TpuOperations(FormulaModel):
    """Times of one core's operations; the defaults are fitted values (slipstick validate tpu).

    * gemm, convolution, attention, recurrent (as the products they are): max(padded flop / matrix rate, bytes / memory
      rate) + exposed x the shorter of the two;
    * collective: bytes over the interconnect, or through the memory that the cores of one chip share;
    * host: bytes through the infeed, or seconds of the host's cores;
    * reshapes and transposes, and all else: bytes / memory rate;
    * every operation but the host's: + overhead a launch.

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
        """Products by their shape, sums over the cores, what the host does, and the rest."""
        if op.kind in MATRIX_KINDS:
            return op.kind, shape_of(op), operands(op, machine)
        if op.kind == "collective":
            return op.kind
        if op.kind == "host":
            if op.attributes.get("function") == "decode":
                return "decode"
            return "labels" if op.attributes.get("data") == "labels" else "features"
        still = op.kind == "view" and op.attributes.get("function") in STILL
        return "free" if still or op.kind in machine.runtime.free_kinds else "traffic"

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation dims and costs, machine.*, parameter.*.

        Raises InputError where an operation sends over a link that the machine lacks.
        """
        start = symbol("operation.launches") * symbol("parameter.overhead")
        memory_rate = self._rate(machine, machine.bandwidth_factors(machine.main_memory))
        memory_rate *= symbol("parameter.memory_efficiency")
        memory = symbol("operation.bytes_moved") / memory_rate
        if op.kind in MATRIX_KINDS:
            rate = self._rate(machine, machine.peak_factors("matrix", operands(op, machine)))
            compute = padded_flop(op, machine) / (symbol("parameter.compute_efficiency") * rate)
            hidden = symbol("parameter.exposed") * sp.Min(compute, memory)
            terms = Table(compute=compute, memory=memory)
            return Formula(sp.Max(compute, memory) + hidden + start, "s", SOURCE, terms)
        match self.key(op, machine):
            case "free":
                return Formula(sp.Integer(0), "s", "free under this runtime")
            case "collective":
                if not machine.links:
                    raise InputError(f"machine {machine.name!r} has no link for {op.name!r}")
                bytes_sent = symbol("operation.link.network")
                if not joins_cores(machine):
                    return Formula(2 * bytes_sent / memory_rate + start, "s", "by the memory that the cores share")
                link = symbol(f"machine.links.{next(iter(machine.links))}.bandwidth")
                return Formula(bytes_sent / (symbol("parameter.link_efficiency") * link) + start, "s", SOURCE)
            case "features":
                return Formula(symbol("operation.host.bytes") / symbol("parameter.feature_bandwidth"), "s", SOURCE)
            case "labels":
                return Formula(symbol("operation.host.bytes") / symbol("parameter.label_bandwidth"), "s", SOURCE)
            case "decode":
                return Formula(symbol("operation.host.seconds"), "s", "the host's cores share the examples")
        return Formula(memory + start, "s", SOURCE)

    def occupied(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds in which one execution of each operation holds a core's matrix units, padding included."""
        seconds = np.zeros(len(operations))
        groups: dict[Hashable, list[int]] = {}
        for index, op in enumerate(operations):
            if op.kind in MATRIX_KINDS:
                groups.setdefault(self.key(op, machine), []).append(index)
        for places in groups.values():
            rate = machine.peak("matrix", operands(operations[places[0]], machine)) / machine.cores
            flop = Formula(padded_flop(operations[places[0]], machine), "1", SOURCE)
            values: dict[str, Any] = dict(machine_values(flop, machine))
            for name in flop.names:
                if name.startswith("operation."):
                    dim = name.removeprefix("operation.")
                    values[name] = np.array([float(operations[index].dims[dim]) for index in places])
            seconds[places] = flop.evaluate(values) / rate
        return seconds

    def _rate(self, machine: Machine, paths: tuple[str, ...]) -> sp.Expr:
        """A rate of the whole machine, or of one core.

        Of the memory's rate a core has its share among the cores that the machine states, or among more that work:
        fewer cores have no wider path each.
        """
        whole = sp.Mul(*(symbol(f"machine.{path}") for path in paths))
        if self.work_of == "all_cores":
            return whole
        # by number: other cores would be another graph
        sharing = max(machine.cores, machine.stated.cores)
        return whole / (symbol("machine.cores") if "cores" in paths else sharing)


def operands(op: Op, machine: Machine) -> str:
    """The data type of a product's operands on the matrix unit: bfloat16, or a narrower one that has a rate there."""
    rates = machine.engines["matrix"].flop_per_cycle if "matrix" in machine.engines else {}
    return op.dtype if op.dtype in NARROW and op.dtype in rates else DTYPE


def joins_cores(machine: Machine) -> bool:
    """Whether the nearest link joins the machine's cores, and not whole chips, whose cores share their memory.

    A board of several chips lists a link between its cores (Cloud TPU v2-8: eight); one chip those to other chips. The
    two cores of a TPU v4 and v5p share their memory and work as one device (Jouppi et al., ISCA 2023, section 2; Google
    Cloud TPU documentation, "MegaCore").
    """
    return bool(machine.links) and next(iter(machine.links.values())).width <= machine.stated.cores
