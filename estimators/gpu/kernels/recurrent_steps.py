"""A step of a recurrent layer on a GPU: by a product a step, or with the weights kept in registers between steps.

PyTorch chooses cuDNN's persistent kernels by a published rule (pytorch/pytorch, aten/src/ATen/native/cudnn/RNN.cpp,
`get_algo` and what it calls): small hidden sizes in every type; in FP16 one layer of one direction whose sizes are
multiples of 128, on some GPUs and for some batches and lengths. All else is standard: a product a step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from slipstick.common.expressions import sp, symbol
from slipstick.estimators.gpu.kernels.kernel_classes import PRODUCTS, SOURCE, aligned, operand_sizes
from slipstick.estimators.gpu.kernels.matrix_tiles import Resources, product
from slipstick.estimators.symbolic.formula import Formula, MinOverConfigs
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import SIZE_BYTES
from slipstick.workloads.graph.workload import Op

Algorithm: TypeAlias = Literal["standard", "small", "volta", "later"]
"""How the steps of a layer run: "small" and the two rules of batches and lengths keep weights in registers."""

BARRIER = 2000
"""Cycles in which all cores of a persistent kernel meet: four trips to the last cache of about 500 (a store and its
fence, the flag, the others' poll, the load of the new state). A judgement: no public rows time these kernels. With it a
Titan X does 2.9 TFLOP/s where Diamos et al. (Persistent RNNs, ICML 2016) report 2.8 (a batch of 4, 1,152 units)."""
NARROWEST = 8
"""Columns of the narrowest product of the matrix units (m16n8k16)."""
SMALL = {("rnn", "forward"): 384, ("rnn", "backward"): 256, ("forward",): 192, ("backward",): 128}
"""Largest hidden sizes of the kernel for small ones; the last two are those of LSTM and GRU."""
STACKED = ("layers", "directions", "length", "inputs")
"""Dims of a step that was recorded from a module of PyTorch: what the rule reads."""
BEFORE_PASCAL = ("nvidia-fermi", "nvidia-kepler", "nvidia-maxwell")
NEITHER = (*BEFORE_PASCAL, "nvidia-pascal", "nvidia-turing")
"""Families without the persistent kernel of FP16: compute capability below 7.0, and 7.5."""
EXCLUDED = "nvidia-ampere-ga10"
"""Chips of compute capability 8.6, but for GA100."""
LEAST_CORES = 98


def algorithm(op: Op, machine: Machine) -> Algorithm:
    """Which of cuDNN's algorithms PyTorch chooses, as far as sizes decide that are numbers of the network."""
    if not all(name in op.dims for name in STACKED) or op.attributes.get("projection"):
        return "standard"
    if not machine.family.startswith("nvidia") or op.dtype == "float64":
        return "standard"
    cell, way = str(op.attributes["function"]), str(op.attributes.get("pass", "forward"))
    hidden, inputs = op.dims["hidden"], op.dims["inputs"]
    if not isinstance(hidden, int):
        return "standard"
    if not machine.family.startswith(BEFORE_PASCAL) and hidden <= SMALL.get((cell, way), SMALL[way,]):
        return "small"
    alone = op.dims["layers"] == 1 and op.dims["directions"] == 1
    even = hidden <= 1024 and hidden % 128 == 0 and isinstance(inputs, int) and inputs % 128 == 0
    if op.dtype != "float16" or not (alone and even) or machine.family.startswith(NEITHER):
        return "standard"
    if machine.family.startswith("nvidia-volta"):
        return "volta"
    excluded = machine.family.startswith(EXCLUDED) and not machine.family.endswith("ga100")
    return "standard" if excluded or machine.cores < LEAST_CORES or cell == "gru" else "later"


def lanes(op: Op) -> sp.Expr:
    """Steps that may run beside each other: both directions, or of one direction the layers behind each other, whose
    first steps wait (Appleyard et al., Optimizing Performance of Recurrent Neural Networks on GPUs, arXiv 1604.01946,
    section 3.3)."""
    if not all(name in op.dims for name in STACKED):
        return sp.Integer(1)
    layers, length = symbol("operation.layers"), symbol("operation.length")
    if op.dims["directions"] != 1:
        return symbol("operation.directions")
    return layers * length / (length + layers - 1)


def recurrent(op: Op, has: Resources, prefix: str, rule: Algorithm = "standard") -> Formula:
    """One step of a recurrent layer: its product with the state, then its gates, and what starts its kernels.

    A persistent kernel is started once a layer: its steps have no start.
    """
    standard = standard_step(op.dtype, has, prefix, lanes(op) if rule != "small" else 1)
    if rule == "standard":
        return standard
    kept = _persistent(op.dtype, has)
    share = _chosen(rule, str(op.attributes["function"]))
    return MinOverConfigs(share * kept + (1 - share) * standard.expression, "s", SOURCE, menu=PRODUCTS)


def step_latency(rule: Algorithm, has: Resources, prefix: str) -> sp.Expr:
    """Seconds of a step in which nothing is computed: the start of a standard one, the barrier of one kept between."""
    return symbol(f"{prefix}overhead") if rule == "standard" else BARRIER / has.clock


def standard_step(dtype: str, has: Resources, prefix: str, beside: sp.Expr | int = 1) -> MinOverConfigs:
    """The product with the state in tiles, whose weights a cache may keep, and the gates.

    `beside` steps of other layers or directions run at the same time: together they fill the cores, and each has
    weights of its own. Gates run after the product: their traffic is what the operation moves besides weights.
    """
    batch, hidden, gates, outputs = _dims()
    gate_bytes = Largest(0, symbol("operation.bytes_moved") - gates * hidden * outputs * _size(dtype))
    # Every step reads the same weights: nothing else is touched in between.
    again = replace(has, rotation=None if has.rotation is None else sp.Integer(1), weights_between=sp.Integer(0))
    dims = (sp.sympify(beside, strict=True), gates * hidden, batch, outputs)
    time = product(dims, operand_sizes(dtype), again, prefix, aligned(dtype)) / beside
    start = symbol(f"{prefix}overhead")
    return MinOverConfigs(start + time + gate_bytes / has.cache_rate, "s", SOURCE, menu=PRODUCTS)


def _persistent(dtype: str, has: Resources) -> sp.Expr:
    """Seconds of a step whose weights stay in registers: a barrier, and each core reads the whole state from the cache.

    Weights come from main memory once a layer.
    """
    batch, hidden, gates, outputs = _dims()
    size, narrowest = _size(dtype), NARROWEST if SIZE_BYTES[dtype] < 4 else 1
    weights = gates * hidden * outputs
    gate_bytes = Largest(0, symbol("operation.bytes_moved") - weights * size)
    once = weights * size / has.memory_rate / symbol("operation.length")
    multiplied = 2 * weights * Largest(batch, narrowest) / has.flop_rate
    spread_out = has.cores * batch * outputs * size / has.cache_rate
    return BARRIER / has.clock + Largest(multiplied, spread_out) + gate_bytes / has.cache_rate + once


def _chosen(rule: Algorithm, cell: str) -> sp.Expr:
    """1 where batch and length are among those of the rule, else 0."""
    batch, length, hidden = (symbol(f"operation.{name}") for name in ("batch", "length", "hidden"))
    if rule == "small":
        return sp.Integer(1)
    if rule == "volta":
        even = _multiple(batch, 16) * (1 - _equal(batch, 80)) * (1 - _equal(batch, 112))
        long_enough = (
            _at_most(batch, most) * _at_most(least, length) for least, most in ((40, 128), (20, 96), (10, 32))
        )
        return Largest(even, _equal(batch, 8)) * Largest(*long_enough)
    suits = _multiple(batch, 8) * _at_most(batch, 128)
    return suits if cell == "lstm" else suits * Largest(1 - _at_most(96, batch), 1 - _at_most(896, hidden))


def _at_most(value: sp.Expr | int, limit: sp.Expr | int) -> sp.Expr:
    return Smallest(1, sp.floor(sp.sympify(limit, strict=True) / value))


def _multiple(value: sp.Expr, of: int) -> sp.Expr:
    return 1 - Smallest(1, sp.Mod(value, of))


def _equal(value: sp.Expr, other: int) -> sp.Expr:
    return _at_most(value, other) * _at_most(other, value)


def _dims() -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    batch, hidden, gates, outputs = (symbol(f"operation.{name}") for name in ("batch", "hidden", "gates", "outputs"))
    return batch, hidden, gates, outputs


def _size(dtype: str) -> sp.Rational:
    return sp.Rational(SIZE_BYTES[dtype])
