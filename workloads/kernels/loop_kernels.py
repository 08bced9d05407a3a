"""Loops over arrays, by what one iteration touches: streams and stencils with names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import prod

from slipstick.common.errors import InputError
from slipstick.common.expressions import is_symbolic, sp, symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import WORK

Offsets = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class LoopKernel:
    """What one iteration of a loop nest touches.

    `reads`, `writes`: array -> offsets from the loop indices, the fastest dimension last.
    `flop`: of one iteration.
    `element_bytes`: of every array's elements.
    `allocates`: share of the lines written but not read that are loaded first; none where stores stream past caches.
    """

    name: str
    reads: Mapping[str, Offsets]
    writes: Mapping[str, Offsets]
    flop: float
    element_bytes: int = 8
    allocates: float = 1.0

    def __post_init__(self) -> None:
        lengths = {
            len(offset) for arrays in (self.reads, self.writes) for offsets in arrays.values() for offset in offsets
        }
        if len(lengths) != 1:
            raise InputError(f"kernel {self.name!r}: offsets have {sorted(lengths)} dimensions: want one and the same")

    @property
    def dimensions(self) -> int:
        """Of its arrays."""
        arrays = {**self.reads, **self.writes}
        return len(next(iter(arrays.values()))[0])

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of all arrays."""
        return tuple(dict.fromkeys([*self.reads, *self.writes]))


def reuse_distances(kernel: LoopKernel, shape: Sequence[Amount]) -> list[Amount | None]:
    """Elements between one access to an array and the next nearest; None for the first access of each array.

    `shape`: the fastest dimension last, numbers or symbols.
    """
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    distances: list[Amount | None] = []
    for array in kernel.arrays:
        offsets = sorted({*kernel.reads.get(array, ()), *kernel.writes.get(array, ())})
        distances.append(None)
        distances.extend(
            sum((b - a) * stride for a, b, stride in zip(one, following, strides, strict=True))
            for one, following in pairwise(offsets)
        )
    return distances


def volumes_between(kernel: LoopKernel, shape: Sequence[sp.Expr]) -> list[sp.Expr]:
    """Elements of all arrays that are touched between two accesses to the same one, by reuse along another dimension
    than the fastest: what a cache must hold so that rows and planes are read once (the layer condition)."""
    distances = reuse_distances(kernel, shape)
    far = [distance for distance in distances if is_symbolic(distance)]
    return [sp.Add(*(one if d is None else sp.Min(d, one) for d in distances)) for one in far]


def star(dimensions: int, radius: int) -> Offsets:
    """Offsets of a star stencil without its centre."""
    return tuple(
        tuple(step if axis == i else 0 for i in range(dimensions))
        for axis in range(dimensions)
        for step in range(-radius, radius + 1)
        if step
    )


def box(dimensions: int, radius: int) -> Offsets:
    """Offsets of a box stencil with its centre."""
    return tuple(product(range(-radius, radius + 1), repeat=dimensions))


def kernels() -> dict[str, LoopKernel]:
    """Well-known loops by name, in double precision."""
    here: Offsets = ((0,),)
    known = [
        LoopKernel("load", {"a": here}, {}, 0),
        LoopKernel("copy", {"b": here}, {"a": here}, 0),
        LoopKernel("scale", {"b": here}, {"a": here}, 1),
        LoopKernel("add", {"b": here, "c": here}, {"a": here}, 1),
        LoopKernel("update", {"a": here}, {"a": here}, 1),
        LoopKernel("daxpy", {"a": here, "b": here}, {"a": here}, 2),
        LoopKernel("stream-triad", {"b": here, "c": here}, {"a": here}, 2),
        LoopKernel("triad", {"b": here, "c": here, "d": here}, {"a": here}, 2),
        LoopKernel("sum", {"a": here}, {}, 1),
        LoopKernel("dot", {"a": here, "b": here}, {}, 2),
        LoopKernel("1d-3pt", {"a": box(1, 1)}, {"b": here}, 4),
        LoopKernel("2d-5pt", {"a": star(2, 1)}, {"b": ((0, 0),)}, 4),
        LoopKernel("2d-9pt", {"a": box(2, 1)}, {"b": ((0, 0),)}, 17),
        LoopKernel("3d-7pt", {"a": star(3, 1)}, {"b": ((0, 0, 0),)}, 6),
        LoopKernel("3d-27pt", {"a": box(3, 1)}, {"b": ((0, 0, 0),)}, 27),
    ]
    return {kernel.name: kernel for kernel in [*known, *_weighted_stencils()]}


def _weighted_stencils() -> list[LoopKernel]:
    """Stencils with coefficients: of seven points (constant, one array each), of 25 points, and of seismic waves.

    The last two are the long-range stencil of Stengel et al. 2015 and the uxx loop of the wave code AWP-ODC.
    """
    here: Offsets = ((0, 0, 0),)
    coefficients = {f"coefficients {side}": here for side in ("north", "south", "west", "east", "front", "back")}
    return [
        LoopKernel("3d-7pt-constcoef", {"a": star(3, 1)}, {"b": here}, 12),
        LoopKernel("3d-7pt-varcoef", {"a": star(3, 1), **coefficients}, {"b": here}, 12),
        LoopKernel("3d-long-range-stencil", {"v": (*star(3, 4), *here), "u": here, "roc": here}, {"u": here}, 41),
        LoopKernel(
            "uxx-stencil",
            {
                "d1": ((0, 0, 0), (0, -1, 0), (-1, 0, 0), (-1, -1, 0)),
                "u1": here,
                "xx": ((0, 0, -2), (0, 0, -1), (0, 0, 0), (0, 0, 1)),
                "xy": ((0, -2, 0), (0, -1, 0), (0, 1, 0)),
                "xz": ((-2, 0, 0), (-1, 0, 0), (0, 0, 0), (1, 0, 0)),
            },
            {"u1": here},
            24,
        ),
    ]


def kernel_named(name: str) -> LoopKernel:
    """One of `kernels`.

    Raises InputError where the name is unknown.
    """
    known = kernels()
    if name not in known:
        raise unknown_name("loop kernel", name, sorted(known))
    return known[name]


AXES = ("x", "y", "z")
DEFAULT_SIZES = {1: 100_000_000.0, 2: 10_000.0, 3: 400.0}
BY_NAME = {
    "stream-copy": "copy",
    "stream-triad": "stream-triad",
    "daxpy": "daxpy",
    "schoenauer-triad": "triad",
    "jacobi-2d-5pt": "2d-5pt",
    "jacobi-3d-7pt": "3d-7pt",
    "jacobi-3d-27pt": "3d-27pt",
}
"""Workload -> its loop kernel."""


def loop_workload(name: str, kernel: LoopKernel) -> Workload:
    """One sweep of a loop kernel over its arrays. Symbols: `x` (the fastest dimension), `y`, `z`, their lengths.

    Bytes are those of each array once, as STREAM counts them; what caches add is the estimator's to say.
    """
    lengths = {axis: symbol(axis) for axis in AXES[: kernel.dimensions]}
    iterations = prod(lengths.values())
    cost = Cost(
        {
            "flop.vector.float64": kernel.flop * iterations,
            "read": kernel.element_bytes * len(kernel.reads) * iterations,
            "written": kernel.element_bytes * len(kernel.writes) * iterations,
            "launches": 1,
        }
    )
    dims = FrozenDict({"elements": iterations, **lengths})
    op = Op("sweep", "elementwise", dims, "float64", cost, attributes=FrozenDict({"loop": kernel.name}))
    defaults = FrozenDict(dict.fromkeys(lengths, DEFAULT_SIZES[kernel.dimensions]))
    return Workload(name, (op,), (), defaults, FrozenDict({WORK: "loop"}))


def builders() -> dict[str, Callable[[], Workload]]:
    """Streams and stencils that ship as workloads."""
    return {name: partial(loop_workload, name, kernel_named(loop)) for name, loop in BY_NAME.items()}
