"""What caches hold of the data that an operation touches: the rules of every model with levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.runtime import CacheState

RESIDENT = Fraction(9, 10)
"""Largest share of the traffic that a GPU's cache spares when all fits and is still there."""
CYCLIC, BLOCKS, PANELS = 6, 3, 2
"""Sharpness of `missed`: of streams in one order, of blocks that run in no fixed order, of panels that many cores walk
at paces of their own. The last two were chosen with the laws of GPUs that have them; of blocks, kernels of an MI300A
that no fit has seen are as well met by 2 and by 4 (each left out in turn: within .01 of their error in log time)."""
REGISTER_SIDE = 8
"""Side of the block of a product that registers alone hold."""
NOTHING = 1e-30
"""Added where nothing is touched and nothing held, which misses nothing."""
Bytes = TypeVar("Bytes", float, FloatArray, "sp.Expr")


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
    passed = _passed(capacities, costs)
    first = 0 if kept is None else len(capacities) - kept
    total, held = passed[first], sp.Integer(1)
    for capacity, nearer, farther in zip(capacities[first:], passed[first:], passed[first + 1 :], strict=False):
        held = Largest(held, capacity)
        total += missed(volume, held) * (farther - nearer)
    return total


def blocked_cost(
    multiplied: sp.Expr, once: sp.Expr, size: float, capacities: Sequence[sp.Expr], costs: Sequence[sp.Expr]
) -> sp.Expr:
    """The cost of what a blocked matrix product reads more than once, beyond what `cost_by_level` says of one reading.

    A cache holds square blocks of both operands and of the result; each pass of a block reads two others (Hong and
    Kung, "I/O complexity: the red-blue pebble game", STOC 1981, whose bound this is but for a factor of 2 to 4).

    `multiplied`: multiply-adds of the product.
    `once`: bytes of both operands.
    `size`: bytes of a number.
    `capacities`, `costs`: as in `cost_by_level`, the capacities of one instance of each cache.
    """
    passed, total, near = _passed(capacities, costs), sp.Integer(0), sp.Integer(0)
    for capacity, farther in zip(capacities, passed[1:], strict=False):
        side = Largest(REGISTER_SIDE, sp.sqrt(capacity / (3 * size)))
        again = Largest(0, 2 * multiplied * size / side - once)
        total += again * (farther - near)  # the nearest path is passed by all that is read again
        near = farther
    return total


def _passed(capacities: Sequence[sp.Expr], costs: Sequence[sp.Expr]) -> list[sp.Expr]:
    """The cost of a byte from each level: a byte passes all nearer levels that are there."""
    there = [is_there(level_bytes) * cost for level_bytes, cost in zip(capacities, costs, strict=False)] + [costs[-1]]
    return [Largest(*there[: level + 1]) for level in range(len(there))]


def is_there(capacity: sp.Expr) -> sp.Expr:
    """1, or 0 for a cache of no capacity."""
    return Smallest(1, capacity)


def sizes_read(expression: sp.Expr) -> sp.Expr:
    """The expression with every cache there: what is named then has a say by its size, not by being there alone."""
    from slipstick.estimators.symbolic.lambdified import extremum_classes

    minima = [node for node in expression.atoms(extremum_classes.Smallest) if len(node.args) == 2 and node.args[0] == 1]
    present = [node for node in minima if all(factor.is_Symbol for factor in sp.Mul.make_args(node.args[1]))]
    return expression.xreplace(dict.fromkeys(present, sp.Integer(1)))


def missed(distance: Bytes, capacity: Bytes, sharpness: float = CYCLIC) -> Bytes:
    """Share of the accesses at a reuse distance that a cache misses: 0 far below its capacity, 1/2 at it, 1 far above.

    distance^n / (distance^n + capacity^n): the one law of every model with caches, on numbers, arrays and expressions.
    An infinite sharpness (numbers alone) is least recently used over a cyclic stream, as layer conditions take it.
    Streams of gpu-benches (github.com/te42kyfo/gpu-benches, gpu-l2-cache and gpu-cache, seven GPUs) follow `CYCLIC`
    within 5 to 17 % of their rates, at each knee's own size, but for one cache of a Radeon RX 6900 XT.

    `distance`, `capacity`: bytes touched between two uses of the same byte, and held.
    `sharpness`: n, one of `CYCLIC`, `BLOCKS` and `PANELS`.

    >>> [round(missed(distance, 1.0), 3) for distance in (0.0, 0.5, 1.0, 2.0)]
    [0.0, 0.015, 0.5, 0.985]
    """
    if sharpness == math.inf:
        return (distance > capacity) * 1.0  # type: ignore[return-value, no-any-return, unused-ignore]
    beyond = distance**sharpness
    return beyond / (beyond + capacity**sharpness + NOTHING)  # type: ignore[return-value, no-any-return, unused-ignore]
