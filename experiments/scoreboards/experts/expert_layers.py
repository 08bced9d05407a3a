"""Layers of experts (mixture of experts) and latent attention (MLA) on GPUs, by arithmetic, traffic and a launch.

A layer of experts reads the weights of those experts that a token chose and multiplies blocks of rows by them. Which
rows one device gets depends on how experts are spread (`routed`): that counts more than the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.symbolic.cache_residency import PANELS, missed
from slipstick.estimators.symbolic.formula import CheckedParameters, Parameter
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.machine import Machine

Routing = Literal["balanced", "busiest", "skewed"]
LATENT, ROTARY, VALUE, KEY = 512, 64, 128, 192
"""Sizes of DeepSeek-V3's latent attention (arXiv 2412.19437, table of hyper-parameters): latent and rotary part of what
is cached, value and key of a head."""
HALF_SHARED = 128.0
"""Ranks at which the busiest one of a power law of exponent 1.01 gets half of all rows; read off public timings."""


@dataclass(frozen=True)
class LayerParameters(CheckedParameters):
    """What kernels of such layers reach, shared by machines.

    `resident`: share of the last cache in which weights stay between calls.
    `block`: rows to which those of an expert are filled up.
    """

    launch: Annotated[float, Parameter("s", "of the layer's kernels", 1e-7, 1e-2)] = 30e-6
    compute_efficiency: Annotated[float, Parameter("1", "share of the peak rate", 1e-3, 2.0)] = 0.6
    memory_efficiency: Annotated[float, Parameter("1", "share of the bandwidth", 1e-3, 2.0)] = 0.75
    block: Annotated[float, Parameter("1", "rows of an expert are filled up to", 1.0, 512.0)] = 16.0
    overlap: Annotated[float, Parameter("1", "share of the shorter side that is not hidden", 1e-3, 2.0)] = 0.5
    resident: Annotated[float, Parameter("1", "share of the last cache that keeps weights", 1e-3, 10.0)] = 1.0


@dataclass(frozen=True, eq=False)
class ExpertLayers:
    """Many layers of experts as columns of one length; each is one device's part.

    `tokens`: as a serving stack's profiler counts them: of one rank.
    `hidden`, `inner`: width of the model, and of an expert on one device (divided by tensor parallelism).
    `chosen`, `experts`, `ranks`: experts a token goes to, of all experts, which are spread over so many ranks.
    `weight_bytes`: of one weight.
    """

    tokens: FloatArray
    hidden: FloatArray
    inner: FloatArray
    chosen: FloatArray
    experts: FloatArray
    ranks: FloatArray
    weight_bytes: FloatArray
    routing: Sequence[Routing]


def routed(layers: ExpertLayers) -> tuple[FloatArray, FloatArray]:
    """Rows that one device multiplies, and experts that have any.

    Every rank brings its own tokens. Balanced, a token goes to at most as many ranks as it chose experts, and each of
    those gets a copy: rows = tokens x chosen / ranks x min(ranks, chosen). Busiest: the most loaded rank of a steep
    power law gets all rows; skewed: that of a flatter one, half of them at 128 ranks.
    """
    rows = layers.tokens * layers.chosen / layers.ranks
    kinds = np.asarray(layers.routing)
    copies = np.where(
        kinds == "balanced",
        np.minimum(layers.ranks, layers.chosen),
        np.where(kinds == "busiest", layers.ranks, layers.ranks / (1 + layers.ranks / HALF_SHARED)),
    )
    rows = rows * copies
    here = layers.experts / layers.ranks
    spread = here * -np.expm1(-rows / here)  # of independent choices
    active = np.where(kinds == "balanced", np.minimum(here, rows), spread)
    return rows, np.maximum(active, np.minimum(rows, 1.0))


def expert_times(layers: ExpertLayers, machine: Machine, dtype: str, has: LayerParameters) -> FloatArray:
    """Seconds of each layer: two products up and one down, by those experts that have rows."""
    rows, active = routed(layers)
    weights = active * 3 * layers.hidden * layers.inner * layers.weight_bytes
    padded = active * np.maximum(rows / np.maximum(active, 1e-9), has.block)
    flop = 6 * padded * layers.hidden * layers.inner
    moved = rows * (2 * layers.hidden + 3 * layers.inner) * 2 + 4 * layers.tokens * layers.hidden
    return _times(flop, moved, weights, machine, dtype, has)


@dataclass(frozen=True, eq=False)
class LatentAttentions:
    """Many calls of latent attention as columns of one length; `cached_bytes` of one number of the cache."""

    batch: FloatArray
    heads: FloatArray
    keys: FloatArray
    cached_bytes: FloatArray


def latent_prefill_times(calls: LatentAttentions, machine: Machine, has: LayerParameters) -> FloatArray:
    """Seconds of causal attention over whole prompts, keys and values unfolded for each head."""
    flop = calls.batch * calls.heads * calls.keys**2 * (KEY + VALUE)
    blocks = calls.batch * calls.heads * np.ceil(calls.keys / has.block)
    waves = np.ceil(blocks / machine.cores) * machine.cores / blocks
    moved = calls.batch * calls.keys * calls.heads * 2 * (KEY + VALUE) * 2
    return _times(flop * waves, moved, np.zeros_like(flop), machine, "bfloat16", has)


def latent_decode_times(calls: LatentAttentions, machine: Machine, has: LayerParameters) -> FloatArray:
    """Seconds of one new token a sequence: all heads read the latent cache once, in tiles of `block` heads."""
    tiled = np.ceil(calls.heads / has.block) * has.block
    flop = 2 * calls.batch * tiled * calls.keys * (2 * LATENT + ROTARY)
    moved = calls.batch * (
        calls.keys * (LATENT + ROTARY) * calls.cached_bytes + calls.heads * (2 * LATENT + ROTARY) * 2
    )
    return _times(flop, moved, np.zeros_like(flop), machine, "bfloat16", has)


def _times(
    flop: FloatArray, moved: FloatArray, weights: FloatArray, machine: Machine, dtype: str, has: LayerParameters
) -> FloatArray:
    if "matrix" not in machine.engines:
        raise InputError(f"machine {machine.name!r} has no matrix engine: layers of experts are known on GPUs alone")
    bandwidth = machine.bandwidth(machine.main_memory) * has.memory_efficiency
    levels = list(machine.memory)
    near: float | FloatArray = bandwidth
    kept: float | FloatArray = 0.0
    if len(levels) > 1:
        near = np.maximum(bandwidth, machine.bandwidth(levels[-2]))
        kept = has.resident * machine.memory[levels[-2]].capacity
    lost = missed(weights, np.asarray(kept), PANELS)
    arithmetic = flop / (machine.peak("matrix", dtype) * has.compute_efficiency)
    traffic = (moved + weights * lost) / bandwidth + weights * (1 - lost) / near
    shorter = np.minimum(arithmetic, traffic)
    return np.asarray(has.launch + np.maximum(arithmetic, traffic) + has.overlap * shorter)
