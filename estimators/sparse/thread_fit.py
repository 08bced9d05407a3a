"""What threads cost a kernel beside their chunks, fitted to products measured on several threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.estimators.sparse.host_kernels import ThreadCosts
from slipstick.estimators.sparse.kernel_costs import (
    MEMORY_TERMS,
    TERMS,
    KernelCosts,
    fit_costs,
    spread_over_families,
    term_amounts,
)
from slipstick.estimators.sparse.reuse_model import CacheSizes

Floats = npt.NDArray[np.float64]
SHARED = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True, eq=False)
class Alone:
    """Products of one kernel on one thread: amounts of terms (matrices, terms), seconds, and families."""

    amounts: Floats
    seconds: Floats
    families: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ThreadedProducts:
    """Products of one kernel on several threads.

    `alone`: products on one thread, these and more: costs that leave a family out are fitted to them.
    `together`: amounts of terms of each matrix's chunks, a list of (chunks, terms).
    """

    costs: KernelCosts
    threads: int
    alone: Alone
    together: tuple[Floats, ...]
    several: Floats
    families: tuple[str, ...]

    @classmethod
    def of(
        cls,
        costs: KernelCosts,
        threads: int,
        alone: tuple[Sequence[Mapping[str, float]], Sequence[float], Sequence[str]],
        together: tuple[Sequence[Sequence[Mapping[str, float]]], Sequence[float], Sequence[str]],
        caches: CacheSizes,
    ) -> ThreadedProducts:
        """From counts (`row_chunks.counts_of`) of matrices or of their chunks, seconds and families of both."""

        def amounts(every: Sequence[Mapping[str, float]]) -> Floats:
            return np.array([term_amounts(one, caches, costs.state, costs.reach) for one in every])

        one = Alone(amounts(alone[0]), np.asarray(alone[1], dtype=np.float64), tuple(alone[2]))
        chunks = tuple(amounts(every) for every in together[0])
        return cls(costs, threads, one, chunks, np.asarray(together[1], dtype=np.float64), tuple(together[2]))

    def fit(self) -> ThreadCosts:
        """Start and sharing of least mean error of log time; the spread is that of families held out.

        Raises InputError where there are fewer than two families.
        """
        names = np.array(self.families)
        if len(set(self.families)) < 2:
            raise InputError(f"kernel {self.costs.kernel!r} on {self.threads} threads: want at least 2 families")
        logs = np.empty(len(names))
        for name in np.unique(names):
            out = names == name
            known = np.array(self.alone.families) != name
            cost = fit_costs(self.alone.amounts[known], self.alone.seconds[known])
            start, shared = self._best(cost, np.flatnonzero(~out))
            logs[out] = self._logs(cost, start, shared, np.flatnonzero(out))
        costs = np.array([self.costs.cost[term] for term in TERMS[self.costs.state]])
        start, shared = self._best(costs, np.arange(len(names)))
        return ThreadCosts(start, shared, min(spread_over_families(logs), 10.0), self.threads)

    def _busy(self, cost: Floats, shared: float, rows: npt.NDArray[np.int64]) -> Floats:
        """Seconds of the slowest chunk of some matrices."""
        memory = np.array([term in MEMORY_TERMS for term in TERMS[self.costs.state]])
        paid = cost * np.where(memory, 1 + shared * (self.threads - 1), 1.0)
        return np.array([float((self.together[row] @ paid).max()) for row in rows])

    def _logs(self, cost: Floats, start: float, shared: float, rows: npt.NDArray[np.int64]) -> Floats:
        predicted = start * (self.threads - 1) + self._busy(cost, shared, rows)
        return np.asarray(np.log(self.several[rows] / np.maximum(predicted, 1e-12)))

    def _best(self, cost: Floats, rows: npt.NDArray[np.int64]) -> tuple[float, float]:
        starts = np.append(0.0, np.geomspace(1e-7, 1e-3, 41))
        grid = [(start, float(shared)) for shared in SHARED for start in starts]
        busy = {float(shared): self._busy(cost, float(shared), rows) for shared in SHARED}
        errors = [
            float(np.mean(np.abs(np.log(self.several[rows] / (start * (self.threads - 1) + busy[shared])))))
            for start, shared in grid
        ]
        best = grid[int(np.argmin(errors))]
        return float(best[0]), best[1]
