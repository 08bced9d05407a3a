"""Matrices that kernels are calibrated on, and others by other generators that the calibration is judged on."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from slipstick.common.readers import unknown_name

Recipe = Mapping[str, Any]


def calibration_recipes() -> dict[str, Recipe]:
    """Stencils, bands, random and popular positions, dense blocks: a thousand to four million non-zeros."""
    result: dict[str, Recipe] = {}
    for side, points in ((16, 5), (60, 9), (150, 5), (260, 9), (450, 5), (700, 5)):
        result[f"stencil{points}-{side}"] = {"generator": "stencil", "shape": [side, side], "points": points}
    for side, points in ((8, 27), (24, 7), (36, 27), (75, 7), (50, 27)):
        result[f"stencil{points}-{side}"] = {"generator": "stencil", "shape": [side] * 3, "points": points}
    bands = (
        (300, 10, 6, "constant"),
        (4_000, 60, 20, "geometric"),
        (30_000, 2_000, 5, "poisson"),
        (20_000, 300, 60, "lognormal"),
        (200_000, 30_000, 8, "lognormal"),
        (60_000, 200, 40, "constant"),
        (500_000, 5_000, 4, "poisson"),
        (25_000, 2, 60, "constant"),
        (400_000, 2, 60, "constant"),
        (90_000, 4, 90, "constant"),
    )
    for seed, (size, width, mean, lengths) in enumerate(bands):
        arguments = {"size": size, "half_width": width, "mean": mean, "row_lengths": lengths, "seed": seed}
        result[f"banded-{size}"] = {"generator": "banded", **arguments}
    spread = (
        (500, 500, 9, "poisson"),
        (5_000, 5_000, 16, "constant"),
        (20_000, 100_000, 10, "geometric"),
        (100_000, 100_000, 4, "lognormal"),
        (40_000, 40_000, 50, "poisson"),
        (250_000, 250_000, 8, "poisson"),
        (60_000, 1_500_000, 30, "geometric"),
        (600_000, 600_000, 3, "constant"),
        (1_000, 200_000, 4, "constant"),
        (24_000, 900_000, 5, "constant"),
    )
    for seed, (rows, columns, mean, lengths) in enumerate(spread):
        arguments = {"shape": [rows, columns], "mean": mean, "row_lengths": lengths, "seed": seed}
        result[f"uniform-{rows}"] = {"generator": "uniform", **arguments}
    popular = (
        (1_000, 8, 1.0, "shuffled", "lognormal"),
        (10_000, 12, 0.8, "popular first", "geometric"),
        (50_000, 6, 1.2, "shuffled", "lognormal"),
        (150_000, 10, 0.9, "shuffled", "lognormal"),
        (120_000, 25, 1.1, "popular first", "lognormal"),
        (500_000, 5, 0.7, "shuffled", "lognormal"),
        (30_000, 4, 0.5, "shuffled", "constant"),
        (300_000, 9, 0.6, "shuffled", "constant"),
    )
    for seed, (size, mean, exponent, order, lengths) in enumerate(popular):
        arguments = {"shape": [size, size], "mean": mean, "exponent": exponent, "order": order, "seed": seed}
        result[f"power_law-{size}"] = {"generator": "power_law", "row_lengths": lengths, **arguments}
    for seed, (size, low, high) in enumerate(
        (
            (200, 2, 12),
            (3_000, 3, 30),
            (9_000, 20, 90),
            (40_000, 5, 60),
            (15_000, 100, 350),
            (24_000, 4, 4),
            (300_000, 6, 6),
            (900_000, 3, 3),
            (120_000, 8, 8),
        )
    ):
        arguments = {"size": size, "smallest": low, "largest": high, "seed": seed}
        result[f"block_diagonal-{size}"] = {"generator": "block_diagonal", **arguments}
    return result


def judged_recipes() -> dict[str, Recipe]:
    """Thirty matrices by generators that calibration does not use: graphs, meshes, stacks, renumbered grids."""
    result: dict[str, Recipe] = {}
    for seed, (scale, edges) in enumerate(
        ((9, 4_000), (12, 30_000), (14, 240_000), (16, 500_000), (17, 1_500_000), (18, 3_000_000), (19, 2_000_000))
    ):
        result[f"rmat-{scale}"] = {"generator": "rmat", "scale": scale, "edges": edges, "seed": 50 + seed}
    meshes = (
        (300, 1, 2, "rcm"),
        (2_000, 3, 2, "none"),
        (6_000, 1, 3, "rcm"),
        (12_000, 3, 2, "rcm"),
        (60_000, 1, 2, "none"),
        (20_000, 3, 3, "sorted"),
        (150_000, 2, 2, "rcm"),
        (300_000, 1, 3, "none"),
    )
    for seed, (nodes, unknowns, dimensions, order) in enumerate(meshes):
        arguments = {"nodes": nodes, "unknowns": unknowns, "dimensions": dimensions, "order": order}
        result[f"elements-{nodes}"] = {"generator": "finite_elements", "seed": 50 + seed, **arguments}
    stacks = (
        (300, 6, 20, "constant"),
        (3_000, 12, 100, "poisson"),
        (15_000, 5, 500, "geometric"),
        (50_000, 20, 2_000, "poisson"),
        (120_000, 8, 100, "lognormal"),
        (200_000, 6, 20_000, "geometric"),
        (30_000, 60, 50, "constant"),
    )
    for seed, (size, mean, width, lengths) in enumerate(stacks):
        arguments = {"size": size, "mean": mean, "half_width": width, "row_lengths": lengths, "seed": 50 + seed}
        result[f"stacked-{size}"] = {"generator": "stacked", **arguments}
    renumbered = (
        ([20, 20], 5, None),
        ([100, 100], 9, 200),
        ([30, 30, 30], 7, None),
        ([400, 400], 5, 5_000),
        ([300, 300], 9, None),
        ([80, 80, 80], 7, 30_000),
        ([48, 48, 48], 27, None),
        ([900, 900], 5, None),
    )
    for seed, (shape, points, window) in enumerate(renumbered):
        name = f"renumbered{points}-{shape[0]}"
        result[name] = {"generator": "stencil", "shape": shape, "points": points, "permute_seed": 50 + seed}
        if window is not None:
            result[name] = {**result[name], "permute_window": window}
    return result


def family(recipe: Recipe) -> str:
    """Which generator made a matrix: what is held out together."""
    return "renumbered" if "permute_seed" in recipe else str(recipe["generator"])


def expected_nonzeros(recipe: Recipe) -> float:
    """About how many non-zeros a calibration matrix has, before it is generated.

    Raises InputError for generators that calibration does not use.
    """
    kind = recipe["generator"]
    if kind == "stencil":
        return float(prod(recipe["shape"]) * recipe["points"])
    if kind == "banded":
        return float(recipe["size"] * min(recipe["mean"], 2 * recipe["half_width"] + 1))
    if kind in ("uniform", "power_law"):
        return float(recipe["shape"][0] * recipe["mean"])
    if kind == "block_diagonal":
        return float(recipe["size"] * (recipe["smallest"] + recipe["largest"]) / 2)
    raise unknown_name("generator of calibration", str(kind), ("stencil", "banded", "uniform", "power_law"))
