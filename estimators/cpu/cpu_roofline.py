"""Operations on a multi-core CPU: saturating memory, write-allocate, caches by working set, chains and gathers.

Beside the roofline's two limits this knows four things of CPUs: main memory saturates with the cores (the law of
`cpu.bandwidth`, from the machine's measured `bandwidth_by_cores`); a store loads its line first; what
fits into a cache is served by it; and some operations wait for latencies, whatever the bandwidth: a sum whose order may
not change, and rows picked by index from a table that the caches do not hold.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from slipstick.common.expressions import sp, symbol
from slipstick.common.formatting import format_quantity
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.roofline.roofline import product_of_fields, rated_flop
from slipstick.estimators.symbolic.cache_residency import (
    blocked_cost,
    capacity_of_all,
    cost_by_level,
    kept_caches,
    rated_caches,
)
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op

SOURCE = "ECM and roofline of multi-core CPUs: Stengel et al., ICS 2015; Hofmann et al., ISC 2018"


@dataclass(frozen=True)
class CpuRoofline(CheckedParameters, FormulaModel):
    """t = max(arithmetic, traffic, latency) + lowering + launches x (launch overhead + overhead).

    * traffic = (read + (1 + write_allocate) written) at the rates of the levels that hold the bytes (as the runtime's
      caches are cold, warm or hot); an operation reads and writes each of them once: its bytes are its working set.
    * a product reads its operands again as blocks of them leave each cache (`cache_residency.blocked_cost`).
    * latency, for kind ``reduction`` with attribute ``order = "strict"``: elements x addition / clock; for kind
      ``gather``: rows x latency of the level that holds the table / (overlap x cores). The table is dim ``table``
      (rows of it) where the operation has one, else the picked rows.
    * lowering, for kind ``convolution`` with a kernel of several points or a stride: libraries that turn it into a
      matrix product first write every input element once for each kernel point that meets it (im2col), on one core.
      Convolutions in groups have kernels of their own, which write nothing (oneDNN developer guide, "Convolution").
    """

    compute_efficiency: Annotated[float, Parameter("1", "share of the peak rate that is reached", 1e-6, 1.0)] = 1.0
    memory_efficiency: Annotated[float, Parameter("1", "share of the bandwidth that is reached", 1e-6, 1.0)] = 1.0
    overhead: Annotated[float, Parameter("s", "added to every launch", 0.0, 10.0)] = 0.0
    write_allocate: Annotated[float, Parameter("1", "share of written lines that are loaded first", 0.0, 1.0)] = 1.0
    sharpness: Annotated[float, Parameter("1", "exponent of the saturation of main memory", 1.0, 50.0)] = 3.5
    addition: Annotated[float, Parameter("cycle", "latency of a dependent addition", 0.1, 100.0)] = 4.0
    overlap: Annotated[float, Parameter("1", "misses of a core that are in flight together", 0.1, 100.0)] = 8.0
    lowering: Annotated[
        float, Parameter("cycle", "for an element of a convolution's im2col matrix; 0: it is never written", 0.0, 100.0)
    ] = 0.0

    def caches(self, machine: Machine) -> str:
        """Hot where the runtime says none: loops over the same data on the same cores."""
        last = next(reversed(rated_caches(machine)), "")
        size = machine.memory[last].capacity * machine.instances(last) if last else 0.0
        if machine.runtime.cache or not size:
            return f"{machine.runtime.cache or 'hot'} caches"
        held = format_quantity(float(f"{size:.3g}"), "byte")
        return (
            f"hot caches: operations of at most {held} find their data in {last}, larger ones in {machine.main_memory}"
        )

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations that share a formula: `_Parts` of it."""
        return _Parts.of(op, machine)

    def form(self, machine: Machine) -> Hashable:
        """That of the machine: its numbers and the parameters are symbols."""
        return machine.form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.flop.*, operation.read and written, operation.launches, machine.*, parameter.*."""
        return _formula(_Parts.of(op, machine))


@dataclass(frozen=True)
class CpuShares(CpuRoofline):
    """The same with what a minute's measurements tell apart: caches from main memory, and what hides behind what.

    t = max(arithmetic, traffic, latency) + (1 - hidden) x min(arithmetic, traffic) + packing + the rest as in
    `CpuRoofline`.

    * A product of few rows waits for its weights before it multiplies them (ECM's case without overlap); bytes of main
      memory come at `main_efficiency` of the share of the bandwidth that those of caches reach.
    * Arithmetic takes 1 + narrow / width times as long: width is the output channels of a convolution, which fill the
      lanes of a vector together, or the points of a pool's window, whose loop starts anew for each result (Hockney's
      n1/2).
    * packing: products copy their operands into panels before they multiply (Goto and van de Geijn, 2008); a matrix
      times a vector copies nothing.
    """

    main_efficiency: Annotated[
        float, Parameter("1", "share of main memory's bandwidth, beside that of all levels", 1e-6, 10.0)
    ] = 1.0
    hidden: Annotated[
        float, Parameter("1", "share of the shorter of arithmetic and traffic that the longer hides", 0.0, 1.0)
    ] = 1.0
    narrow: Annotated[
        float, Parameter("1", "output channels, or points of a window, that reach half of the rate", 0.0, 1000.0)
    ] = 0.0
    packing: Annotated[
        float, Parameter("cycle", "for an element of a product's operands that is copied first", 0.0, 100.0)
    ] = 0.0

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations that share a formula: `_Parts` of it, and what its arithmetic depends on."""
        return _Parts.of(op, machine), op.kind if op.kind in ("gemm", *_WIDTHS) else ""

    def formula(self, op: Op, machine: Machine) -> Formula:
        """As that of `CpuRoofline`, with four parameters more."""
        return _shares_formula(_Parts.of(op, machine), op.kind)


_WIDTHS = {"convolution": "channels_out", "pool": "window"}
"""What arithmetic of a kind is slower by where there is little of it."""


@dataclass(frozen=True)
class _MemoryLevel:
    """What the formula needs to know of a memory level; `capacity` is that of all its instances."""

    name: str
    rate: tuple[str, ...]
    capacity: sp.Expr

    @property
    def one(self) -> sp.Expr:
        """Bytes of one instance."""
        return symbol(f"machine.memory.{self.name}.capacity")


@dataclass(frozen=True)
class _Parts:
    """The shape of a formula, without numbers: machines that differ in values share it."""

    free: bool = False
    flops: tuple[tuple[str, tuple[str, ...]], ...] = ()
    moved: tuple[str, ...] = ()
    product: bool = False
    waits: str = ""
    lowered: str = ""
    table: str = ""
    element_bytes: float = 0
    levels: tuple[_MemoryLevel, ...] = ()
    kept: int = 0
    curve: bool = False

    @classmethod
    def of(cls, op: Op, machine: Machine) -> _Parts:
        """Of an operation on a machine."""
        if op.kind in machine.runtime.free_kinds:
            return cls(free=True)
        flops = [(name, machine.peak_factors(*served)) for name, *served in rated_flop(op, machine)]
        main = machine.main_memory
        caches = rated_caches(machine)
        levels = (*caches, main)
        waits = _waits(op)
        if waits == "gather" and any(machine.memory[name].latency is None for name in levels):
            waits = ""
        return cls(
            flops=tuple(flops),
            moved=tuple(name for name in ("read", "written") if op.cost[name] != 0),
            product=op.kind == "gemm",
            waits=waits,
            lowered=_lowered(op),
            table="table" if "table" in op.dims else "rows",
            element_bytes=SIZE_BYTES.get(op.dtype, 4) if waits == "gather" or op.kind == "gemm" else 0,
            levels=tuple(
                _MemoryLevel(name, machine.bandwidth_factors(name), capacity_of_all(machine, name)) for name in levels
            ),
            kept=kept_caches(len(caches), machine.runtime.cache or "hot"),
            curve=bool(machine.memory[main].bandwidth_by_cores),
        )


@lru_cache(maxsize=1024)
def _formula(parts: _Parts) -> Formula:
    if parts.free:
        return Formula(sp.Integer(0), "s", "free under this runtime")
    terms = {"compute": sp.Integer(0), "memory": sp.Integer(0)}
    for name, factors in parts.flops:
        rate = product_of_fields(factors)
        terms["compute"] += symbol(f"operation.{name}") / (symbol("parameter.compute_efficiency") * rate)
    if parts.moved:
        terms["memory"] = _traffic(parts, _rates(parts))
    if parts.waits == "chain":
        terms["latency"] = symbol("operation.elements") * symbol("parameter.addition") / symbol("machine.clock")
    if parts.waits == "gather":
        terms["latency"] = _gather(parts)
    overhead = symbol("machine.runtime.launch_overhead") + symbol("parameter.overhead")
    expression = Largest(*terms.values()) + symbol("operation.launches") * overhead
    if parts.lowered:
        terms["lowering"] = _lowering(parts.lowered)
        expression += terms["lowering"]
    return Formula(expression, "s", SOURCE, FrozenDict(terms))


@lru_cache(maxsize=1024)
def _shares_formula(parts: _Parts, kind: str) -> Formula:
    plain = _formula(parts)
    if parts.free or not parts.moved:
        return plain
    *caches, main = _rates(parts)
    terms = {**plain.terms, "memory": _traffic(parts, [*caches, main * symbol("parameter.main_efficiency")])}
    if kind in _WIDTHS:
        terms["compute"] *= 1 + symbol("parameter.narrow") / symbol(f"operation.{_WIDTHS[kind]}")
    added = plain.expression - Largest(*(term for name, term in plain.terms.items() if name != "lowering"))
    longest = Largest(*(term for name, term in terms.items() if name != "lowering"))
    shorter = terms["compute"] + terms["memory"] - Largest(terms["compute"], terms["memory"])
    if kind == "gemm":
        terms["packing"] = _packing()
        added += terms["packing"]
    return Formula(longest + (1 - symbol("parameter.hidden")) * shorter + added, "s", SOURCE, FrozenDict(terms))


def _packing() -> sp.Expr:
    """Both operands are copied once, by all cores together."""
    batch, m, n, k = (symbol(f"operation.{name}") for name in ("batch", "m", "n", "k"))
    elements = batch * k * (m + n) * (1 - 1 / n) * (1 - 1 / m)
    return elements * symbol("parameter.packing") / (symbol("machine.clock") * symbol("machine.cores"))


def _traffic(parts: _Parts, rates: list[sp.Expr]) -> sp.Expr:
    """Seconds of the bytes at the rates of the levels that hold them."""
    loaded, stored = (
        symbol(f"operation.{name}") if name in parts.moved else sp.Integer(0) for name in ("read", "written")
    )
    traffic = loaded + (1 + symbol("parameter.write_allocate")) * stored
    costs = [1 / rate for rate in rates]
    seconds = traffic * _by_level(loaded + stored, parts, costs)
    if parts.product:
        multiplied = sp.Mul(*(symbol(f"operation.{name}") for name in ("batch", "m", "n", "k")))
        caches = [level.one for level in parts.levels[:-1]]
        seconds += blocked_cost(multiplied, loaded, parts.element_bytes, caches, costs)
    return seconds / symbol("parameter.memory_efficiency")


def _waits(op: Op) -> str:
    if op.kind == "reduction" and op.attributes.get("order") == "strict":
        return "chain"
    return "gather" if op.kind == "gather" else ""


def _gather(parts: _Parts) -> sp.Expr:
    """Every picked row waits once; a core keeps `overlap` of them in flight."""
    table = symbol(f"operation.{parts.table}") * symbol("operation.width") * sp.Float(parts.element_bytes)
    latency = _by_level(table, parts, [symbol(f"machine.memory.{level.name}.latency") for level in parts.levels])
    return symbol("operation.rows") * latency / (symbol("parameter.overlap") * symbol("machine.cores"))


def _lowered(op: Op) -> str:
    """Why a convolution needs its im2col matrix: it skips points of its input, or its kernel may have several."""
    if op.kind != "convolution" or op.dims["groups"] != 1:
        return ""
    strides = op.attributes.get("stride", ())
    return "stride" if isinstance(strides, tuple) and any(stride != 1 for stride in strides) else "kernel"


def _lowering(lowered: str) -> sp.Expr:
    """One core writes the im2col matrix; where nothing is skipped and the kernel is one point, it is the input."""
    kernel, outputs = (
        sp.Mul(*(symbol(f"operation.{name}_{axis}") for axis in ("depth", "height", "width")))
        for name in ("kernel", "out")
    )
    elements = symbol("operation.batch") * symbol("operation.channels_in") * kernel * outputs
    needed = sp.Min(1, kernel - 1) if lowered == "kernel" else sp.Integer(1)
    return elements * needed * symbol("parameter.lowering") / symbol("machine.clock")


def _rates(parts: _Parts) -> list[sp.Expr]:
    """Bytes a second of each level for all cores; main memory saturates where one core's share was measured."""
    rates = [product_of_fields(level.rate) for level in parts.levels]
    if parts.curve:
        first = f"machine.memory.{parts.levels[-1].name}.bandwidth_by_cores.0"
        offered = symbol("machine.cores") * symbol(f"{first}.1") / symbol(f"{first}.0")
        sharpness = symbol("parameter.sharpness")
        rates[-1] = offered / (1 + (offered / rates[-1]) ** sharpness) ** (1 / sharpness)
    return rates


def _by_level(working_set: sp.Expr, parts: _Parts, costs: list[sp.Expr]) -> sp.Expr:
    """The cost of a byte or an access, by the levels that hold the working set."""
    return cost_by_level(working_set, [level.capacity for level in parts.levels[:-1]], costs, parts.kept)
