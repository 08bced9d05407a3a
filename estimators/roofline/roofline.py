"""The roofline: an operation takes as long as its arithmetic or its traffic, whichever is longer.

Each byte is moved once, from the level that holds it (main memory, or what `machine.runtime.cache` says is kept)
through all nearer ones. `gpu.tiled` counts what is read again because tiles overflow a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.symbolic.cache_residency import capacity_of_all, cost_by_level, kept_caches, rated_caches
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.hwmodels.runtime import CacheState
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op

SOURCE = "Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009"


@dataclass(frozen=True)
class Roofline(CheckedParameters, FormulaModel):
    """t = max(sum of flop / peak, sum of bytes / bandwidth of the slowest level passed) + launches x launch overhead.

    Main memory holds all bytes unless the runtime's caches are warm (the last one serves what fits into it) or hot
    (each does). A unit that the machine lacks is served by its vector engine. Operations of a kind that the runtime
    calls free take no time.
    """

    compute_efficiency: Annotated[float, Parameter("1", "share of the peak rate that is reached", 1e-6, 1.0)] = 1.0
    memory_efficiency: Annotated[float, Parameter("1", "share of the bandwidth that is reached", 1e-6, 1.0)] = 1.0
    overhead: Annotated[float, Parameter("s", "added to every launch", 0.0, 10.0)] = 0.0

    def caches(self, machine: Machine) -> str:
        """Cold where the runtime says none."""
        return f"{_state(machine)} caches"

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Kinds that are free apart, then the flop resources and whether bytes move."""
        if op.kind in machine.runtime.free_kinds:
            return "free"
        return tuple(sorted(name for name in op.cost if name.startswith("flop."))), op.cost.moves

    def form(self, machine: Machine) -> Hashable:
        """That of the machine: its numbers and the parameters are symbols."""
        return machine.form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.flop.*, operation.bytes_moved, operation.launches, machine.*, parameter.*."""
        if op.kind in machine.runtime.free_kinds:
            return Formula(sp.Integer(0), "s", "free under this runtime")
        terms = {"compute": sp.Integer(0), "memory": sp.Integer(0)}
        for name, *served in rated_flop(op, machine):
            rate = product_of_fields(machine.peak_factors(*served))
            terms["compute"] += symbol(f"operation.{name}") / (symbol("parameter.compute_efficiency") * rate)
        if op.cost.moves:
            terms["memory"] = traffic_time(machine) / symbol("parameter.memory_efficiency")
        overhead = symbol("machine.runtime.launch_overhead") + symbol("parameter.overhead")
        expression = sp.Max(*terms.values()) + symbol("operation.launches") * overhead
        return Formula(expression, "s", SOURCE, FrozenDict(terms))


def serving_rate(machine: Machine, unit: str, dtype: str) -> tuple[str, str]:
    """The engine and the dtype of the rate at which a unit's work runs.

    The unit's own engine where it has one for the dtype, else the vector engine. What is no product and narrower than
    float32 runs at float32's rate where the vector engine lacks the dtype: it is widened on the way in. So are products
    of bfloat16 and float16 where there is no matrix engine at all, as libraries do there (AMD, AOCL User Guide 57404,
    section 8.1.3: without AVX-512 BF16 "BF16 inputs converted to f32, computed on AVX2 f32 kernels"), and all work in
    16 bits where the engine's rate of it is below float32's (Pascal's GP102 and GP104 do 1/64 of it): PyTorch calls
    libraries to compute it in float32 (cuBLAS with CUBLAS_COMPUTE_32F), and its own kernels do (`opmath_type`).
    Raises InputError where no engine of the machine computes in that dtype.
    """
    for name in (unit, "vector"):
        rated = machine.engines[name].rated(dtype) if name in machine.engines else ""
        if rated:
            return ("vector", "float32") if (name, rated) in machine.slow_halves else (name, rated)
    no_matrix = dtype in HALF and "matrix" not in machine.engines
    wider = no_matrix if unit == "matrix" else SIZE_BYTES.get(dtype, 8) < SIZE_BYTES["float32"]
    if wider and "vector" in machine.engines and "float32" in machine.engines["vector"].flop_per_cycle:
        return "vector", "float32"
    engines = machine.engines.items()
    known = sorted(f"{name}.{rate}" for name, engine in engines for rate in engine.flop_per_cycle)
    types = sorted({rate for engine in machine.engines.values() for rate in engine.flop_per_cycle})
    raise InputError(
        f"machine {machine.name!r} states no rate for {unit}.{dtype} (known: {', '.join(known)}): compute in another "
        f"type (--dtype {' or '.join(types[:4])}), or give engines.{unit}.flop_per_cycle.{dtype} in its file"
    )


def widened(machine: Machine, dtype: str) -> bool:
    """Whether a machine computes products of a 16-bit type in float32 (see `serving_rate`)."""
    return on_vector_units(machine, dtype) and serving_rate(machine, "matrix", dtype)[1] == "float32"


def on_vector_units(machine: Machine, dtype: str) -> bool:
    """Whether a machine computes products of a 16-bit type where it computes those of float32, in either type."""
    try:
        return dtype in HALF and serving_engine(machine, "matrix", dtype) == "vector"
    except InputError:  # refused where its rate is needed; instructions need none
        return False


def rated_flop(op: Op, machine: Machine, product_type: Callable[[str], str] = str) -> tuple[tuple[str, str, str], ...]:
    """Of an operation's flop: their name in the cost, and the engine and data type at whose rate they run; sorted.

    `product_type`: in which a library multiplies numbers of a type.
    Raises InputError where the machine states no rate for them.
    """
    rated = []
    for name in sorted(op.cost):
        if name.startswith("flop."):
            _, unit, dtype = name.split(".")
            rated.append((name, *serving_rate(machine, unit, product_type(dtype) if unit == "matrix" else dtype)))
    return tuple(rated)


def rounds_convolutions(machine: Machine) -> bool:
    """Whether PyTorch computes float32 convolutions in tfloat32 there: on NVIDIA's machines whose matrix units can."""
    matrix = machine.engines.get("matrix")
    return machine.family.startswith("nvidia") and matrix is not None and "tfloat32" in matrix.flop_per_cycle


def serving_engine(machine: Machine, unit: str, dtype: str) -> str:
    """The engine that runs a unit's work (see `serving_rate`)."""
    return serving_rate(machine, unit, dtype)[0]


def traffic_time(machine: Machine) -> sp.Expr:
    """Seconds in which an operation's bytes come from the levels that hold them, through all nearer ones, each once."""
    caches, moved = rated_caches(machine), symbol("operation.bytes_moved")
    costs = [1 / product_of_fields(machine.bandwidth_factors(name)) for name in (*caches, machine.main_memory)]
    capacities = [capacity_of_all(machine, name) for name in caches]
    return moved * cost_by_level(moved, capacities, costs, kept_caches(len(caches), _state(machine)))


def product_of_fields(paths: tuple[str, ...]) -> sp.Expr:
    """The product of some fields of the machine, as an expression."""
    return sp.Mul(*(symbol(f"machine.{path}") for path in paths))


def _state(machine: Machine) -> CacheState:
    return machine.runtime.cache or "cold"
