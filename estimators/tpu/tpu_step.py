"""Operations of a training step on one core of a data-parallel accelerator with systolic arrays.

Products are padded to the array; what is not compute or memory traffic is hidden behind the longer side but for a
share; every operation pays a start; sums over the cores go over the interconnect; data come in through the infeed.

Matrix work of operations on a systolic array: the products that each one is, padded to the array's sides.

A grouped convolution is either one product a group or one of all channels with zeros between the groups, whichever the
array does faster: XLA's ConvolutionGroupConverter does the latter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel, machine_values
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import AXES, family_of
from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True)
class MatrixProduct:
    """`count` products (m, k) x (k, n): m along the array's columns, n and k along its rows."""

    count: sp.Expr
    m: sp.Expr
    n: sp.Expr
    k: sp.Expr


def shape_of(op: Op) -> Hashable:
    """Operations of equal shape are the same products, with other sizes."""
    facts = op.attributes
    return facts.get("pass", "forward"), bool(facts.get("transposed")), bool(facts.get("projection"))


def padded_flop(op: Op, machine: Machine) -> sp.Expr:
    """The flop that the array does for an operation: every side is filled up to a multiple of the array's.

    Symbols: operation.DIM, machine.engines.matrix.rows and .columns.
    Raises InputError where the machine's matrix engine is no systolic array.
    """
    if "matrix" not in machine.engines or not machine.engines["matrix"].rows:
        rows = machine.engines["matrix"].rows if "matrix" in machine.engines else "no matrix engine"
        raise InputError(f"machine {machine.name!r}: engines.matrix.rows is {rows}; want a systolic array")
    if op.kind == "convolution":
        return sp.Min(*(_filled(each) for each in _convolutions(op)), evaluate=False)
    return sp.Add(*(_filled(each) for each in _products(op)))


def _filled(product: MatrixProduct) -> sp.Expr:
    rows, columns = symbol("machine.engines.matrix.rows"), symbol("machine.engines.matrix.columns")
    sides = ((product.m, columns), (product.n, rows), (product.k, rows))
    return 2 * product.count * sp.Mul(*(side * sp.ceiling(size / side) for size, side in sides))


def _products(op: Op) -> Iterator[MatrixProduct]:
    """Of one execution of an operation that is no convolution."""
    dim = {name: symbol(f"operation.{name}") for name in op.dims}
    back = op.attributes.get("pass") == "backward"
    if op.kind == "gemm":
        yield MatrixProduct(dim["batch"], dim["m"], dim["n"], dim["k"])
    elif op.kind == "attention":
        count = dim["batch"] * dim["heads"] * (2 if back else 1)
        yield MatrixProduct(count, dim["keys"], dim["queries"], dim["head_dim"])
        yield MatrixProduct(count, dim["value_dim"], dim["queries"], dim["keys"])
    else:
        yield MatrixProduct(sp.Integer(1), dim["gates"] * dim["hidden"], dim["batch"], dim["outputs"])
        if op.attributes.get("projection"):
            yield MatrixProduct(sp.Integer(1), dim["outputs"], dim["batch"], dim["hidden"])


def _convolutions(op: Op) -> Iterator[MatrixProduct]:
    """The products of the windows: a group at a time, and all channels at once."""
    dim = {name: symbol(f"operation.{name}") for name in op.dims}
    window = sp.Mul(*(dim[f"kernel_{axis}"] for axis in AXES))
    places = sp.Mul(*(dim[f"{'in' if op.attributes.get('transposed') else 'out'}_{axis}"] for axis in AXES))
    positions = dim["batch"] * places
    for groups, apart in ((dim["groups"], dim["groups"]), (sp.Integer(1), sp.Integer(1))):
        inputs, outputs = dim["channels_in"] / apart, dim["channels_out"] / apart
        match op.attributes.get("pass", "forward"):
            case "backward_data":
                yield MatrixProduct(groups, inputs, positions, outputs * window)
            case "backward_weight":
                yield MatrixProduct(groups, outputs, inputs * window, positions)
            case _:
                yield MatrixProduct(groups, outputs, positions, inputs * window)


SOURCE = "calibrated on the public step rates of ParaDnn on a Cloud TPU v2-8"
DTYPE = "bfloat16"
"""Operands of a product on the matrix unit, unless the workload's are narrower and have a rate."""
NARROW = ("int8", "float8", "float4")
STILL = ("slice", "expand", "squeeze", "unsqueeze", "detach", "alias", "split", "chunk", "select")
"""Views that a compiler makes part of their reader; all others realign data in the tiled memory and cost a copy."""


@dataclass(frozen=True)
class TpuOperations(CheckedParameters, FormulaModel):
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

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Products by their shape, sums over the cores, what the host does, and the rest."""
        if family_of(op.kind).product:
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
        if family_of(op.kind).product:
            rate = self._rate(machine, machine.peak_factors("matrix", operands(op, machine)))
            compute = padded_flop(op, machine) / (symbol("parameter.compute_efficiency") * rate)
            hidden = symbol("parameter.exposed") * sp.Min(compute, memory, evaluate=False)
            terms = FrozenDict(compute=compute, memory=memory)
            longer = sp.Max(compute, memory, evaluate=False)  # sympy would try for long to order them
            return Formula(longer + hidden + start, "s", SOURCE, terms)
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
        return Formula(memory + start, "s", SOURCE, FrozenDict(memory=memory))

    def occupied(self, operations: Sequence[Op], machine: Machine) -> FloatArray:
        """Seconds in which one execution of each operation holds a core's matrix units, padding included."""
        seconds = np.zeros(len(operations))
        groups: dict[Hashable, list[int]] = {}
        for index, op in enumerate(operations):
            if family_of(op.kind).product:
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
