"""Matrix products in tiles: waves over the cores, split reductions, and the library's choice among a small menu.

A library cuts the output into tiles, one a core at a time. Time therefore moves in steps (waves), may fall when a
dimension grows past the point where a larger tile or a split reduction pays, and no smooth roofline follows it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.symbolic.cache_residency import BLOCKS, PANELS, RESIDENT, is_there, missed
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest

TILES = ((128, 256), (256, 128), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (64, 16), (16, 64))
"""Rows and columns of an output tile: the sizes that cuBLAS, rocBLAS and CUTLASS kernels carry in their names."""

SPLITS = (1, 2, 4, 8, 16)
"""Into how many parts a reduction is split so that more cores find work."""

HABITS = ("tile_cycles", "step_cycles", "small_tile", "overlap")
"""Parameters of a class (`KernelParameters`) on which every kernel's time may depend."""
SHORTEST = 64
"""Terms that a part of a split reduction has at least."""


Sizes: TypeAlias = "tuple[sp.Expr, sp.Expr, sp.Expr]"
"""Bytes of a number of W, of X and of the result of a product W X."""
FULL_TILE = 128 * 128
DEPTH_BYTES = 64
"""Bytes of the reduction that stand in the nearest memory, for each row and column of a tile (two stages of 32)."""
REGISTER_PARTS = 8
"""How many times the side of the tile that registers alone hold fits into the tile's: what is left without L1."""


def menu(**columns: Iterable[tuple[float, ...]]) -> FrozenDict[tuple[float, ...]]:
    """Every combination of what stands under the names; a name with ``__`` names the parts of each entry.

    >>> menu(rows__columns=[(64, 32)], parts=[(1,), (2,)])
    Table({'choice.rows': (64.0, 64.0), 'choice.columns': (32.0, 32.0), 'choice.parts': (1.0, 2.0)})
    """
    rows = [sum(entries, ()) for entries in itertools.product(*columns.values())]
    names = [f"choice.{name}" for names in columns for name in names.split("__")]
    return FrozenDict({name: tuple(float(row[i]) for row in rows) for i, name in enumerate(names)})


@dataclass(frozen=True)
class Resources:
    """Rates of a machine as expressions.

    Parameters
    ----------
    flop_rate
        Of all cores together, as reached at best [flop/s].
    cores, clock
        Their number and frequency [Hz].
    near_capacity, near_rate
        Of one core's nearest memory [byte, byte/s].
    cache_capacity, cache_rate
        Of the last cache, all cores together [byte, byte/s].
    memory_rate
        Of main memory, as reached at best [byte/s].
    rotation
        Footprints touched between two uses of the same data; None where nothing is left of earlier uses.
    weights_between
        Bytes touched at least between two uses of the same weights.
    """

    flop_rate: sp.Expr
    cores: sp.Expr
    clock: sp.Expr
    near_capacity: sp.Expr
    near_rate: sp.Expr
    cache_capacity: sp.Expr
    cache_rate: sp.Expr
    memory_rate: sp.Expr
    rotation: sp.Expr | None
    weights_between: sp.Expr


def product(
    dims: tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr],
    size: Sizes,
    has: Resources,
    prefix: str,
    alignment: int,
    *,
    in_turn: bool = False,
) -> sp.Expr:
    """Seconds of `batch` products (m, k) x (k, n) without launch, in one choice of `MENU`.

    Parameters
    ----------
    dims
        batch, m, n, k.
    size
        Bytes of an element of W, of X and of the result.
    prefix
        Of the names of its class's parameters (`KernelParameters`).
    alignment
        Elements to which m and k must be multiples for full-width loads.
    in_turn
        Whether a step loads, is issued and multiplies one after the other; else the longest of these hides the others.
    """
    batch, m, n, k = dims
    tile_cycles, step_cycles, small_tile, overlap = (symbol(prefix + name) for name in HABITS)
    unaligned, split_overhead = symbol(f"{prefix}unaligned"), symbol(f"{prefix}split_overhead")
    rows, columns, parts = (symbol(name) for name in ("choice.rows", "choice.columns", "choice.parts"))
    inputs_a, inputs_b, outputs = batch * m * k * size[0], batch * k * n * size[1], batch * m * n * size[2]
    touched = inputs_a + inputs_b + outputs
    penalty = 1 + unaligned * Smallest(1, sp.Mod(m, alignment) + sp.Mod(k, alignment))
    effort = 1 + small_tile * Largest(0, FULL_TILE / (rows * columns) - 1)
    parts_of_step = (
        2 * rows * columns * has.cores / has.flop_rate * effort,
        _loads(rows, columns, size, has) * penalty,
        step_cycles / has.clock,
    )
    step = sp.Add(*parts_of_step) if in_turn else Largest(*parts_of_step)
    blocks = batch * sp.ceiling(m / rows) * sp.ceiling(n / columns) * parts
    work = sp.ceiling(blocks / has.cores) * (step * sp.ceiling(k / parts) + tile_cycles / has.clock)
    work += Smallest(1, parts - 1) * (split_overhead + 2 * parts * outputs / has.memory_rate)
    work += Largest(0, SHORTEST * Smallest(1, parts - 1) * parts / k - 1)  # seconds: no library splits so short a sum
    moved = panels_read(dims, size, has)
    traffic = traffic_time(moved, touched, has, inputs_a) * penalty
    return overlapped(work, traffic, overlap)


def panels_read(dims: tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr], size: Sizes, has: Resources) -> sp.Expr:
    """Bytes of `batch` products from main memory: operands, read again as far as no cache holds them, and results."""
    batch, m, n, k = dims
    rows, columns = symbol("choice.rows"), symbol("choice.columns")
    inputs_a, inputs_b, outputs = batch * m * k * size[0], batch * k * n * size[1], batch * m * n * size[2]
    blocks = batch * sp.ceiling(m / rows) * sp.ceiling(n / columns)
    # Blocks that run side by side read the same panels once from a cache that they share, else each for itself.
    shared = is_there(has.cache_capacity)
    side = sp.sqrt(Smallest(blocks, has.cores) * rows * columns)
    panel = k * (size[0] * Smallest(side, m) + size[1] * Smallest(side, n))
    lost = missed(panel, has.cache_capacity, PANELS)
    wide, high = (one + shared * (Largest(side, one) - one) for one in (columns, rows))
    again_a = 1 + (Largest(n / wide, 1) - 1) * lost
    again_b = 1 + (Largest(m / high, 1) - 1) * lost
    return inputs_a * again_a + inputs_b * again_b + outputs


def staged_side(rows: sp.Expr, columns: sp.Expr, has: Resources) -> sp.Expr:
    """The side of the tile that the nearest memory can stage, as a share of the tile's; registers hold the rest."""
    held = (rows + columns) * DEPTH_BYTES
    return Largest(sp.Rational(1, REGISTER_PARTS), Smallest(1, sp.sqrt(has.near_capacity / held)))


def _loads(rows: sp.Expr, columns: sp.Expr, size: Sizes, has: Resources) -> sp.Expr:
    """Seconds in which one core loads one step of the reduction for its tile."""
    side = staged_side(rows, columns, has)
    loaded = rows * size[0] + columns * size[1]
    near = loaded / has.near_rate
    beyond = loaded * (1 / side - 1) * has.cores / has.cache_rate
    return near + beyond


def traffic_time(moved: sp.Expr, touched: sp.Expr, has: Resources, weights: sp.Expr | None = None) -> sp.Expr:
    """Seconds of `moved` bytes, of which the last cache serves `touched` ones as far as it still holds them.

    `weights`: bytes of the touched ones that come back only after all weights of a program.
    """
    if has.rotation is None:
        return moved / has.memory_rate
    spared = sp.Rational(RESIDENT) * (1 - missed(touched * has.rotation, has.cache_capacity, BLOCKS))
    if weights is not None:
        kept = Smallest(spared, 1 - missed(has.weights_between, has.cache_capacity))
        spared -= (spared - kept) * weights / touched
    return moved * (1 - spared) / has.memory_rate + touched * spared / has.cache_rate


def overlapped(one: sp.Expr, other: sp.Expr, share: sp.Expr) -> sp.Expr:
    """Two activities that hide behind each other but for a `share` of the shorter: 0 hides all, 1 adds them."""
    return Largest(one, other) + share * Smallest(one, other)
