"""Times of one kernel launch, a formula for each class of operations, and the habits of a software stack."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.gpu.kernels.matrix_tiles import (
    HABITS,
    SPLITS,
    TILES,
    Resources,
    Sizes,
    menu,
    overlapped,
    product,
    traffic_time,
)
from slipstick.estimators.symbolic.cache_residency import PANELS, missed
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, MinOverConfigs, Parameter
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.workloads.graph.cost import result_bytes
from slipstick.workloads.graph.given import is_one
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.graph.workload_kind import role_of

SOURCE = "docs/notes/gpu-operations.md; roofline: Williams et al., CACM 52(4), 2009"
VECTOR_BYTES = 16
"""Width of the loads that need aligned rows."""

WIDE_BYTES = 2
"""Of a number that is not narrow yet: what quantizes reads 16-bit activations."""
SCALED, SPREAD_BYTES, GATHERS, TRIP = 128, 9, 1024, 500
"""What packs scales of weights in blocks, 128 x 128 numbers to a scale, for matrix units that want one byte for each
row and 128 columns: it spreads a scale over its rows (4 bytes written), reads that again (4) and packs it (1). PyTorch
spreads by an index (`index_select`: 8 blocks of 128 threads a core, a number a thread at a time, so that a number takes
two trips to the last cache, of about 500 cycles each, after each other)."""

PRODUCTS = menu(rows__columns=TILES, parts=[(parts,) for parts in SPLITS])
SMALL_TILES = menu(rows__columns=[(64, 64), (64, 16)], parts=[(parts,) for parts in SPLITS])
"""Features and tokens of a tile of a layer of experts: its kernel takes 64 x 64 where nobody tuned it, 16 tokens where
experts get few (SGLang, `get_default_config` of the Triton kernel)."""
SINGLE: Mapping[str, list[tuple[int, int]]] = {
    "nvidia": [(128, 128), (64, 128), (32, 128)],
    "amd": [(128, 128), (128, 64), (64, 64), (32, 128), (16, 64), (32, 32)],
}
"""Channels and pixels of a tile of float32 by the GPU's maker, whose library runs. cuDNN's kernels carry them in their
names, the pixels first (maxwell_scudnn_128x32, volta_scudnn_128x64, 128x128: profiles of Maxwell to Turing); MIOpen's
are those that its implicit products try one after the other (ROCm/MIOpen, `PerformanceImplicitGemm::HeuristicInit` in
src/solver/conv/conv_hip_implicit_gemm_nonxdlops_common.cpp: KPerBlock channels, BPerBlock x 2 x 2 or 4 pixels)."""
OTHERS = [(128, 128), (128, 64), (64, 64), (64, 32)]
"""In other types, and of other makers."""
FORWARD, WEIGHTS = [(1,), (4,), (16,)], [(1,), (4,), (16,), (64,)]
"""Into how many parts a reduction is split; gradients of weights have few results and a long one."""
WINOGRAD = [(1, 1, 9), (16, 4, 1), (36, 16, 1)]
"""Points of a transformed tile, pixels of it and taps: none, F(2x2, 3x3) and F(4x4, 3x3): as many products as points,
each over the tiles and the channels (Lavin and Gray, CVPR 2016)."""
CONVOLUTIONS = {
    (maker, reduces): (
        menu(rows__columns=tiles, parts=parts),
        menu(rows__columns=tiles, parts=parts, points__pixels__taps=WINOGRAD),
    )
    for maker, tiles in {**SINGLE, "": OTHERS}.items()
    for reduces, parts in ((False, FORWARD), (True, WEIGHTS))
}
"""Direct, and with Winograd's transforms beside, by whose tiles these are and whether weights' gradients are made."""
ATTENTIONS = menu(rows=[(128,), (64,), (16,)], parts=[(1,), (2,), (4,), (8,), (16,), (32,)])
ROWS_IN_FLIGHT = 8
"""Rows that one core works on at a time."""
CAUSAL = {"causal": 1, "full": 0}


@dataclass(frozen=True)
class KernelParameters(CheckedParameters):
    """What a machine's kernels reach and what its library does, for one class of operations.

    A calibration fits them for each machine and pools them over families (`gpu/transfer/kernel_class.py`).
    """

    overhead: Annotated[float, Parameter("s", "of a launch, added to the machine's own", 0.0, 1.0)] = 0.0
    compute_efficiency: Annotated[float, Parameter("1", "share of the peak rate at best", 1e-3, 10.0)] = 0.92
    memory_efficiency: Annotated[float, Parameter("1", "share of the memory bandwidth at best", 1e-3, 10.0)] = 0.87
    tile_cycles: Annotated[float, Parameter("cycle", "to begin and end one tile", 0.0, 1e6)] = 1500.0
    step_cycles: Annotated[float, Parameter("cycle", "least time of one step of a reduction", 0.0, 1e4)] = 1.5
    small_tile: Annotated[float, Parameter("1", "effort of a tile below 128 x 128, per halving", 0.0, 10.0)] = 0.1
    unaligned: Annotated[float, Parameter("1", "slower loads where rows are not aligned", 0.0, 100.0)] = 0.3
    split_overhead: Annotated[float, Parameter("s", "of a split reduction", 0.0, 1.0)] = 2.5e-6
    overlap: Annotated[float, Parameter("1", "share of traffic or arithmetic that is not hidden", 0.0, 10.0)] = 0.3
    rotation: Annotated[float, Parameter("1", "footprints between two uses of the same data", 0.1, 1e4)] = 6.0
    energy: Annotated[float, Parameter("1", "energy per flop over the machine's number", 1e-2, 100.0)] = 1.0
    settle: Annotated[float, Parameter("1", "time until the power cap holds, over the machine's", 0.0, 1e3)] = 1.0


ROWWISE = ("softmax", "norm")
"""Kinds that go over rows element by element (`rowwise`)."""
RECURRENT = KernelParameters(
    overhead=6.2e-5, compute_efficiency=0.78, memory_efficiency=0.68, tile_cycles=2_300, step_cycles=7.1,
    small_tile=0.07, overlap=0.35,
)  # fmt: skip
"""Steps of recurrent layers as libraries of 2016 to 2019 run them, the start of each included: the values without the
effects of vendors and generations of `fitted/recurrences.json` (`gpu/kernels/recurrent_law.py`)."""
KERNELS = FrozenDict(
    {
        "default": KernelParameters(),
        **dict.fromkeys(ROWWISE, KernelParameters(step_cycles=1.0, small_tile=0.3)),
        "recurrent": RECURRENT,
        "attention": KernelParameters(rotation=1.0),  # programs that time it go over one set of keys and values
    }
)
"""What is known of each class of operations before anything is measured: round numbers from the literature and from
what kernels do. A step of a product is one of its reduction, a step along a row is one element."""


@dataclass(frozen=True)
class OneAndMany:
    """Operations of one kind and dtype that run other kernels where a dim is not 1, and were timed both ways."""

    plain: str
    dim: str
    many: str


APARTS = {"gemm": ("batch", "batched"), "attention": ("queries", "prompts")}
"""Libraries choose kernels for batched products (timed in float32) apart from those for one, and for prompts apart from
steps of decode, which split the keys: the dim that says so, and the name of many."""


EXPERTS, LATENT = "experts", "latent"
OF_STEPS = (EXPERTS, LATENT)
"""Roles in a step of a language model (`role_of`) that kernels of their own serve: layers of experts, whose kernels
sort the tokens as well, and latent attention."""


def class_of(op: Op) -> str:
    """Which operations have parameters in common: kind and dtype, on which side of `APARTS` they lie, a role of
    `OF_STEPS`, and with it the type of stored weights or of a cache where it is another one.

    A dim that is open counts as more than 1.
    """
    role = role_of(op)
    return ".".join([_side(op), role, *_stored_type(op)]) if role in OF_STEPS else _side(op)


def of_step(name: str) -> bool:
    """Whether a class is one of a role of `OF_STEPS`."""
    return not set(OF_STEPS).isdisjoint(name.split("."))


def _side(op: Op) -> str:
    name = f"{op.kind}.{op.dtype}"
    one = apart(name)
    return one.many if one is not None and not is_one(op.dims, one.dim) else name


def _stored_type(op: Op) -> tuple[str, ...]:
    stored = str(op.attributes.get("weights", op.attributes.get("kv_dtype", op.dtype)))
    return (stored,) if stored != op.dtype else ()


def apart(name: str) -> OneAndMany | None:
    """What a class ("gemm.float32", "gemm.float32.batched") is one side of; None where its kind and dtype are one."""
    kind, dtype, *many = name.split(".")
    dim, words = APARTS.get(kind, ("", ""))
    if not dim or many not in ([], [words]) or (kind, dtype == "float32") == ("gemm", False):
        return None
    return OneAndMany(f"{kind}.{dtype}", dim, f"{kind}.{dtype}.{words}")


def entry(names: Collection[str], op: Op) -> str:
    """Which of some classes ("gemm.float32", "gemm", "default") serves an operation: the nearest; "default" is one."""
    plain = f"{op.kind}.{op.dtype}"
    one = apart(plain)
    nearest = (class_of(op), _side(op), *((one.plain, one.many) if one else (plain,)), op.kind, "default")
    chosen: str = next(name for name in nearest if name in names)
    return chosen


def matrix_product(
    dtype: str,
    has: Resources,
    prefix: str,
    weights: str = "",
    *,
    quantizes: bool = False,
    packs: bool = False,
    experts: bool = False,
) -> Formula:
    """Dims batch, m, n, k: the least over tiles and split reductions; weights may be stored in a narrower type.

    A layer's `experts` multiply in small tiles that hide nothing, but for types below a byte, whose kernels load ahead.
    Other kernels run before and after the product (`bytes_beside`).
    """
    batch, m, n, k = (symbol(f"operation.{name}") for name in ("batch", "m", "n", "k"))
    sizes = operand_sizes(dtype, weights)
    small = experts and SIZE_BYTES[dtype] >= 1
    time = product((batch, m, n, k), sizes, has, prefix, aligned(dtype), in_turn=small)
    for moved in bytes_beside(dtype, quantizes=quantizes, packs=packs, experts=experts):
        time += traffic_time(moved, moved, has)
    if packs:
        time += batch * m * sp.ceiling(k / SCALED) * 2 * TRIP / (has.cores * GATHERS * has.clock)
    return MinOverConfigs(time, "s", SOURCE, menu=SMALL_TILES if small else PRODUCTS)


def bytes_beside(dtype: str, *, quantizes: bool, packs: bool, experts: bool) -> list[sp.Expr]:
    """Bytes that the kernels beside a product move, dims batch, m, n, k.

    Those beside the two products of a layer's `experts` read what they made (the activation, the weighted sum) and
    write half as much, of m and k numbers a row on the mean of the two, and make narrow activations.
    Where the call also quantizes its activations (k, n), a kernel before reads them in 16 bits and writes them narrow;
    where it packs the scales of its weights (m, k), four kernels do (`SPREAD_BYTES`).
    """
    batch, m, n, k = (symbol(f"operation.{name}") for name in ("batch", "m", "n", "k"))
    moved = [WIDE_BYTES * batch * n * (m + k / 2)] if experts else []
    if quantizes or (experts and SIZE_BYTES[dtype] < WIDE_BYTES):
        moved.append(batch * n * k * (WIDE_BYTES + _size(dtype)))
    return [*moved, batch * m * sp.ceiling(k / SCALED) * SPREAD_BYTES] if packs else moved


def convolution(
    dtype: str,
    has: Resources,
    prefix: str,
    direction: str = "forward",
    *,
    winograd: bool,
    transposed: bool = False,
    maker: str = "",
) -> Formula:
    """One of a convolution's three passes as matrix products (`convolution_dims`); 3 x 3 of stride 1 also by Winograd's
    transform. The gradient of weights has few results and a long reduction, which libraries split. `maker`: of the GPU,
    whose library runs ("amd"), on vector units."""
    size, sizes = _size(dtype), operand_sizes(dtype)
    direct = convolution_dims(direction, transposed=transposed)
    reduces = direction == "backward_weight"
    known = maker if maker in SINGLE else ""
    plain, transformed = CONVOLUTIONS[known, reduces]
    if not winograd:
        return MinOverConfigs(product(direct, sizes, has, prefix, 1), "s", SOURCE, menu=plain)
    points, covered, taps = (symbol(f"choice.{name}") for name in ("points", "pixels", "taps"))
    groups, m, n, k = direct
    window = _axes("kernel")
    if reduces:
        dims = (groups * points, m, n / window * taps, sp.ceiling(k / covered))
    else:
        dims = (groups * points, m, sp.ceiling(n / covered), k / window * taps)
    # The larger transform writes its tiles to memory and reads them back.
    channels = symbol("operation.channels_in") + symbol("operation.channels_out")
    pixels = symbol("operation.batch") * _axes("in" if direction == "backward_data" else "out")
    moved = Largest(0, covered - 4) / 12 * points * pixels / covered * channels * size * 2
    time = product(dims, sizes, has, prefix, 1) + moved / has.memory_rate
    return MinOverConfigs(time, "s", SOURCE, menu=transformed)


def convolution_dims(direction: str, *, transposed: bool = False) -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """groups, m, n, k of the product that a pass is: what is made by where it is made, over what is summed.

    A stride leaves some of a window's places out where an input or its gradient is made: the reduction is as much
    shorter (Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, arXiv 1410.0759, section 3).
    """
    names = ("batch", "channels_in", "channels_out", "groups")
    batch, inputs, outputs, groups = (symbol(f"operation.{name}") for name in names)
    window, places = _axes("kernel"), _axes("in" if transposed else "out")
    if direction == "backward_weight":
        return groups, outputs / groups, inputs / groups * window, batch * places
    if direction == "backward_data":
        return groups, inputs / groups, batch * _axes("in"), outputs / groups * window * places / _axes("in")
    return groups, outputs / groups, batch * _axes("out"), inputs / groups * window * places / _axes("out")


def convolution_bytes(dtype: str) -> sp.Expr:
    """Bytes of a convolution's images, filters and results."""
    batch, inputs, outputs, groups = (
        symbol(f"operation.{name}") for name in ("batch", "channels_in", "channels_out", "groups")
    )
    filters = inputs * outputs / groups * _axes("kernel")
    return _size(dtype) * (batch * (inputs * _axes("in") + outputs * _axes("out")) + filters)


def attention(
    dtype: str, has: Resources, prefix: str, mask: str, kv_dtype: str, *, writes_cache: bool, latent: bool = False
) -> Formula:
    """softmax(Q K') V in one kernel: blocks of query rows walk the keys; few blocks split the keys among cores.

    Where the call also writes the new keys and values to a cache, they are read and written before. `latent`: values
    are the first numbers of keys, so that the cache holds them once.
    """
    size, kv_size = _size(dtype), _size(kv_dtype)
    names = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim", "value_dim")
    batch, heads, kv_heads, queries, keys, head_dim, value_dim = (symbol(f"operation.{name}") for name in names)
    rows, parts = symbol("choice.rows"), symbol("choice.parts")
    tile_cycles, step_cycles, small_tile, overlap = (symbol(prefix + name) for name in HABITS)
    # Few queries of the heads that share a key head stand in one block; many queries fill blocks by themselves.
    together = Largest(1, Smallest(heads / kv_heads, rows / queries))
    blocks = batch * heads / together * sp.ceiling(queries * together / rows) * parts
    met = keys - CAUSAL[mask] * (queries - Smallest(queries, rows)) / 2
    width = head_dim + value_dim
    cached = head_dim if latent else width
    effort = 1 + small_tile * Largest(0, 128 / rows - 1)
    step = Largest(
        2 * rows * width * has.cores / has.flop_rate * effort,
        cached * kv_size / has.near_rate,
        step_cycles / has.clock,
    )
    work = sp.ceiling(blocks / has.cores) * (step * met / parts + tile_cycles / has.clock)
    work += Smallest(1, parts - 1) * symbol(f"{prefix}split_overhead")
    once = batch * heads * queries * width * size + batch * kv_heads * keys * cached * kv_size
    time = overlapped(work, traffic_time(once, once, has), overlap)
    if writes_cache:
        moved = 2 * batch * kv_heads * queries * cached * kv_size
        time += traffic_time(moved, moved + once, has)
    return MinOverConfigs(time, "s", SOURCE, menu=ATTENTIONS)


def stream(has: Resources, prefix: str, flop_time: sp.Expr, again: sp.Expr) -> Formula:
    """Whatever reads its operands and writes its results: elementwise, moves, reductions, optimizers.

    `again`: bytes of main memory beyond reading and writing everything once.
    """
    moved = symbol("operation.bytes_moved")
    return Formula(
        overlapped(flop_time, traffic_time(moved + again, moved, has), symbol(f"{prefix}overlap")), "s", SOURCE
    )


def rowwise(has: Resources, prefix: str, rows: sp.Expr, columns: sp.Expr, size: sp.Expr) -> Formula:
    """Softmax and norms: rows are read, reduced and written, and read again where those in flight overflow L2."""
    tile_cycles, step_cycles, small_tile, overlap = (symbol(prefix + name) for name in HABITS)
    moved = symbol("operation.bytes_moved")
    flying = Smallest(rows, has.cores * ROWS_IN_FLIGHT) * columns * size
    again = small_tile * missed(flying, has.cache_capacity, PANELS)
    traffic = traffic_time(moved, moved, has) * (1 + again)
    work = sp.ceiling(rows / has.cores) * (tile_cycles / 100 + step_cycles * columns) / has.clock
    return Formula(overlapped(work, traffic, overlap), "s", SOURCE)


def with_terms(formula: Formula, expression: sp.Expr, terms: dict[str, sp.Expr]) -> Formula:
    """The same formula with another expression, and the named bounds that say what decides."""
    if isinstance(formula, MinOverConfigs):
        return MinOverConfigs(expression, formula.unit, formula.source, FrozenDict(terms), formula.menu)
    return Formula(expression, formula.unit, formula.source, FrozenDict(terms))


def _axes(part: str) -> sp.Expr:
    return sp.Mul(*(symbol(f"operation.{part}_{axis}") for axis in ("depth", "height", "width")))


def operand_sizes(dtype: str, weights: str = "") -> Sizes:
    """Exact bytes of a number of W, of X and of W X; `weights` is the type that W is stored in, if another."""
    return _size(weights or dtype), _size(dtype), sp.Rational(result_bytes(dtype))


def aligned(dtype: str) -> int:
    """Numbers in the widest load, without their scales."""
    return int(VECTOR_BYTES // max(0.5, 2.0 ** math.floor(math.log2(SIZE_BYTES[dtype]))))


def _size(dtype: str) -> sp.Rational:
    return sp.Rational(SIZE_BYTES[dtype])
