"""Which measured class of operations stands for one that nobody measured, and how much less sure that is.

Data types of equal size run on the same silicon at the same rate; what moves every byte once reaches the share of the
bandwidth that additions reach; convolutions in the types of the matrix units are products on them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from slipstick.common.size_column import Sized, largest, log2, number, smallest
from slipstick.estimators.gpu.kernels.kernel_classes import OF_STEPS, apart, class_of, of_step
from slipstick.estimators.gpu.transfer.pooling_constants import FARTHEST_OUT, MEASURED_RANGES, PER_OCTAVE
from slipstick.hwmodels.machine import HALF
from slipstick.workloads.graph.kinds import family_of
from slipstick.workloads.graph.workload import Op

NARROW = ("float8", "float8_block", "mxfp8", "mxfp6", "int8", "float4", "nvfp4", "mxfp4")
"""No public rows of FP4 or MXFP exist for the machines of this calibration: they stand on FP8's."""
WEIGHTS_ALONE = 0.3
"""Products of weights stored narrower than they are multiplied (W4A16, W8A16), by the parameters of 16-bit products: a
judgement. The calibration has no public times of them; kernels differ by a factor of two and more. Against gpt-fast's
README (A100, Llama 2 7B, one sequence; 105, 156 and 197 tokens/s with weights in BF16, INT8 and INT4) the default
answers are 18, 26 and 35 % low."""
ROLE_ALONE = 0.7
"""Layers of experts and latent attention by the parameters of plain products and attention: a judgement. The median
answer of 54 cases of `slipstick validate experts` was .6 of the measured time so."""


@dataclass(frozen=True)
class FallbackClass:
    """A measured class that stands for another; `spread` is added to its scatter (standard deviations of log time).

    The spreads are judgements, not fits. Products in FP8 have a class of their own: by BF16 parameters they are 35 to
    43 % off, by those of FP8 on other machines 19 to 31 % (a generation left out, docs/notes/gpu-operations.md).
    """

    measured: str
    spread: float


@dataclass(frozen=True)
class Beyond:
    """How far an operation lies outside the shapes that its class was fitted to: the dimension that is farthest out."""

    dim: str
    value: float
    low: float
    high: float

    @property
    def octaves(self) -> float:
        """Beyond the nearer end."""
        return float(_octaves(self.value, self.low, self.high))


def beyond(op: Op) -> Beyond | None:
    """Where an operation's shape lies outside what was measured of its kind; None inside, or where nothing is known.

    Sizes must be numbers.
    """
    places = [
        Beyond(dim, float(op.dims[dim]), low, high)
        for dim, (low, high) in _measured(op).items()
        if not low <= float(op.dims[dim]) <= high
    ]
    return max(places, key=lambda place: place.octaves, default=None)


def _octaves(value: Sized, low: float, high: float) -> Sized:
    """Beyond the nearer end of a range; 0 or less inside."""
    return log2(largest(low / value, value / high))


def _measured(op: Op) -> dict[str, tuple[float, float]]:
    """The range of each of its dimensions in what was measured of its kind; none of what a step declares a role of."""
    if of_step(class_of(op)):
        return {}
    return {dim: ends for dim, ends in _ranges(op.kind, op.dtype).items() if dim in op.dims}


@cache
def _ranges(kind: str, dtype: str) -> Mapping[str, tuple[float, float]]:
    """The range of each dimension in what was measured of a kind, or of its most usual data type."""
    names = (f"{kind}.{dtype}", f"{kind}.float32", f"{kind}.bfloat16")
    return next((MEASURED_RANGES[name] for name in names if name in MEASURED_RANGES), {})


def fallback_class_for(name: str, measured: Collection[str]) -> FallbackClass | None:
    """The measured class nearest to one (`class_of`); None where none resembles it."""
    return next((one for one in _candidates(name) if one.measured in measured), None)


def spread_beyond(op: Op) -> Sized:
    """What is added to the scatter of an operation's class outside of the measured shapes, standard deviation of log
    time; of sizes in columns point by point."""
    octaves = 0.0
    for dim, (low, high) in _measured(op).items():
        octaves = largest(octaves, _octaves(number(op.dims[dim]), low, high))
    return smallest(FARTHEST_OUT, PER_OCTAVE * octaves)


def stored_narrower(op: Op) -> bool:
    """Whether a product's weights are stored in a narrower type than it multiplies in."""
    return op.kind == "gemm" and "weights" in op.attributes


def _candidates(name: str) -> Iterator[FallbackClass]:
    yield FallbackClass(name, 0.0)
    if role := next((one for one in OF_STEPS if one in name.split(".")), ""):
        alike = list(_candidates(name.partition(f".{role}")[0]))
        yield from (FallbackClass(f"{one.measured}.{role}", one.spread) for one in alike)
        yield from (FallbackClass(one.measured, math.hypot(one.spread, ROLE_ALONE)) for one in alike)
        return
    if one := apart(name):
        yield from (FallbackClass(twin, 0.0) for twin in (one.plain, one.many))
    kind, dtype = name.split(".")[:2]
    if dtype in HALF:
        yield from (FallbackClass(f"{kind}.{twin}", 0.05) for twin in HALF)
    if kind in ("gemm", "attention"):
        if dtype in NARROW[1:]:
            yield FallbackClass(f"{kind}.float8", 0.25)
        if dtype in ("tfloat32", *NARROW):
            yield FallbackClass(f"{kind}.bfloat16", 0.15 if dtype == "tfloat32" else 0.25)
        if dtype in ("float32", "float64"):
            yield FallbackClass(f"{kind}.float32", 0.15)
            yield FallbackClass(f"{kind}.bfloat16", 0.3)
    if kind == "convolution":
        if dtype in ("tfloat32", *HALF, *NARROW):
            yield FallbackClass("convolution.float16", 0.05 if dtype in HALF else 0.15)
            yield FallbackClass("gemm.bfloat16", 0.25)
        yield FallbackClass("convolution.float32", 0.2)
    if kind in ("norm", "softmax"):
        yield FallbackClass(f"{kind}.float32", 0.1)
    if family_of(kind).streams:
        yield FallbackClass("elementwise.float32", 0.1 if kind == "elementwise" else 0.2)
