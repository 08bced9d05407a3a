"""Bytes that a training step keeps from its forward pass for the backward pass, as PyTorch's autograd keeps them.

Each operation saves some of its inputs, its result, both or neither (PyTorch, tools/autograd/derivatives.yaml). What is
saved is a storage, and counts once however many operations or views hold it; parameters lie there anyway and do not
count. An operation that works in place shares its input's storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slipstick.common.size_column import Sized, number
from slipstick.workloads.graph.cost import SIZE_BYTES
from slipstick.workloads.graph.kinds import family_of
from slipstick.workloads.graph.order import Neighbours
from slipstick.workloads.graph.workload import Op, Workload

RESULT = frozenset(("relu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "reciprocal", "threshold"))
"""Functions whose derivative is a function of the result."""
POINTWISE_INPUT = (
    *("gelu", "silu", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu", "elu", "celu", "mish", "softplus", "glu"),
    *("softshrink", "hardshrink", "log_sigmoid_forward", "prelu", "_prelu_kernel", "cdist", "square", "pow", "abs"),
    *("clamp", "clamp_min", "clamp_max", "log", "log1p", "log2", "sin", "cos", "erf", "mse_loss", "smooth_l1_loss"),
    *("huber_loss", "binary_cross_entropy"),
)
OF_RESULT_IN_PLACE = frozenset(("leaky_relu", "elu", "celu", "selu"))
"""Functions whose derivative is one of the result where they work in place; the others keep a copy of their input."""
REDUCED_INPUT = (
    *("var", "var_mean", "std", "linalg_vector_norm", "norm", "logsumexp", "prod", "amax", "amin", "_euclidean_dist"),
    *("nll_loss_forward", "nll_loss2d_forward"),
)
INPUT = frozenset((*POINTWISE_INPUT, *REDUCED_INPUT))
"""Functions whose derivative needs the input."""
FACTORS = frozenset(("mul", "div", "addcmul", "addcdiv", "lerp", "atan2", "maximum", "minimum", "fmod", "xlogy"))
"""Functions of two tensors of which each is saved where the other needs a gradient."""
CAST = "cast"
"""The function of a conversion to another data type."""
DROPOUT = ("native_dropout", "dropout")
INDEX_BYTES, MASK_BYTES, STATISTIC_BYTES = 8, 1, 4


@dataclass(frozen=True)
class Taped:
    """One operation of the forward pass as autograd sees it; storages are named by the operation that made them.

    `made`: the storage of its result; "" where it shows or overwrites another's.
    `reads`: storages of what it reads.
    `grows`: those of them that need a gradient.
    `saves`: bytes of each storage that it keeps for its backward pass; none where it needs no gradient.
    """

    op: Op
    made: str
    reads: tuple[str, ...]
    grows: frozenset[str]
    saves: Mapping[str, Sized]


def tape(workload: Workload) -> tuple[Taped, ...]:
    """The operations of the forward pass, in the order of execution, with what each saves.

    `workload`: without open sizes; one without a backward pass is taken to be one that trains.
    """
    forward = [op for op in workload if op.attributes.get("phase", "forward") == "forward"]
    named = {op.name: op for op in forward}
    makers = Neighbours.of(named, (edge for edge in workload.edges if named.keys() >= {*edge})).before
    storages: dict[str, tuple[str, ...]] = {}
    needs: dict[str, bool] = {}
    taped: list[Taped] = []
    kept: set[str] = set()
    for op in forward:
        inputs = tuple(dict.fromkeys(root for maker in makers[op.name] for root in storages[maker]))
        grown = _has_parameters(op, len(inputs)) or any(needs[maker] for maker in makers[op.name])
        needs[op.name] = grown and _function(op) != "random"
        shares = op.kind == "view" or (in_place(op) and bool(inputs))
        storages[op.name] = inputs if shares else (op.name,)  # a view of what the graph does not make: nothing
        if shares and op.kind != "view":  # what was saved may not be overwritten
            storages[op.name] = tuple(root for root in inputs if root not in kept)[:1] or inputs[:1]
        grows = frozenset(root for maker in makers[op.name] if needs[maker] for root in storages[maker])
        saves: dict[str, Sized] = {}
        if needs[op.name] and op.kind != "view":
            saves = {root: result_bytes(named[root]) for root in _saved_inputs(op, inputs, grows)}
            if shares and _function(op) in INPUT and _function(op) not in OF_RESULT_IN_PLACE:
                saves = {f"{op.name} copy": size for size in list(saves.values())[:1]}
            if (family_of(op.kind).product or op.kind == "norm") and all(_is_weight(named[root]) for root in inputs):
                saves[f"input of {_each(_input_bytes(op))} bytes"] = _input_bytes(op)
            if _saves_result(op):  # in place: that of its first operand
                saves |= {root: result_bytes(named[root]) for root in storages[op.name][:1]}
            if beside := _beside(op):
                saves[f"{op.name} beside"] = beside
        kept.update(saves)
        taped.append(Taped(op, "" if shares else op.name, inputs, grows, saves))
    return tuple(taped)


def _each(size: Sized) -> str:
    """A size as text, of a column at each point."""
    return ", ".join(f"{one:g}" for one in np.ravel(size))


def _is_weight(op: Op) -> bool:
    """Whether it converts the weights that a product reads: a conversion of what the graph did not make."""
    return _function(op) == CAST and op.name.rpartition(".")[2].startswith("weight")


def _function(op: Op) -> str:
    name = str(op.attributes.get("function", ""))
    return name.removesuffix("_") if not name.startswith("_") or name.endswith("_") else name


def _called(op: Op) -> str:
    return op.name.rpartition(".")[2].partition("#")[0]


def in_place(op: Op) -> bool:
    """Whether it writes over what it reads; random numbers fill a storage of their own."""
    return op.kind == "elementwise" and _called(op).endswith("_") and _function(op) != "random"


def _has_parameters(op: Op, inputs: int) -> bool:
    """Whether an operation reads parameters, as far as its kind and sizes show."""
    if op.kind in ("convolution", "recurrent", "norm"):
        return True
    if op.kind == "gather":
        return _called(op).startswith("embedding")
    if op.kind == "gemm":
        return inputs < 2
    if op.kind == "elementwise":
        if _function(op) == CAST:
            return inputs == 0  # of weights that a product reads
        return "batch_norm" in _function(op) or (
            inputs == 1 and bool(number(op.dims.get("reads", 0)) > number(op.dims.get("elements", 0)) + 1)  # no scalar
        )
    return False


def _saved_inputs(op: Op, inputs: tuple[str, ...], grows: frozenset[str]) -> tuple[str, ...]:
    """Storages among the inputs that are saved."""
    if op.kind in ("norm", "attention", "recurrent", "convolution", "pool") or "batch_norm" in _function(op):
        return inputs
    if op.kind == "gemm":  # each factor for the gradient of the other; a bias is none
        return inputs[-2:] if len(inputs) > 1 else inputs
    name = _function(op)
    if op.kind in ("elementwise", "reduction"):
        if name in INPUT:
            return inputs
        if name in FACTORS:
            if len(inputs) == 1:
                return inputs if _has_parameters(op, 1) else ()
            return tuple(root for root in inputs if grows - {root})
    return ()


def _saves_result(op: Op) -> bool:
    return op.kind in ("softmax", "attention") or _function(op) in RESULT or _called(op) in RESULT


def _beside(op: Op) -> Sized:
    """What an operation saves besides inputs and result: masks, places, statistics."""
    d = {name: number(value) for name, value in op.dims.items()}
    if op.kind == "norm":
        return 2 * STATISTIC_BYTES * d["groups"]
    if op.kind == "attention":
        return STATISTIC_BYTES * d["batch"] * d["heads"] * d["queries"]
    if op.kind == "pool" and "max" in (_called(op) + _function(op)):
        return INDEX_BYTES * d["outputs"]
    if _function(op) in DROPOUT or _called(op) in DROPOUT:
        return MASK_BYTES * d["elements"]
    if op.kind == "gather":
        return INDEX_BYTES * d["rows"]
    return 0.0


def result_bytes(op: Op) -> Sized:
    """Bytes of the storage that an operation makes for its result."""
    if op.kind == "norm" or _function(op) in DROPOUT:  # its statistics, or its mask, are storages of their own
        return SIZE_BYTES[op.dtype] * number(op.dims["elements"])
    return number(op.cost["written"])


def _input_bytes(op: Op) -> Sized:
    """Bytes of the input of a product that nobody of the graph made."""
    d = {name: number(value) for name, value in op.dims.items()}
    size = SIZE_BYTES[op.dtype]
    if op.kind == "convolution":
        return size * d["batch"] * d["channels_in"] * d["in_depth"] * d["in_height"] * d["in_width"]
    if op.kind == "gemm":
        return size * d["batch"] * d["n"] * d["k"]
    if op.kind == "norm":
        return size * d["elements"]
    return number(op.cost["read"])
