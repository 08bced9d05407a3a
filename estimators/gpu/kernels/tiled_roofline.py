"""The hierarchical roofline: tiles and waves over the cores, traffic by level, launch, and the power cap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import Clock, FormulaModel
from slipstick.estimators.gpu.kernels import kernel_classes
from slipstick.estimators.gpu.kernels.kernel_classes import (
    EXPERTS,
    KERNELS,
    LATENT,
    KernelParameters,
    apart,
    class_of,
    entry,
)
from slipstick.estimators.gpu.kernels.matrix_tiles import Resources, traffic_time
from slipstick.estimators.gpu.kernels.recurrent_steps import STACKED, algorithm, recurrent, step_latency
from slipstick.estimators.power.energy import flop_energy
from slipstick.estimators.power.voltage import capped_seconds, knee
from slipstick.estimators.roofline.roofline import on_vector_units, product_of_fields, rated_flop
from slipstick.estimators.symbolic.cache_residency import BLOCKS, capacity_of_all, missed, rated_caches
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import HALF, STATED, Machine
from slipstick.workloads.graph.footprint import attends_to_cache
from slipstick.workloads.graph.given import Binding, symbols_in, unread_amount
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.graph.workload_kind import role_of
from slipstick.workloads.kernels.loop_kernels import AXES, kernel_named, volumes_between

INTEGER = "int8"
"""Whose rate shows how wide a matrix engine is (`_reached`)."""
REGISTER_FLOP = 2048
"""Flop of 16 bits a core and cycle of NVIDIA's instructions on registers (mma.sync): all of an A100's (NVIDIA A100
whitepaper, 1,024 multiply-adds), half of an H100's. What makes Hopper and Blackwell faster, wgmma and tcgen05, takes
weights from shared memory, where those that a kernel widens in registers do not lie."""
PREPARED = ("quantizes", "packs_scales")
"""Attributes of a product that was timed with what makes its operands narrow: of activations, of weights' scales."""


@dataclass(frozen=True)
class TiledRoofline(FormulaModel):
    """An operation takes its launch and the longest of arithmetic in waves of tiles, traffic, and energy under the cap.

    Parameters
    ----------
    kernels
        By kind of operation, or "kind.dtype" (`kernel_classes.class_of`); "default" serves the rest.
    """

    kernels: FrozenDict[KernelParameters] = KERNELS

    def __post_init__(self) -> None:
        if "default" not in self.kernels:
            raise InputError("kernels of a tiled roofline: no entry 'default'")

    def caches(self, machine: Machine) -> str:
        """Where the runtime says none, the fitted `rotation` gives what repeated runs leave."""
        state = machine.runtime.cache
        return f"{state} caches" if state else "caches as repeated runs leave them"

    def runs_at(self) -> Clock:
        """The cap is part of the formulas."""
        return "held"

    def key(self, op: Op, machine: Machine) -> Hashable:
        """Operations of one kind, dtype and shape of formula."""
        if op.kind in machine.runtime.free_kinds:
            return "free"
        units = tuple(sorted(name for name in op.cost if name.startswith("flop.")))
        served = entry(self.kernels, op), class_of(op)
        return *served, units, op.cost.moves, variant_of(op), _joined(op), *_steps(op, machine)

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """Unless an open size, 1 or more, decides between one and many (`kernel_classes.APARTS`)."""
        one = apart(f"{op.kind}.{op.dtype}")
        if one is None or one.many not in self.kernels:
            return True
        amount = unread_amount(op.dims, one.dim)
        sizes = symbols_in(amount)
        return not sizes or Binding(dict.fromkeys(sizes, 1)).put(amount) != 1

    def form(self, machine: Machine) -> Hashable:
        """That of the machine, its knee and maker: other numbers are symbols, whose kernels' the key says."""
        return machine.form, knee(machine), _maker(machine)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: operation.* dims and amounts, machine.*, parameter.kernels.KIND.*."""
        if op.kind in machine.runtime.free_kinds:
            return Formula(sp.Integer(0), "s", "free under this runtime")
        prefix = f"parameter.kernels.{entry(self.kernels, op)}."
        best = symbol(f"{prefix}compute_efficiency")
        widens = _widens(op) and _maker(machine) == "nvidia"
        flop_time, energy = arithmetic(
            rated_flop(op, machine), lambda engine, rated: _reached(machine, engine, rated, best, widens=widens)
        )
        memory = (symbol(f"{prefix}{name}") for name in ("memory_efficiency", "rotation", "overlap"))
        has = resources(machine, flop_time, *memory)
        formula = _kernel(op, machine, has, prefix, flop_time)
        if _joined(op):
            formula = kernel_classes.with_terms(formula, formula.expression + _beside(op) / has.memory_rate, {})
        launch = symbol("operation.launches") * (
            symbol("machine.runtime.launch_overhead") + symbol(f"{prefix}overhead")
        )
        if op.kind == "recurrent":
            launch = sp.Integer(0)  # one library call a layer: what starts a step is the call's own, in its formula
        capped = _under_cap(formula.expression, flop_time, energy, machine, prefix)
        moved = symbol("operation.bytes_moved")
        stated = traffic_time(moved, moved, has) if machine.runtime.cache else moved / has.memory_rate
        terms = {"compute": flop_time, "memory": stated}
        if op.kind == "recurrent":
            terms["latency"] = step_latency(algorithm(op, machine), has, prefix)
        if not op.cost.moves:
            del terms["memory"]
        return kernel_classes.with_terms(formula, launch + capped, terms)


def resources(
    machine: Machine,
    flop_time: sp.Expr,
    efficiency: sp.Expr | float,
    rotation: sp.Expr | float,
    overlap: sp.Expr | float,
) -> Resources:
    """The machine's rates as expressions; caches that it lacks neither bound nor spare anything.

    Bytes of main memory pass the last cache's path, which follows clock and cores: where it has less of their rate than
    in the machine's file, what is not hidden of it (`overlap`) makes them slower (Wang and Chu, "GPGPU Performance
    Estimation with Core and Memory Frequency Scaling", arXiv 1701.05308), and none pass faster than it goes, or than
    the file's ratio of both rates lets them where that path is the slower. Shares of the bandwidth were seen at that
    ratio: a machine that was changed differs from one whose file states the same numbers.
    """
    levels = list(machine.memory)
    main = product_of_fields(machine.bandwidth_factors(levels[-1])) * efficiency
    near_capacity, near_rate = sp.oo, sp.oo
    if len(levels) > 2 or (len(levels) > 1 and machine.memory[levels[0]].per == "core"):
        near_capacity = symbol(f"machine.memory.{levels[0]}.capacity")
        near_rate = product_of_fields(machine.bandwidth_factors(levels[0])) / symbol("machine.cores")
    cache_capacity, cache_rate = sp.Integer(0), main
    last = levels[-2] if len(levels) > 1 else ""
    if last in rated_caches(machine):
        cache_capacity = capacity_of_all(machine, last)
        rates = [
            [sp.Mul(*(symbol(at + name) for name in machine.bandwidth_factors(level))) for level in (levels[-1], last)]
            for at in ("machine.", STATED)
        ]
        (now, before), path = (efficiency * far / near for far, near in rates), rates[0][1]
        main = Smallest(main * (1 + overlap * Smallest(now, before)) / (1 + overlap * now), path * Largest(1, before))
        cache_rate = Largest(main, path)
    rate = symbol("operation.flop") / flop_time if flop_time != 0 else sp.oo
    cores, clock = symbol("machine.cores"), symbol("machine.clock")
    again = {None: rotation, "cold": None}.get(machine.runtime.cache, sp.Integer(1))
    between = symbol("machine.runtime.weights_between")
    return Resources(rate, cores, clock, near_capacity, near_rate, cache_capacity, cache_rate, main, again, between)


def _kernel(op: Op, machine: Machine, has: Resources, prefix: str, flop_time: sp.Expr) -> Formula:
    size = sp.Rational(SIZE_BYTES[op.dtype])
    match op.kind, variant_of(op):
        case "gemm", _:
            return kernel_classes.matrix_product(op.dtype, has, prefix, stored_type(op), **runs_with(op))
        case "convolution", (str() as direction, bool() as winograd, bool() as transposed):
            single = op.dtype == "float32" or on_vector_units(machine, op.dtype)
            facts = {"winograd": winograd and single, "transposed": transposed}
            maker = _maker(machine) if single else ""
            return kernel_classes.convolution(op.dtype, has, prefix, direction, **facts, maker=maker)
        case "attention", (str() as mask, str() as kv_dtype, bool() as writes_cache, bool() as latent):
            facts = {"writes_cache": writes_cache, "latent": latent}
            return kernel_classes.attention(op.dtype, has, prefix, mask, kv_dtype, **facts)
        case "recurrent", _:
            return recurrent(op, has, prefix, algorithm(op, machine))
        case "softmax", _:
            return kernel_classes.rowwise(has, prefix, symbol("operation.rows"), symbol("operation.columns"), size)
        case "norm", shared:
            groups = symbol("operation.groups")
            if shared:  # a batch norm has few, long rows: all cores work on each
                groups = Largest(groups, has.cores * kernel_classes.ROWS_IN_FLIGHT)
            return kernel_classes.rowwise(has, prefix, groups, symbol("operation.elements") / groups, size)
    if not op.cost.moves:
        return Formula(flop_time, "s", kernel_classes.SOURCE)
    return kernel_classes.stream(has, prefix, flop_time, _again(op, has))


def _again(op: Op, has: Resources) -> sp.Expr:
    """Bytes beyond one reading of the operands (below none: of rows that are picked more than once and stay cached)."""
    size = sp.Rational(SIZE_BYTES[op.dtype])
    if op.kind == "gather" and "table" in op.dims:
        rows, table, width = (symbol(f"operation.{name}") for name in ("rows", "table", "width"))
        repeated = Largest(0, rows - table) * width * size
        return -repeated * (1 - missed(table * width * size, has.cache_capacity, BLOCKS))
    loop = _loop(op)
    if not loop:
        return sp.Integer(0)
    kernel = kernel_named(loop)
    shape = [symbol(f"operation.{axis}") for axis in reversed(AXES[: kernel.dimensions])]
    lost = (missed(size * volume, has.cache_capacity, BLOCKS) for volume in volumes_between(kernel, shape))
    return symbol("operation.elements") * size * sum(lost, sp.Integer(0))


def _maker(machine: Machine) -> str:
    """The first word of a machine's family."""
    return machine.family.partition("-")[0]


def _steps(op: Op, machine: Machine) -> tuple[object, ...]:
    """What decides the form of a recurrent step's formula."""
    if op.kind != "recurrent":
        return ()
    return algorithm(op, machine), tuple(op.dims.get(name) == 1 for name in STACKED), op.attributes["function"]


def _joined(op: Op) -> bool:
    """Whether a product or a convolution has others in its kernel that may read and write more than it does."""
    return op.kind in ("gemm", "convolution") and bool(op.attributes.get("fused"))


def _beside(op: Op) -> sp.Expr:
    """Bytes of a kernel beyond its operands and its result: what joined it reads (a residual), and keeps for later."""
    if op.kind == "convolution":
        return Largest(0, symbol("operation.bytes_moved") - kernel_classes.convolution_bytes(op.dtype))
    batch, m, n, k = (symbol(f"operation.{name}") for name in ("batch", "m", "n", "k"))
    of_weights, of_inputs, of_results = kernel_classes.operand_sizes(op.dtype, stored_type(op))
    alone = batch * (of_weights * m * k + of_inputs * k * n + of_results * m * n)
    return Largest(0, symbol("operation.bytes_moved") - alone)


def _loop(op: Op) -> str:
    """The name of the loop over arrays that an operation is; empty where it is none."""
    return str(op.attributes.get("loop", ""))


def stored_type(op: Op) -> str:
    """The data type that a product's weights are stored in, where it is narrower than the one it multiplies in."""
    return str(op.attributes.get("weights", "")) if op.kind == "gemm" else ""


def _widens(op: Op) -> bool:
    """Whether a layer of experts widens its weights to 16 bits before it multiplies: in registers."""
    return role_of(op) == EXPERTS and bool(stored_type(op)) and op.dtype in HALF


def runs_with(op: Op) -> dict[str, bool]:
    """Which kernels run with a product, beside it (`kernel_classes.bytes_beside`)."""
    quantizes, packs = (bool(op.attributes.get(name)) for name in PREPARED)
    return {"quantizes": quantizes, "packs": packs, "experts": role_of(op) == EXPERTS}


def variant_of(op: Op) -> tuple[object, ...]:
    """What, besides its kind, decides the form of an operation's formula."""
    if op.kind == "convolution":
        direction, transposed = str(op.attributes.get("pass", "forward")), bool(op.attributes.get("transposed"))
        taps = [op.dims.get(f"kernel_{axis}") for axis in ("depth", "height", "width")]
        stride = op.attributes.get("stride", (1, 1))
        unit = all(s == 1 for s in stride) if isinstance(stride, tuple) else stride == 1
        return direction, bool(taps == [1, 3, 3] and unit and not transposed), transposed
    if op.kind == "attention" and op.attributes.get("pass", "forward") == "forward":
        mask, stored = "causal" if op.attributes.get("causal") else "full", op.attributes.get("kv_dtype", op.dtype)
        return (
            mask,
            str(stored),
            bool(op.attributes.get("writes_cache")),
            role_of(op) == LATENT and attends_to_cache(op),
        )
    if op.kind == "gather":
        return ("table" in op.dims,)
    if loop := _loop(op):
        return (loop,)
    prepared = tuple(bool(op.attributes.get(name)) for name in PREPARED)
    if op.kind == "gemm" and (stored_type(op) or any(prepared)):
        return stored_type(op), *prepared
    return ("batch",) if op.kind == "norm" and op.attributes.get("function") == "batch" else ()


def arithmetic(flop: Collection[tuple[str, str, str]], rate: Callable[[str, str], sp.Expr]) -> tuple[sp.Expr, sp.Expr]:
    """Seconds of an operation's flop (`rated_flop`), each at the rate of its engine and data type [flop/s], and as how
    many float32 flop of a vector engine they cost energy.

    The epilogue of a product runs while its next tile loads.
    """
    time, energy = sp.Integer(0), sp.Integer(0)
    products = [one for one in flop if one[0].startswith("flop.matrix.")]
    for name, engine, rated in products or flop:
        time += symbol(f"operation.{name}") / rate(engine, rated)
        energy += symbol(f"operation.{name}") * flop_energy(engine, rated)
    return time, energy


def _reached(machine: Machine, engine: str, rated: str, efficiency: sp.Expr, *, widens: bool = False) -> sp.Expr:
    """Flop/s at best: a share of the rate that the width of the engine allows, and at most the rate that is stated.
    `widens`: by instructions on registers (`REGISTER_FLOP`).

    GeForce boards accumulate 16-bit products in float32 at half of the rate of the same chip's workstation and server
    boards (NVIDIA Ada GPU architecture whitepaper v2.1, Appendix A: RTX 4090 165 TFLOP/s, with FP16 accumulation
    330). What holds an engine below its peak, operands, issue and power, is sized for the width; the int8 rate shows
    that, since its products accumulate in integers on every board.
    """
    peak = product_of_fields(machine.peak_factors(engine, rated))
    if widens:
        return efficiency * Smallest(peak, REGISTER_FLOP * symbol("machine.cores") * symbol("machine.clock"))
    size = SIZE_BYTES.get(rated, 0)
    if engine != "matrix" or rated == INTEGER or size < 1 or machine.engines[engine].rated(INTEGER) != INTEGER:
        return peak * efficiency
    wider = Largest(1, product_of_fields(machine.peak_factors(engine, INTEGER)) / (int(size) * peak))
    return peak * Smallest(Largest(1, efficiency), efficiency * wider)


def _under_cap(time: sp.Expr, flop_time: sp.Expr, flop: sp.Expr, machine: Machine, prefix: str) -> sp.Expr:
    """The longer of the time and of that which the power cap allows its arithmetic, once the cap has taken hold."""
    limit = capped_seconds(flop_time, flop * symbol(f"{prefix}energy"), machine)
    if machine.power.time_constant is None or limit == 0:
        return Largest(time, limit)
    settle = symbol("machine.power.time_constant") * symbol(f"{prefix}settle")
    return Largest(time, limit * limit / (limit + settle))
