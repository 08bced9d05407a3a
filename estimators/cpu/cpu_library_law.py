"""What timed networks say of a CPU's library: the numbers of `CpuLibrary` as a law over chips, as fitted.

Operations as a library of a multi-core CPU runs them: a start, arithmetic and traffic, one after the other.

Unlike the roofline's, the sides add: kernels of a single image are too short to hide one behind the other, and the sum
met the timed networks better than the larger of the two (docs/notes/cpu-and-systolic.md).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, LawFit, ParameterPrior
from slipstick.estimators.roofline.roofline import product_of_fields, rated_flop, widened
from slipstick.estimators.symbolic.cache_residency import capacity_of_all
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter, parameters
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op

SOURCE = "docs/notes/cpu-and-systolic.md; classes of convolutions: oneDNN developer guide"
CpuKernel = Literal["dense", "grouped", "depthwise", "product", "other"]
SPAN = 32 * 2**20
"""Bytes of a kernel up to which networks were timed: those of the largest of them (ViT-giant's products)."""
STREAM = 1 / 0.82
"""A full domain's share of its data sheet on twelve processors (`slipstick validate bandwidth`)."""
CORE_BANDWIDTH = 15.5e9
"""Bytes a second that one core gets from main memory (measured on a server's core, docs/notes/cpu-and-systolic.md)."""
PRODUCTS = ("gemm", "attention", "recurrent")


def cpu_kernel(op: Op) -> CpuKernel:
    """Which kernel of a library an operation takes: products, convolutions by their groups, or the rest."""
    if op.kind in PRODUCTS:
        return "product"
    if op.kind != "convolution":
        return "other"
    if op.dims["groups"] == 1:
        return "dense"
    return "depthwise" if op.dims["groups"] == op.dims["channels_in"] else "grouped"


FORK = 5e-6
"""Seconds in which the cores begin and end a step of a recurrent layer: one call runs the whole layer (oneDNN's LSTM),
so that no operator starts a step. A judgement: a parallel region of OpenMP takes 1 to 10 us on 16 to 128 cores."""


@dataclass(frozen=True)
class CpuLibrary(CheckedParameters, FormulaModel):
    """t = launches (launch overhead + start) + flop slowdown / peak + bytes x traffic / bandwidth of main memory.

    Few cores do not draw all of that bandwidth (`CORE_BANDWIDTH` each).

    Slowdowns are peak over the rate that is reached, traffic is the time of a byte over that of main memory: below one
    where caches hold it, above where reads are too few to stream. What a kernel moves beyond `SPAN` bytes streams
    (`stream`). Other kernels than products and convolutions do no arithmetic that counts.
    """

    dense: Annotated[float, Parameter("1", "slowdown of convolutions of one group", 1.0, 1e3)] = 2.0
    grouped: Annotated[float, Parameter("1", "slowdown of convolutions of several groups", 1.0, 1e3)] = 2.0
    depthwise: Annotated[float, Parameter("1", "slowdown of convolutions of a channel a group", 1.0, 1e3)] = 10.0
    product: Annotated[float, Parameter("1", "slowdown of matrix products", 1.0, 1e3)] = 2.0
    start: Annotated[float, Parameter("s", "for a convolution or a product", 0.0, 1.0)] = 5e-5
    other_start: Annotated[float, Parameter("s", "for any other kernel", 0.0, 1.0)] = 2e-5
    traffic: Annotated[float, Parameter("1", "time of a byte of products and convolutions", 0.0, 1e3)] = 1.0
    depthwise_traffic: Annotated[float, Parameter("1", "time of a byte of depthwise convolutions", 0.0, 1e3)] = 1.0
    other_traffic: Annotated[float, Parameter("1", "time of a byte of any other kernel", 0.0, 1e3)] = 1.0

    stream: Annotated[float, Parameter("1", "time of a byte of a long stream", 1.0, 1e3)] = STREAM

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations that share a formula."""
        free, products = (
            op.kind in machine.runtime.free_kinds,
            [one for one in op.cost if one.startswith("flop.matrix.")],
        )
        return free, op.kind == "recurrent", cpu_kernel(op), tuple(sorted(products)), widened(machine, op.dtype)

    def form(self, machine: Machine) -> Hashable:
        """That of the machine: its numbers and the parameters are symbols."""
        return machine.form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.flop.*, operation.bytes_moved, operation.launches, machine.*, parameter.*."""
        if op.kind in machine.runtime.free_kinds:
            return Formula(sp.Integer(0), "s", "free under this runtime")
        rates = [(name, engine, machine.peak_factors(engine, at)) for name, engine, at in rated_flop(op, machine)]
        *inner, main = machine.memory
        kept = sum((capacity_of_all(machine, level) for level in inner), sp.Integer(0))
        starts = sp.Float(FORK) if op.kind == "recurrent" else None
        wide = 2 if widened(machine, op.dtype) else 1
        return _formula(cpu_kernel(op), tuple(rates), machine.bandwidth_factors(main), kept, starts, wide)


@lru_cache(maxsize=256)
def _formula(
    kernel: CpuKernel,
    rates: tuple[tuple[str, str, tuple[str, ...]], ...],
    bandwidth: tuple[str, ...],
    kept: sp.Expr,
    starts: sp.Expr | None = None,
    wide: int = 1,
) -> Formula:
    """The three sides, and never less than peak and bandwidth allow (`PhysicalBound`).

    Where 16 bits are converted to 32 and back, what is moved counts `wide` times.
    """
    start = "other_start" if kernel == "other" else "start"
    traffic = f"{kernel}_traffic" if kernel in ("depthwise", "other") else "traffic"
    launch = symbol("machine.runtime.launch_overhead") + symbol(f"parameter.{start}")
    moved, slowdown = wide * symbol("operation.bytes_moved"), symbol(f"parameter.{kernel}")
    near = Smallest(moved, sp.Integer(SPAN))
    rate = Smallest(product_of_fields(bandwidth), symbol("machine.cores") * sp.Float(CORE_BANDWIDTH))
    engines: dict[str, sp.Expr] = {}
    products = sp.Integer(0)
    for name, engine, factors in rates:
        seconds = symbol(f"operation.{name}") / product_of_fields(factors)
        engines[engine] = engines.get(engine, sp.Integer(0)) + seconds
        products += seconds if name.startswith("flop.matrix.") and kernel != "other" else 0
    terms = {
        "fixed": symbol("operation.launches") * launch if starts is None else starts,
        "compute": products * slowdown,
        "memory": (near * symbol(f"parameter.{traffic}") + (moved - near) * symbol("parameter.stream")) / rate,
    }
    least = Largest((moved / wide - kept) / product_of_fields(bandwidth), *engines.values())
    return Formula(Largest(sp.Add(*terms.values()), least), "s", SOURCE, FrozenDict(terms))


NAME = "cpu-library"
PACE = "pace"
"""How much slower a chip does arithmetic than its clock says: clocks under wide vectors and turbo differ from it."""
STREAMED = "streamed"
COMPUTE: tuple[CpuKernel, ...] = ("dense", "grouped", "depthwise", "product")
STARTS = ("start", "other_start")
TRAFFIC = ("traffic", "depthwise_traffic", "other_traffic")
KINDS = {
    name: kind for kind, names in (("slowdown", COMPUTE), ("start", STARTS), ("traffic", TRAFFIC)) for name in names
}
TYPICAL = {
    "dense": 2e-3, "grouped": 1e-4, "depthwise": 1e-4, "product": 2e-3, "start": 60.0, "other_start": 40.0,
    "traffic": 1.5e-3, "depthwise_traffic": 2e-4, "other_traffic": 5e-4, STREAMED: 0.0,
}  # fmt: skip
"""Columns of a network of middle size, for its band."""


def _priors() -> tuple[ParameterPrior, ...]:
    notes = parameters(CpuLibrary())
    each = tuple(
        ParameterPrior(
            name, note.unit, note.meaning, value, 1.0, max(note.low, 1e-9), note.high, KINDS[name],
            ("chip",) if name in STARTS else (),
        )
        for name, (value, note) in notes.items() if name in KINDS
    )  # fmt: skip
    return (*each, ParameterPrior(PACE, "1", "slowdown of a chip's arithmetic", 1.0, 0.0, 0.1, 10.0, PACE, ("chip",)))


def _seconds(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row."""
    compute = sum(parameters[name] * columns[name] for name in COMPUTE)
    rest = sum(parameters[name] * columns[name] for name in (*STARTS, *TRAFFIC))
    return np.asarray(parameters[PACE] * compute + rest + columns[STREAMED], dtype=float)


CPU_LIBRARY_LAW = FormulaLaw(NAME, _priors(), _seconds, (Grouping("chip", 0.3),))
"""Seconds of a network on a CPU.

Columns, by the parameter that multiplies them: seconds of each class of products at the peak, numbers of kernels
that start, and seconds of bytes at the bandwidth of main memory; `streamed`, seconds of what streams."""


def chip_of(machine: Machine) -> str:
    """The group of a machine: the processor as its file names it."""
    return machine.name


@lru_cache(maxsize=1)
def library_fit() -> LawFit:
    """The fitted numbers that ship."""
    return load_fitted(NAME).fit(NAME)


def cpu_library(machine: Machine, fit: LawFit | None = None) -> tuple[CpuLibrary, float]:
    """The library's numbers on a machine, and half of the 80 % band of a network's log time.

    `fit`: another than the one that ships.
    """
    groups = {"chip": [chip_of(machine)]}
    law, fitted = CPU_LIBRARY_LAW, fit or library_fit()
    values = {name: float(value[0]) for name, value in fitted.values(law, groups).items()}
    pace = values.pop(PACE)
    values |= {name: max(1.0, pace * values[name]) for name in COMPUTE}
    typical = {name: np.array([value]) for name, value in TYPICAL.items()}
    return CpuLibrary(**values), float(fitted.half_width(law, typical, groups)[0])
