"""Iterations that stand for a run: which ones, with what weights, and what follows from their measured values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError
from slipstick.common.records import ByContent, content_digest
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile


@dataclass(frozen=True)
class Projection:
    """A statistic of the whole run, from its representatives.

    `total`: sum over all iterations (eq. 1 of the SeqPoint paper).
    `mean`: the same over the sum of weights: for statistics that are ratios (throughput, IPC).
    `standard_error`: of the total; None where nothing is known about it.
    `degrees_of_freedom`: of the standard error; None for many.
    """

    total: float
    mean: float
    standard_error: float | None
    degrees_of_freedom: float | None = None

    def interval(self, level: float = DEFAULT_LEVEL) -> tuple[float, float] | None:
        """Between which values the total lies with probability `level`; None where the error is unknown."""
        if self.standard_error is None:
            return None
        half = quantile(level, self.degrees_of_freedom) * self.standard_error
        return self.total - half, self.total + half


@dataclass(frozen=True, eq=False)
class RepresentativeSet(ByContent):
    """Representative iterations of a run.

    Parameters
    ----------
    method
        Who chose them.
    indices, weights
        Shape (representatives,): iterations of the run, and how many iterations each stands for.
    groups
        Shape (representatives,): the bin, cluster or stratum that each comes from.
    sizes
        Shape (groups,): iterations in each group.
    lengths, times
        Shape (representatives,): sequence lengths (or proxies), and seconds in the run they were chosen on.
    whole
        Seconds of that whole run.
    drawn
        random: each group's representatives were drawn at random, so their own scatter gives the error; chosen: they
        were picked, so `noise` has to; single: one iteration stands for all: the error is unknown.
    noise
        Shape (groups,): relative standard deviation of one iteration around what its length predicts, in the run they
        were chosen on.
    predictors
        Shape (representatives, predictors): what the weights reproduce the run's totals of.
    """

    method: str
    indices: IntArray
    weights: FloatArray
    groups: IntArray
    sizes: IntArray
    lengths: FloatArray
    times: FloatArray
    whole: float
    drawn: Literal["random", "chosen", "single"] = "chosen"
    noise: FloatArray | None = None
    predictors: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("indices", "weights", "groups", "sizes", "lengths", "times", "noise", "predictors"):
            value = getattr(self, name)
            if value is not None:
                value.setflags(write=False)
        per_representative = (self.indices, self.weights, self.groups, self.lengths, self.times)
        if len({len(column) for column in per_representative}) > 1:
            raise InputError(f"selection {self.method!r}: columns differ in length")

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def identity(self) -> str:
        """Digest of the content."""
        return content_digest([self.method, self.indices, self.weights, self.groups, self.sizes, self.times])

    @property
    def error(self) -> float:
        """Relative error of the projection on the run that the representatives were chosen on."""
        return float(self.weights @ self.times) / self.whole - 1

    @property
    def saving_serial(self) -> float:
        """Time of the whole run over that of all representatives, one after the other."""
        return self.whole / float(self.times.sum())

    @property
    def saving_parallel(self) -> float:
        """Time of the whole run over that of the slowest representative: each on a machine of its own."""
        return self.whole / float(self.times.max())

    def project(self, values: npt.ArrayLike) -> Projection:
        """The whole run's statistic from the representatives' values on any machine.

        Parameters
        ----------
        values
            Shape (representatives,), or (representatives, repeats) where each was measured several times.

        Raises
        ------
        InputError
            Where a value is missing or not finite.
        """
        repeated = np.asarray(values, dtype=np.float64)
        if repeated.ndim == 1:
            repeated = repeated[:, np.newaxis]
        if repeated.ndim != 2 or len(repeated) != len(self) or not repeated.shape[1]:
            raise InputError(
                f"values: want one for each of the {len(self)} representatives, got shape {repeated.shape}"
            )
        if not np.isfinite(repeated).all():
            raise InputError("values of the representatives: want finite numbers")
        one = repeated.mean(axis=1)
        total = float(self.weights @ one)
        error, freedom = self._standard_error(repeated)
        return Projection(total, total / float(self.weights.sum()), error, freedom)

    def _standard_error(self, repeated: FloatArray) -> tuple[float | None, float | None]:
        if self.drawn == "single":
            return None, None
        if self.drawn == "random":
            scatter = self._scatter(repeated.mean(axis=1))
            if scatter is not None:
                return scatter
        if self.noise is None:
            return None, None
        count = np.bincount(self.groups, minlength=len(self.sizes))[self.groups]
        one = np.abs(repeated.mean(axis=1))
        relative, repeats, freedom = self.noise[self.groups], repeated.shape[1], None
        if repeats > 1:
            # the machine at hand may be noisier than the one the representatives were chosen on
            again = repeated.std(axis=1, ddof=1) / np.maximum(one, 1e-300)
            relative = np.maximum(relative, math.sqrt(float(np.mean(again**2))))
            freedom = float(len(self) * (repeats - 1))
        variance = (one * relative) ** 2
        # measured once, a representative that is its whole group is the run itself; measured again, it is not
        left = np.clip(1 - count / self.sizes[self.groups], 0, 1) if repeats == 1 else 1.0
        of_run = self.weights * variance if repeats > 1 else 0.0
        return math.sqrt(float(np.sum(self.weights**2 * variance / repeats * left + of_run))), freedom

    def _scatter(self, values: FloatArray) -> tuple[float, float] | None:
        """Standard error from the representatives' own residuals: Saerndal, Swensson, Wretman 1992, eq. 6.6.4.

        Residuals are those around the regression that the weights are calibrated on, else around each stratum's mean
        (strata of one are pooled in pairs). They are taken relative to the fitted value: noise grows with the time.
        """
        if self.predictors is not None:
            design = self.predictors
        else:
            groups = _pooled(self.groups)
            design = np.equal.outer(groups, np.unique(groups)).astype(np.float64)
        scale = np.maximum(np.abs(values), 1e-300)
        for _ in range(2):
            fitted, _, rank, _ = np.linalg.lstsq(design / scale[:, np.newaxis], values / scale, rcond=1e-9)
            line = design @ fitted
            scale = np.where(line > 0, line, scale)
        freedom = len(values) - int(rank)
        if freedom < 3:
            return None
        residuals = (values - line) / scale
        variance = float(residuals @ residuals) / freedom
        left = 1 - np.bincount(self.groups, minlength=len(self.sizes))[self.groups] / self.sizes[self.groups]
        return math.sqrt(variance * float(np.sum((self.weights * scale) ** 2 * np.clip(left, 0, 1)))), float(freedom)


def _pooled(groups: IntArray) -> IntArray:
    """Group numbers with every group of one joined to its neighbour."""
    present, counts = np.unique(groups, return_counts=True)
    names: list[int] = []
    lonely = False
    for count in counts:
        if names and (lonely or count == 1):
            names.append(names[-1])
            lonely = False
        else:
            names.append(len(names))
            lonely = count == 1
    return np.array(names, dtype=np.int64)[np.searchsorted(present, groups)]
