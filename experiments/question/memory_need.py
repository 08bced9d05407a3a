"""Bytes that a question needs at once on its machine, with a band, and whether they fit: three words.

What PyTorch allocates is counted (`peak_bytes`: exact where the graph is, against torch's own hooks). What the card has
to hold beside it is not: blocks that the caching allocator rounds up and cannot reuse, workspaces of libraries, and the
context. A capacity is what the data sheet says in GB, which vendors of GPUs mean as GiB, and of which the driver keeps
some; so what is taken counts over the data sheet's number. It and its scatter are fitted to networks of which one batch
fitted an RTX 3090 and the next did not (`slipstick validate --refit memory`; families left out: `validate vision`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import Mask
from slipstick.common.size_column import Sized
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.footprint import resident_bytes
from slipstick.workloads.graph.live import passing_bytes, peak_bytes
from slipstick.workloads.graph.workload import Workload

CONTEXT = 0.5e9
"""Bytes of a CUDA context with its libraries, a round number: PyTorch's first kernel takes 0.3 to 0.6 GB of a card."""
NAME = "memory"
FITS, MAY, NOT = "fits", "may not fit", "DOES NOT FIT"


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes that have to be there at once, and that are there; of sizes in columns `lasting` and `activations` may be
    columns.

    `lasting`: parameters, and in training their gradients and optimizer state, and the cache of keys and values.
    `activations`: results, what autograd saved and gradients of results, at the fullest moment; None: not known.
    `there`, `level`: the capacity of the main memory, and its name.
    `trains`: whether the workload is a training step.
    `beside`: on a GPU what its context takes (`CONTEXT`).
    `taken`, `scatter`: bytes taken over those counted, and the standard deviation of its log.
    """

    lasting: Sized
    activations: Sized | None
    there: float
    level: str
    trains: bool
    beside: float = 0.0
    taken: float = 1.0
    scatter: float = 0.0

    @property
    def counted(self) -> Sized:
        """What is allocated, and the context."""
        return self.lasting + (self.activations or 0.0) + self.beside

    @property
    def needed(self) -> Sized:
        """What that takes of the memory."""
        return self.counted + (self.taken - 1) * (self.lasting + (self.activations or 0.0))

    @property
    def band(self) -> tuple[Sized, Sized]:
        """The ends of its 80 % band."""
        factor = math.exp(QUANTILE * self.scatter)
        return self.needed / factor, self.needed * factor

    @property
    def verdict(self) -> str:
        """Three words: it fits where the high end of the band does, and does not where the low end does not."""
        return str(self.verdicts(self.needed, self.there))

    def verdicts(self, needed: npt.ArrayLike, there: npt.ArrayLike) -> npt.NDArray[np.str_]:
        """The words for other sizes of the same workload in other capacities, in bytes; shape of both together."""
        wide = math.exp(QUANTILE * self.scatter)
        size, has = np.asarray(needed, dtype=float), np.asarray(there, dtype=float)
        fits = FITS if self.activations is not None else MAY
        return np.where(size * wide <= has, fits, np.where(size / wide > has, NOT, MAY))

    @property
    def fits(self) -> bool:
        """Whether it does, by the middle of the band."""
        return bool(self.needed <= self.there)


@cache
def taken_of_a_card() -> tuple[float, float]:
    """Bytes taken of a card over those allocated and the context, and the standard deviation of its log."""
    facts = load_fitted(NAME).facts
    return float(facts["taken"]), float(facts["scatter"])


def memory_need(bound: Workload, machine: Machine, eager: Workload | None = None) -> MemoryNeed | None:
    """What a workload without open sizes keeps in the main memory; None where its graph does not say.

    `eager`: the same before a compiler joined operations: what autograd saves is counted there. What the partitioner of
        ``torch.compile`` keeps instead is .89 to 1.11 x of it (its own min-cut, on blocks of GPT with and without
        flash attention, of ResNet and MobileNet, and on a perceptron): no law of its own is needed.
    """
    lasting = None if "devices" in bound.metadata else resident_bytes(bound)
    main = machine.main_memory
    there = machine.memory[main].capacity * machine.instances(main)
    if lasting is None or not there:
        return None
    trains = any(op.kind == "optimizer" for op in bound)
    on_card = machine_kind(machine) == "gpu"
    taken, scatter = taken_of_a_card()
    return MemoryNeed(
        lasting,
        _activations(eager or bound, trains=trains),
        there,
        main,
        trains,
        CONTEXT if on_card else 0.0,
        taken if on_card else 1.0,
        scatter if on_card or trains else 0.0,
    )


def _activations(eager: Workload, *, trains: bool) -> Sized | None:
    if not trains:
        return passing_bytes(eager)
    if not any(op.attributes.get("phase") for op in eager):
        return None  # an imported graph does not say which operations are the backward pass's
    return peak_bytes(eager)


def able(words: npt.NDArray[np.str_]) -> Mask:
    """The points among which one is recommended: those that fit; where none surely does, those that may; else none.

    Shape (points,), as `words` has it.
    """
    for word in (FITS, MAY):
        if np.any(words == word):
            return np.asarray(words == word)
    return np.zeros(len(words), dtype=bool)
