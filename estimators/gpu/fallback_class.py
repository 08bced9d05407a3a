"""Which measured class of operations is the substitute of one that nobody measured, and how much less sure that is.

Both types of 16 bits run on the same silicon at the same rate; what moves every byte once reaches the share of the
bandwidth that additions reach, in every type; convolutions in the types of the matrix units are products on them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from slipstick.common.size_column import Sized, largest, log2, number, smallest
from slipstick.estimators.fitting.similarity_weights import DIFFERENCES, SimilarityWeights
from slipstick.estimators.gpu.kernels.kernel_classes import OF_STEPS, class_of, of_step
from slipstick.estimators.gpu.transfer.pooling_constants import FARTHEST_OUT, MEASURED_RANGES, PER_OCTAVE
from slipstick.hwmodels.machine import HALF
from slipstick.workloads.graph.kinds import SIZE_BYTES, family_of
from slipstick.workloads.graph.workload import Op

SINGLE = ("float32", "float64")
"""Types of vector engines; matrix engines multiply the others."""


@dataclass(frozen=True)
class FallbackClass:
    """A measured class as the substitute of another; `spread` is added to its scatter (standard deviations, log time).

    It is that of all differences of the two, as classes of one machine differ that were both measured
    (``slipstick validate --refit operations``).
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
    places = (Beyond(dim, float(op.dims[dim]), *ends) for dim, ends in _measured(op).items())
    return max((place for place in places if place.octaves > 0), key=lambda place: place.octaves, default=None)


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


def fallback_class_for(name: str, measured: Collection[str], similarity: SimilarityWeights) -> FallbackClass | None:
    """The measured class nearest to one (`class_of`); None where none resembles it.

    Of several that are as near, one whose type runs on the same engine, and is as wide.
    """
    wanted, near = _parts(name), []
    for other in sorted(measured):
        differ = differences(name, other)
        if differ is not None:
            dtype = _parts(other).dtype
            wider = abs(math.log2(SIZE_BYTES.get(dtype, 1) / SIZE_BYTES.get(wanted.dtype, 1)))
            spread = math.hypot(*(similarity.spreads[one] for one in differ))
            near.append((spread, (dtype in SINGLE) != (wanted.dtype in SINGLE), wider, other))
    return FallbackClass(min(near)[-1], min(near)[0]) if near else None


def spread_beyond(op: Op) -> Sized:
    """What is added to the scatter of an operation's class outside of the measured shapes, standard deviation of log
    time; of sizes in columns point by point."""
    octaves = 0.0
    for dim, (low, high) in _measured(op).items():
        octaves = largest(octaves, _octaves(number(op.dims[dim]), low, high))
    return smallest(FARTHEST_OUT, PER_OCTAVE * octaves)


def stored_narrower(op: Op) -> bool:
    """Whether a product's weights are stored in a narrower type than it multiplies in, which its class does not say.

    Kernels differ by a factor of two and more. Against gpt-fast's README (A100, Llama 2 7B, one sequence; 105, 156 and
    197 tokens/s with weights in BF16, INT8 and INT4) answers by 16-bit products are 18, 26 and 35 % low.
    """
    return op.kind == "gemm" and "weights" in op.attributes and not of_step(class_of(op))


def differences(name: str, other: str) -> tuple[str, ...] | None:
    """In which of `DIFFERENCES` a measured class differs from one whose substitute it may be; None where it may not."""
    wanted, known = _parts(name), _parts(other)
    family = family_of(wanted.kind)
    moves = (family.streams or family.follows) and known.kind == "elementwise"
    tiles = (wanted.kind, known.kind) == ("convolution", "gemm") and not {wanted.dtype, known.dtype} & {*SINGLE}
    less = known.role in ("", wanted.role) and known.stored in ("", wanted.stored)
    if not less or not (wanted.kind == known.kind or moves or tiles):
        return None
    alike = not family.product or wanted.dtype == known.dtype or {wanted.dtype, known.dtype} <= {*HALF}
    differ = {name for name, value in known._asdict().items() if value != wanted._asdict()[name]}
    differ -= {"many"} if "kind" in differ else set()
    return tuple(one for one in DIFFERENCES if one in differ | (set() if alike else {"type"}))


class _NameParts(NamedTuple):
    """Of the name of a class (`class_of`); "" for those that it lacks."""

    kind: str
    dtype: str
    many: str
    role: str
    stored: str


def _parts(name: str) -> _NameParts:
    kind, dtype, *rest = name.split(".")
    many = rest.pop(0) if rest and rest[0] not in OF_STEPS else ""
    role, stored, *_ = (*rest, "", "")
    return _NameParts(kind, dtype, many, role, stored)
