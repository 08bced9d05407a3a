"""The work of each kind of operation: flop by unit and elements moved, from its dims. A multiply-add is two flop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from slipstick.common.readers import unknown_name
from slipstick.workloads.graph.cost import RATED_AS, SIZE_BYTES, Amount, Cost, is_floating, result_bytes

INDEX_BYTES = 8


@dataclass(frozen=True)
class Work:
    """What one execution does: flop by unit, and elements read and written."""

    matrix: Amount = 0
    vector: Amount = 0
    special: Amount = 0
    read: Amount = 0
    written: Amount = 0
    index_bytes: Amount = 0
    host_bytes: Amount = 0
    link_bytes: Amount = 0
    launches: Amount = 1

    def cost(self, dtype: str) -> Cost:
        """As a cost in a data type: flop by unit, bytes read and written.

        Raises InputError where the data type is unknown.
        """
        if dtype not in SIZE_BYTES:
            raise unknown_name("data type", dtype, list(SIZE_BYTES))
        size, result = SIZE_BYTES[dtype], result_bytes(dtype)
        unit = RATED_AS.get(dtype, dtype)
        # Wide integers and truth values are indices and masks, traffic only; a product of integers is arithmetic.
        counts_flop = is_floating(unit) or unit == "int8" or self.matrix != 0
        return Cost(
            {
                f"flop.matrix.{unit}": self.matrix if counts_flop else 0,
                f"flop.vector.{unit}": self.vector if counts_flop else 0,
                f"flop.special.{unit}": self.special if counts_flop else 0,
                "read": size * self.read + self.index_bytes,
                "written": result * self.written,
                "host.bytes": size * self.host_bytes,
                "link.network": size * self.link_bytes,
                "launches": self.launches,
            }
        )


Dims: TypeAlias = Mapping[str, Any]
Facts: TypeAlias = Mapping[str, Any]


def product(amounts: Iterable[Amount]) -> Amount:
    """The product of amounts; 1 of none."""
    result: Amount = 1
    for amount in amounts:
        result = result * amount
    return result


def gemm_work(d: Dims, a: Facts) -> Work:
    """W (m, k) times X (k, n), batched; a bias is one addition an output."""
    batch, m, n, k = d["batch"], d["m"], d["n"], d["k"]
    outputs = batch * m * n
    bias = bool(a.get("bias"))
    return Work(
        matrix=2 * outputs * k,
        vector=outputs if bias else 0,
        read=batch * (m * k + k * n) + (m if bias else 0),
        written=outputs,
    )


AXES = ("depth", "height", "width")


def convolution_work(d: Dims, a: Facts) -> Work:
    """A window of each input channel of a group for each output place; three passes over the same products.

    Raises InputError where the pass is not forward, backward_data or backward_weight.
    """
    groups = d["groups"]
    window = product(d[f"kernel_{axis}"] for axis in AXES)
    weights = d["channels_in"] * d["channels_out"] // groups * window
    inputs = d["batch"] * d["channels_in"] * product(d[f"in_{axis}"] for axis in AXES)
    outputs = d["batch"] * d["channels_out"] * product(d[f"out_{axis}"] for axis in AXES)
    # A transposed convolution spreads each input over a window; a plain one gathers a window for each output.
    places = product(d[f"{'in' if a.get('transposed') else 'out'}_{axis}"] for axis in AXES)
    matrix = 2 * weights * (d["batch"] * places)
    match a.get("pass", "forward"):
        case "forward":
            return Work(matrix=matrix, vector=outputs if a.get("bias") else 0, read=inputs + weights, written=outputs)
        case "backward_data":
            return Work(matrix=matrix, read=outputs + weights, written=inputs)
        case "backward_weight":
            return Work(matrix=matrix, read=outputs + inputs, written=weights)
        case other:
            raise unknown_name("pass of a convolution", other, ["forward", "backward_data", "backward_weight"])


def attention_work(d: Dims, a: Facts) -> Work:
    """Scores, softmax, weighted values; backward is four products, twice the forward."""
    scores = d["batch"] * d["heads"] * (d["queries"] * d["keys"])
    q = d["batch"] * d["heads"] * d["queries"] * d["head_dim"]
    k = d["batch"] * d["kv_heads"] * d["keys"] * d["head_dim"]
    v = d["batch"] * d["kv_heads"] * d["keys"] * d["value_dim"]
    out = d["batch"] * d["heads"] * d["queries"] * d["value_dim"]
    matrix = 2 * scores * (d["head_dim"] + d["value_dim"])
    if a.get("pass") == "backward":
        # Four products, twice the forward's; scores made again in place of being stored are a runtime's choice.
        return Work(2 * matrix, 6 * scores, scores, read=q + k + v + 2 * out, written=q + k + v)
    return Work(matrix, 5 * scores, scores, read=q + k + v, written=out)


# Per hidden unit and step: (vector flop, special functions), projected inputs included.
_CELLS: Mapping[str, tuple[int, int]] = {"lstm": (4 + 4 + 3, 5), "gru": (3 + 3 + 6, 3), "rnn": (2, 1)}


def recurrent_work(d: Dims, a: Facts) -> Work:
    """One step: the product with the state, then gates."""
    batch, hidden, gates, outputs = d["batch"], d["hidden"], d["gates"], d["outputs"]
    vector, special = _CELLS[a["function"]]
    weights = gates * hidden * outputs
    matrix = 2 * batch * weights
    states = batch * hidden
    if a.get("projection"):
        weights, matrix = weights + hidden * outputs, matrix + 2 * batch * hidden * outputs
    moved = batch * gates * hidden + 2 * states
    if a.get("pass") == "backward":
        return Work(matrix, 2 * vector * states, 0, read=weights + moved + states, written=moved, launches=2)
    return Work(matrix, vector * states, special * states, read=weights + moved, written=moved, launches=2)


def norm_work(d: Dims, a: Facts) -> Work:
    """Statistics and scaling of each element."""
    elements, groups = d["elements"], d["groups"]
    if a.get("pass") == "backward":
        return Work(vector=11 * elements, special=0, read=3 * elements + 2 * groups, written=elements + 2 * groups)
    per_element = 4 if a.get("function") == "rms" else 8
    moved = elements + 2 * groups
    return Work(vector=per_element * elements, special=groups, read=moved, written=moved)


def softmax_work(d: Dims, a: Facts) -> Work:
    """Maximum, difference, sum, division; one exponential an element."""
    elements = d["rows"] * d["columns"]
    if a.get("pass") == "backward":
        return Work(vector=4 * elements, read=2 * elements, written=elements)
    return Work(vector=4 * elements, special=elements, read=elements, written=elements)


def pool_work(d: Dims, a: Facts) -> Work:
    """Each window visited once."""
    visits = d["outputs"] * d["window"]
    if a.get("pass") == "backward":
        flop = d["outputs"] if a.get("function") == "max" else visits
        return Work(vector=flop, read=d["outputs"], written=d["inputs"], index_bytes=_indices(d["outputs"], a))
    return Work(vector=visits, read=d["inputs"], written=d["outputs"])


def _indices(count: Amount, a: Facts) -> Amount:
    return INDEX_BYTES * count if a.get("function") == "max" else 0


# (vector flop, special functions) per output element, where it is not (1, 0).
_FUNCTIONS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf"), (0, 1)),
    **dict.fromkeys(("pow", "reciprocal", "log1p", "expm1", "log2", "atan2"), (0, 1)),
    **dict.fromkeys(("copy", "cast", "not", "bitwise_not", "logical_not"), (0, 0)),
    **dict.fromkeys(("eq", "ne", "where", "masked_fill", "isnan"), (0, 0)),
    "batch_norm": (4, 0),
    "rotary": (3, 0),
    "sigmoid": (3, 1),
    "silu": (4, 1),
    "gelu": (5, 1),
    "mish": (4, 2),
    "softplus": (1, 2),
    "elu": (2, 1),
    "glu": (4, 1),
    "hardswish": (4, 0),
    "hardsigmoid": (3, 0),
    "leaky_relu": (2, 0),
    "prelu": (2, 0),
    "addcmul": (3, 0),
    "addcdiv": (3, 0),
    "lerp": (3, 0),
    "dropout": (1, 1),
    "native_dropout": (1, 1),
    "random": (0, 1),
    "sigmoid_backward": (3, 0),
    "tanh_backward": (3, 0),
    "gelu_backward": (10, 2),
    "silu_backward": (6, 1),
    "hardswish_backward": (3, 0),
    "elu_backward": (3, 1),
    "mish_backward": (8, 2),
    "glu_backward": (6, 1),
    "native_dropout_backward": (2, 0),
}


def elementwise_work(d: Dims, a: Facts) -> Work:
    """flop an element by function."""
    vector, special = _FUNCTIONS.get(str(a.get("function")), (1, 0))
    elements = d["elements"]
    return Work(vector=vector * elements, special=special * elements, read=d["reads"], written=d["writes"])


def reduction_work(d: Dims, a: Facts) -> Work:
    """One flop an element."""
    return Work(vector=d["elements"], read=d["elements"], written=d["outputs"])


def gather_work(d: Dims, a: Facts) -> Work:
    """Rows moved; scattered rows are added."""
    elements = d["rows"] * d["width"]
    adds = elements if a.get("function") == "scatter" else 0
    return Work(vector=adds, read=elements + adds, written=elements, index_bytes=INDEX_BYTES * d["rows"])


def move_work(d: Dims, a: Facts) -> Work:
    """Traffic of its operands, no flop."""
    return Work(read=d["reads"], written=d["writes"])


def view_work(d: Dims, a: Facts) -> Work:
    """Traffic, where the machine's runtime does not do it for nothing."""
    return Work(read=d["elements"], written=d["elements"])


def upsample_work(d: Dims, a: Facts) -> Work:
    """Two flop a tap."""
    flop = 2 * d["taps"] * d["outputs"] if d["taps"] != 1 else 0
    if a.get("pass") == "backward":
        return Work(vector=flop, read=d["outputs"], written=d["inputs"])
    return Work(vector=flop, read=d["inputs"], written=d["outputs"])


# Per parameter: (vector flop, special functions, elements read, elements written), gradient and states counted.
_OPTIMIZERS: Mapping[str, tuple[int, int, int, int]] = {
    "sgd": (2, 0, 2, 1),
    "momentum": (4, 0, 3, 2),
    "adam": (12, 1, 4, 3),
    "adamw": (14, 1, 4, 3),
    "adagrad": (5, 1, 3, 2),
    "rmsprop": (7, 1, 3, 2),
}


def optimizer_work(d: Dims, a: Facts) -> Work:
    """Reads gradient and states, writes parameters and states.

    Raises InputError where the optimizer is unknown.
    """
    name = str(a.get("function"))
    if name not in _OPTIMIZERS:
        raise unknown_name("optimizer", name, list(_OPTIMIZERS))
    vector, special, read, written = _OPTIMIZERS[name]
    n = d["elements"]
    return Work(vector=vector * n, special=special * n, read=read * n, written=written * n)


def collective_work(d: Dims, a: Facts) -> Work:
    """Bytes each participant sends in a ring (Patarasuk and Yuan, JPDC 69, 2009).

    Raises InputError where the collective is unknown.
    """
    n, ranks = d["elements"], d["participants"]
    share = n * (ranks - 1) / ranks
    sent = {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "broadcast": n, "all_to_all": share}
    sent["send_recv"] = n
    function = str(a.get("function", "all_reduce"))
    if function not in sent:
        raise unknown_name("collective", function, list(sent))
    adds = share if function in ("all_reduce", "reduce_scatter") else 0
    return Work(vector=adds, read=n, written=n, link_bytes=sent[function])


def host_work(d: Dims, a: Facts) -> Work:
    """Bytes between host and device."""
    return Work(host_bytes=d["elements"], launches=0)


def sparse_work(d: Dims, a: Facts) -> Work:
    """Two flop a stored element and vector; indices of four bytes."""
    vectors, nonzeros = d["vectors"], d["nonzeros"]
    indices = 4 * (nonzeros + d["rows"] + 1)
    read, written = nonzeros + d["columns"] * vectors, d["rows"] * vectors
    return Work(vector=2 * nonzeros * vectors, read=read, written=written, index_bytes=indices)
