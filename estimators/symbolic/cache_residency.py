"""What caches hold of the data that an operation touches: the rules of every model with levels."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from slipstick.common.expressions import sp, symbol
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.runtime import CacheState

RESIDENT = Fraction(9, 10)
"""Largest share of the traffic that a cache spares when all fits and is still there."""


def rated_caches(machine: Machine) -> tuple[str, ...]:
    """The caches whose bandwidth is known, nearest first."""
    levels = machine.memory.items()
    rated = [name for name, level in levels if level.bandwidth is not None or level.bytes_per_cycle is not None]
    return tuple(name for name in rated if name != machine.main_memory)


def kept_caches(caches: int, state: CacheState) -> int:
    """How many of some caches, counted from main memory, still hold what the last operations touched."""
    return {"cold": 0, "warm": min(1, caches), "hot": caches}[state]


def capacity_of_all(machine: Machine, level: str) -> sp.Expr:
    """Bytes that all instances of a level hold together (`Machine.instances`, with the cores left open)."""
    one, share = symbol(f"machine.memory.{level}.capacity"), machine.memory[level].per
    if share == "machine" or (share != "core" and machine.get(f"cores_per_{share}") is None):
        return one
    instances = symbol("machine.cores")
    return one * (
        instances if share == "core" else Largest(1, sp.floor(instances / symbol(f"machine.cores_per_{share}")))
    )


def cost_by_level(
    volume: sp.Expr, capacities: Sequence[sp.Expr], costs: Sequence[sp.Expr], kept: int | None = None
) -> sp.Expr:
    """The cost of a byte (or of an access) by the levels that hold the volume.

    `volume`: bytes touched between two uses.
    `capacities`: of the caches, nearest first; one of no capacity is not there.
    `costs`: of each cache and, last, of main memory. A byte passes all nearer levels, so that no farther one is
        cheaper.
    `kept`: how many caches, counted from main memory, still hold something; all where None.
    """
    there = [is_there(level_bytes) * cost for level_bytes, cost in zip(capacities, costs, strict=False)] + [costs[-1]]
    passed = [Largest(*there[: level + 1]) for level in range(len(there))]
    first = 0 if kept is None else len(capacities) - kept
    total, held = passed[first], sp.Integer(1)
    for capacity, nearer, farther in zip(capacities[first:], passed[first:], passed[first + 1 :], strict=False):
        held = Largest(held, capacity)
        total += share_beyond(volume, held) * (farther - nearer)
    return total


def is_there(capacity: sp.Expr) -> sp.Expr:
    """1, or 0 for a cache of no capacity."""
    return Smallest(1, capacity)


def sizes_read(expression: sp.Expr) -> sp.Expr:
    """The expression with every cache there: what is named then has a say by its size, not by being there alone."""
    from slipstick.estimators.symbolic.lambdified import extremum_classes

    minima = [node for node in expression.atoms(extremum_classes.Smallest) if len(node.args) == 2 and node.args[0] == 1]
    present = [node for node in minima if all(factor.is_Symbol for factor in sp.Mul.make_args(node.args[1]))]
    return expression.xreplace(dict.fromkeys(present, sp.Integer(1)))


def share_beyond(volume: sp.Expr, capacity: sp.Expr) -> sp.Expr:
    """Share of a cyclic stream that misses a cache: from none at 0.7 of the capacity to all at 1.4, linear in the log.

    `volume`, `capacity`: bytes touched between two uses, and held.
    """
    return Smallest(1, Largest(0, sp.Rational(1, 2) + sp.log(volume / capacity) / sp.log(2)))


def shares_beyond(
    volumes: npt.NDArray[np.float64], capacity: float | npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The same on arrays: share of each reuse volume (bytes) that a capacity (bytes) does not hold, same shape.

    >>> shares_beyond(np.array([0.5, 1.0, 2.0]), 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(np.clip(0.5 + np.log2(volumes / capacity), 0.0, 1.0))


def weights_beyond(between: sp.Expr, capacity: sp.Expr) -> sp.Expr:
    """Least share of its weights that a program reads from main memory, where no operation finds them before.

    The one rule of every model of programs, and of what bounds them: all weights pass between two uses of the same
    ones, so that they are a cyclic stream (`share_beyond`) through the last cache. The streams of gpu-benches
    (github.com/te42kyfo/gpu-benches, gpu-l2-cache) reach the rate of main memory at 1.2 to 1.4 of the last cache of an
    A100, an H100 and a Radeon RX 6900 XT.

    `between`: bytes of all weights; 0 where an operation stands for itself.
    `capacity`: bytes of the last cache, all its instances together.
    """
    return share_beyond(Largest(1, between), Largest(1, capacity))


def weights_beyond_at(between: npt.ArrayLike, capacity: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """`weights_beyond` at numbers in bytes; arrays are broadcast against each other."""
    return shares_beyond(np.maximum(1.0, between), np.maximum(1.0, capacity))


def resident_share(footprint: sp.Expr, capacity: sp.Expr) -> sp.Expr:
    """Share of the traffic that a GPU's cache spares: towards `RESIDENT` below its capacity, falling fast above.

    Smooth, so that a fit finds its way, and less sharp than `share_beyond`: blocks run in no fixed order.
    """
    return sp.Rational(RESIDENT) * capacity**3 / (capacity**3 + footprint**3)
