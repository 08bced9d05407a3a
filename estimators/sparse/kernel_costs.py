"""Whole products by kernel: costs a count, fitted to products measured on a host, with a band of matrices held out.

Terms are those of `spmv.reuse`, counted over a whole matrix: what rows cost, which level the lines of the dense vector
come from, and what streams past. A kernel's costs are its own: scipy's loop, ours and MKL's differ by more than
matrices of one kernel do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.nonnegative_terms import ROUNDS, nearest_terms
from slipstick.estimators.sparse.reuse_model import CacheSizes
from slipstick.estimators.symbolic.cache_residency import shares_beyond
from slipstick.workloads.kernels.blocks import VOLUME_EDGES

Floats = npt.NDArray[np.float64]
State = Literal["warm", "cold"]
STATES: tuple[State, ...] = ("warm", "cold")
LINE = 64
LEARNT_ROWS = 5000.0
"""Irregular rows that branch prediction learns by heart when the same product runs again and again: of n of them
n^2 / (n + this) are mispredicted. Chosen on the calibration matrices:
`slipstick validate --refit sparse` scores other values."""
REACHES = (4.0, 8.0, 16.0)
"""Multiples of the second level's capacity beyond which a product slows down again, well before the nominal last level
is full (translation buffers, a shared last level); each kernel's is the one of least error on matrices held out."""
ROW_TERMS = ("call", "nonzero", "row", "irregular_row", "row_17_to_32", "row_33_to_64", "row_65_and_more")
TERMS: Mapping[State, tuple[str, ...]] = {
    "warm": (
        *ROW_TERMS,
        "gather_beyond_L2",
        "gather_beyond_reach",
        "gather_beyond_L3",
        "stream_beyond_L2",
        "stream_beyond_reach",
        "stream_beyond_L3",
        "translation",
    ),
    "cold": (*ROW_TERMS, "gather_beyond_L2", "gather_beyond_reach", "stream_line", "vector_line", "translation"),
}
MEMORY_TERMS = frozenset(
    {
        "gather_beyond_reach",
        "gather_beyond_L3",
        "stream_beyond_L2",
        "stream_beyond_reach",
        "stream_beyond_L3",
        "stream_line",
        "vector_line",
        "translation",
    }
)
"""Terms beyond a core's own caches: they do not follow its clock, and threads share what they wait for."""


def check_state(name: str) -> State:
    """A state of the caches by name.

    Raises
    ------
    InputError
        Where there is no such state.
    """
    for state in STATES:
        if name == state:
            return state
    raise unknown_name("state of the caches", name, STATES)


def term_amounts(
    counts: Mapping[str, float],
    caches: CacheSizes,
    state: State,
    reach: float,
    learnt_rows: float = LEARNT_ROWS,
) -> Floats:
    """How often each of `TERMS[state]` occurs in a product with these counts (`row_chunks.counts_of`).

    Parameters
    ----------
    reach
        One of `REACHES`.
    learnt_rows
        Irregular rows whose branches are learnt by heart where a product is repeated.
    """
    far = np.array([counts[f"far_{k}"] for k in range(len(VOLUME_EDGES) + 1)])
    upper = np.array([*VOLUME_EDGES, VOLUME_EDGES[-1] * 4])
    middle = min(reach * caches.L2, caches.L3)
    nonzeros, irregular = counts["nonzeros"], counts["irregular"]
    own_bytes = 12 * nonzeros + 16 * counts["rows"]
    footprint = np.array([own_bytes + 8 * counts["columns"]])
    amounts = {
        "call": 1.0,
        "nonzero": nonzeros,
        "row": counts["rows"],
        "irregular_row": irregular * (irregular / (irregular + learnt_rows) if state == "warm" else 1.0),
        "stream_line": own_bytes / LINE,
        "vector_line": counts["vector_lines"],
        "translation": counts["translations"],
    }
    for level, capacity in (("L2", caches.L2), ("reach", middle), ("L3", caches.L3)):
        shares = np.clip(np.log(upper / capacity) / np.log(4.0), 0.0, 1.0)
        amounts[f"gather_beyond_{level}"] = float(far @ shares)
        amounts[f"stream_beyond_{level}"] = nonzeros * float(shares_beyond(footprint, capacity)[0])
    amounts |= {name: counts[name] for name in ("row_17_to_32", "row_33_to_64", "row_65_and_more")}
    return np.array([amounts[name] for name in TERMS[state]])


@dataclass(frozen=True)
class KernelCosts:
    """What one kernel costs on one thread of a host, in one state of the caches.

    Parameters
    ----------
    cost
        Seconds an occurrence, by `TERMS[state]`.
    spread
        Of log(measured / predicted) over matrices whose generator was left out (`spread_over_families`).
    freedom
        Degrees of freedom of the spread: families of matrices less one; None for many.
    reach
        Where the middle level ends, in multiples of the second level's capacity.
    software
        What ran it, with its version.
    """

    kernel: str
    state: State
    cost: FrozenDict[float]
    spread: float
    freedom: float | None = None
    reach: float = REACHES[1]
    software: str = ""

    def __post_init__(self) -> None:
        if self.state not in STATES or set(self.cost) != set(TERMS[self.state]):
            raise InputError(f"costs of {self.kernel!r}, {self.state}: want a cost of every term of a state")
        if not all(0 <= value < 1 for value in self.cost.values()) or not any(self.cost.values()):
            raise InputError(f"costs of {self.kernel!r}: want seconds from 0 to 1, one of them above 0")
        if not (0 <= self.spread <= 10 and 1 <= self.reach <= 1e6):
            raise InputError(f"{self.kernel!r}: want a spread in [0, 10] and a reach from 1 to 1e6")

    def parts(self, counts: Mapping[str, float], caches: CacheSizes, clock_ratio: float = 1.0) -> dict[str, float]:
        """Seconds by term; terms inside the core are divided by the ratio of clocks."""
        amounts = term_amounts(counts, caches, self.state, self.reach)
        pace = {name: 1.0 if name in MEMORY_TERMS else 1 / clock_ratio for name in TERMS[self.state]}
        return {
            name: float(self.cost[name] * amount * pace[name])
            for name, amount in zip(TERMS[self.state], amounts, strict=True)
        }

    def seconds(self, counts: Mapping[str, float], caches: CacheSizes, clock_ratio: float = 1.0) -> float:
        """Of one product."""
        return sum(self.parts(counts, caches, clock_ratio).values())


def fit_costs(amounts: Floats, seconds: npt.ArrayLike) -> Floats:
    """Costs >= 0 [s] of least mean relative error, by least squares weighed again and again.

    Parameters
    ----------
    amounts
        Shape (products, terms).
    seconds
        Of each product.

    Raises
    ------
    InputError
        Where there are fewer products than two, or a time is not above 0.
    """
    measured = np.asarray(seconds, dtype=np.float64)
    if len(measured) < 2 or amounts.shape[0] != len(measured) or not np.all(measured > 0):
        raise InputError(f"{len(measured)} products to fit costs to: want at least 2, all > 0 s")
    return nearest_terms(amounts, measured, ROUNDS)


def held_out_logs(amounts: Floats, seconds: npt.ArrayLike, families: Sequence[str]) -> Floats:
    """log(measured / predicted) of every product by costs fitted to the other families."""
    measured, names = np.asarray(seconds, dtype=np.float64), np.asarray(families)
    logs = np.empty(len(measured))
    for name in np.unique(names):
        out = names == name
        costs = fit_costs(amounts[~out], measured[~out])
        logs[out] = np.log(measured[out] / np.maximum(amounts[out] @ costs, 1e-12))
    return logs


def spread_of_logs(logs: npt.ArrayLike, level: float = DEFAULT_LEVEL) -> float:
    """The spread whose central band of `level` holds that share of errors, counted as of one more (conformal)."""
    ordered = np.sort(np.abs(np.asarray(logs, dtype=np.float64)))
    rank = min(len(ordered), int(np.ceil((len(ordered) + 1) * level)))
    return float(ordered[rank - 1] / quantile(level, None))


def spread_over_families(logs: npt.ArrayLike) -> float:
    """The wider of the standard deviation about no error and of `spread_of_logs`.

    A few families scatter much more than the others; a quantile over all matrices does not see how far those reach, and
    the next family may be like them.
    """
    values = np.asarray(logs, dtype=np.float64)
    return max(float(np.sqrt(np.mean(values**2))), spread_of_logs(values))


def calibrated(
    kernel: str,
    state: State,
    counts: Sequence[Mapping[str, float]],
    seconds: npt.ArrayLike,
    families: Sequence[str],
    caches: CacheSizes,
    software: str = "",
) -> KernelCosts:
    """The costs of a kernel from products measured, and their spread over families held out.

    Parameters
    ----------
    counts
        Of every product (`row_chunks.counts_of`).
    families
        Which matrices are held out together: those of one generator.

    Raises
    ------
    InputError
        Where there are fewer than two families, or a time is not above 0.
    """
    if len(set(families)) < 2:
        raise InputError(f"kernel {kernel!r}: products of {len(set(families))} families of matrices, want at least 2")
    best: tuple[float, KernelCosts] | None = None
    freedom = float(len(set(families)) - 1)
    for reach in REACHES:
        amounts = np.array([term_amounts(one, caches, state, reach) for one in counts])
        logs = held_out_logs(amounts, seconds, families)
        cost = dict(zip(TERMS[state], map(float, fit_costs(amounts, seconds)), strict=True))
        result = KernelCosts(
            kernel, state, FrozenDict(cost), min(spread_over_families(logs), 10.0), freedom, reach, software
        )
        error = float(np.mean(np.abs(logs)))
        if best is None or error < best[0]:
            best = error, result
    if best is None:
        raise InputError(f"kernel {kernel!r}: no reach to choose from")
    return best[1]
