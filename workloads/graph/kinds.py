"""The taxonomy of operations: for each kind its dims and the formulas of its cost.

One place says what an operation costs, for layers written by hand and for imported graphs alike. A multiply-add is two
flop; bytes are the least that must move (each operand read once, each result written once). In a gemm `m` counts output
features and `n` rows of input (tokens), the column-major view that vendors' profilers print: y = W x with W (m, k).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.expressions import is_symbolic
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount
from slipstick.workloads.graph.work import (
    AXES,
    Dims,
    Facts,
    Work,
    attention_work,
    collective_work,
    convolution_work,
    elementwise_work,
    gather_work,
    gemm_work,
    host_work,
    move_work,
    norm_work,
    optimizer_work,
    pool_work,
    product,
    recurrent_work,
    reduction_work,
    softmax_work,
    sparse_work,
    upsample_work,
    view_work,
)
from slipstick.workloads.graph.workload import Attribute, Op, Workload

__all__ = [
    "AXES",
    "KINDS",
    "SIZE_BYTES",
    "Kind",
    "KindFamily",
    "Work",
    "convolution_dims",
    "family_of",
    "operation",
    "product",
    "stored_norm",
]


FLOP, BYTE = "FLOP", "byte"


@dataclass(frozen=True)
class KindFamily:
    """What alike kinds share, so that a kind which no model knows by its name is answered, rated and drawn as they are.

    `colour`: of its boxes in pictures, readable by those who see few colours (Okabe and Ito 2008).
    `product`: matrix products are most of its work; autocast computes it in 16 bits.
    `streams`: it reads its operands and writes its results once, so that additions' share of the bandwidth is its own.
    `follows`: it computes in the widest type of what it reads.
    `rated_in`: what the throughput of one such kernel counts, `FLOP` or `BYTE`; "" where neither is usual.
    """

    colour: str
    product: bool = False
    streams: bool = False
    follows: bool = False
    rated_in: str = ""


PRODUCT = KindFamily("#0072B2", product=True, rated_in=FLOP)
RECURRENCE = KindFamily("#56B4E9", product=True)
ROWS = KindFamily("#009E73", follows=True)
WINDOWS = KindFamily("#009E73", streams=True, follows=True)
POINTWISE = KindFamily("#F0E442", streams=True, follows=True, rated_in=BYTE)
COPIES = KindFamily("#E69F00", streams=True, follows=True, rated_in=BYTE)
VIEWS = KindFamily("#DDDDDD", follows=True)
UPDATES = KindFamily("#CC79A7", streams=True)
LINKS = KindFamily("#D55E00", streams=True)
APART = KindFamily("#D55E00")
UNKNOWN = KindFamily("#FF0000")
OUTSIDE = KindFamily("#FFFFFF")
"""Of operations whose kind is no word of the taxonomy: loops, products of sparse formats, jobs."""


@dataclass(frozen=True)
class Kind:
    """One word of the taxonomy: its dims, what it means, its work as a function of dims and attributes, its family.

    `divisor`: the dim that the work is divided by; 1 or more.
    """

    name: str
    family: KindFamily
    dims: tuple[str, ...]
    meaning: str
    work: Callable[[Dims, Facts], Work]
    optional: tuple[str, ...] = ()
    divisor: str = ""


_CONVOLUTION_DIMS = tuple(f"{part}_{axis}" for part in ("in", "out", "kernel") for axis in AXES)

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "gemm",
            PRODUCT,
            ("batch", "m", "n", "k"),
            "batch products W (m, k) x X (k, n): m features out, k in, n tokens or examples; attribute quantizes (X, "
            "before)",
            gemm_work,
        ),
        Kind(
            "convolution",
            PRODUCT,
            ("batch", "channels_in", "channels_out", "groups", *_CONVOLUTION_DIMS),
            "convolution of up to three axes; attributes pass (forward, backward_data, backward_weight), transposed",
            convolution_work,
            divisor="groups",
        ),
        Kind(
            "attention",
            PRODUCT,
            ("batch", "heads", "kv_heads", "queries", "keys", "head_dim", "value_dim"),
            "softmax(Q K^T) V in one operation, causal or not (a mask saves nothing here); attribute writes_cache",
            attention_work,
        ),
        Kind(
            "recurrent",
            RECURRENCE,
            ("batch", "hidden", "gates", "outputs"),
            "one step of a recurrent layer, done `times` = its length; its inputs are projected in a gemm before it",
            recurrent_work,
            optional=("inputs", "layers", "directions", "length"),
        ),
        Kind(
            "norm",
            ROWS,
            ("elements", "groups"),
            "batch, layer, group or rms norm; groups share statistics, taken here (stored ones: `stored_norm`)",
            norm_work,
        ),
        Kind("softmax", ROWS, ("rows", "columns"), "softmax or log-softmax over columns", softmax_work),
        Kind("pool", WINDOWS, ("inputs", "outputs", "window"), "maximum or average over windows", pool_work),
        Kind(
            "elementwise",
            POINTWISE,
            ("elements", "reads", "writes"),
            "a function of each element; reads counts broadcast inputs once",
            elementwise_work,
        ),
        Kind(
            "reduction",
            POINTWISE,
            ("elements", "outputs"),
            "sums, maxima, losses, scans, sorts",
            reduction_work,
        ),
        Kind(
            "gather",
            COPIES,
            ("rows", "width"),
            "rows picked (gather) or added (scatter) by index: embeddings; of `table` rows, where that is known",
            gather_work,
            optional=("table",),
        ),
        Kind("move", COPIES, ("reads", "writes"), "copies, concatenation, padding, filling", move_work),
        Kind(
            "view",
            VIEWS,
            ("elements",),
            "reshape, transpose, slice: free where the machine's runtime says so",
            view_work,
        ),
        Kind(
            "upsample",
            COPIES,
            ("inputs", "outputs", "taps"),
            "interpolation with `taps` inputs an output",
            upsample_work,
        ),
        Kind("optimizer", UPDATES, ("elements",), "one update of parameters", optimizer_work),
        Kind(
            "collective",
            LINKS,
            ("elements", "participants"),
            "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv of `elements` a participant (of "
            "the whole, where parts are gathered or scattered); every `stride`-th device takes part, `sharing` such "
            "groups at a time",
            collective_work,
            optional=("stride", "sharing"),
            divisor="participants",
        ),
        Kind("host", APART, ("elements",), "host input or output (infeed, outfeed)", host_work),
        Kind("sparse", APART, ("rows", "columns", "nonzeros", "vectors"), "sparse matrix times vectors", sparse_work),
        Kind(
            "uncounted",
            UNKNOWN,
            ("reads", "writes"),
            "not known: bytes of its operands, no flop; listed by the workload",
            move_work,
        ),
    )
}


def family_of(kind: str) -> KindFamily:
    """The family of a kind; `OUTSIDE` where it is no word of the taxonomy."""
    return KINDS[kind].family if kind in KINDS else OUTSIDE


def operation(
    name: str,
    kind: str,
    dims: Mapping[str, Amount],
    dtype: str = "float32",
    attributes: Mapping[str, Attribute] | None = None,
    *,
    times: Amount = 1,
    body: Workload | None = None,
) -> Op:
    """An operation of a kind with its cost by the kind's formula.

    Raises InputError where the kind, a dim or the data type is unknown, a dim is missing, or there are 0 groups.
    """
    if kind not in KINDS:
        raise unknown_name("kind of operation", kind, list(KINDS))
    entry = KINDS[kind]
    for dim in dims:
        if dim not in (*entry.dims, *entry.optional):
            raise unknown_name(f"dim of {kind} {name!r}", dim, [*entry.dims, *entry.optional])
    missing = [dim for dim in entry.dims if dim not in dims]
    if missing:
        raise InputError(f"{kind} {name!r}: no value for {', '.join(missing)}")
    divisor = dims.get(entry.divisor, 1)
    if not is_symbolic(divisor) and not divisor >= 1:
        raise InputError(f"{kind} {name!r}: {entry.divisor} = {divisor!r}: want 1 or more")
    facts = dict(attributes or {})
    cost = entry.work(dims, facts).cost(dtype)
    return Op(name, kind, FrozenDict(dict(dims)), dtype, cost, times, FrozenDict(facts), body)


def convolution_dims(
    batch: Amount,
    channels_in: Amount,
    channels_out: Amount,
    groups: Amount,
    given: Sequence[Amount],
    made: Sequence[Amount],
    kernel: Sequence[Amount],
) -> dict[str, Amount]:
    """Dims of a convolution of one to three axes: sizes of its input, its result and its window, in elements."""
    dims = {"batch": batch, "channels_in": channels_in, "channels_out": channels_out, "groups": groups}
    for part, sizes in (("in", given), ("out", made), ("kernel", kernel)):
        whole = (1,) * (len(AXES) - len(sizes)) + tuple(sizes)
        dims |= {f"{part}_{axis}": size for axis, size in zip(AXES, whole, strict=True)}
    return dims


def stored_norm(elements: Amount, channels: Amount) -> tuple[str, dict[str, Amount], dict[str, Attribute]]:
    """Kind, dims and attributes of a batch norm at inference: mean, variance, scale and shift of a channel are data.

    Nothing is reduced: each element is read, scaled and shifted (four flop) and written, as elementwise work is, and a
    compiler makes it the end of the product before it.
    """
    dims = {"elements": elements, "reads": elements + 4 * channels, "writes": elements}
    return "elementwise", dims, {"function": "batch_norm"}
