"""Scores of bands in log time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray

LEVEL = 0.80
BOOTSTRAPS, SEED = 1000, 7


class Banded(Protocol):
    """A prediction with its band beside what was measured, in seconds."""

    @property
    def truth(self) -> float: ...
    @property
    def ours(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def interval_score(some: Sequence[Banded]) -> float:
    """Mean width of the band in log time, plus 2 / (1 - level) times what lies outside (Gneiting and Raftery 2007)."""
    low, high = (np.log([getattr(one, end) for one in some]) for end in ("low", "high"))
    truth = np.log([one.truth for one in some])
    outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return float(np.mean(high - low + 2 / (1 - LEVEL) * outside))


def constant_score(some: Sequence[Banded]) -> float:
    """The same score, in log time, of the best band of one width, chosen with hindsight."""
    off = np.abs(np.log([one.ours / one.truth for one in some]))
    half = float(np.quantile(off, LEVEL))
    return float(np.mean(2 * half + 2 / (1 - LEVEL) * np.maximum(off - half, 0)))


def coverage_over_sources(sources: Sequence[str], inside: FloatArray) -> tuple[float, float]:
    """The 90 % interval of the coverage (a share) where whole sources are drawn again; `inside` has shape (n,)."""
    names = sorted(set(sources))
    hits = np.array([inside[[s == name for s in sources]].sum() for name in names], dtype=float)
    sizes = np.array([sum(s == name for s in sources) for name in names], dtype=float)
    drawn = np.random.default_rng(SEED).integers(0, len(names), (BOOTSTRAPS, len(names)))
    coverage = hits[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return float(np.quantile(coverage, 0.05)), float(np.quantile(coverage, 0.95))
