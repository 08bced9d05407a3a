"""How far ratios of two answers scatter, from public measurements (`slipstick validate --refit ratios`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

from slipstick.estimators.base.estimate import DEFAULT_LEVEL
from slipstick.estimators.base.ratio_band import SAME_OPERATIONS, RatioBand
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.workloads.graph.workload_kind import WorkloadKind

NAME = "ratios"
OTHER_MACHINE, OTHER_SIZES, OTHER_NETWORKS = "other machine", "other sizes", "other sizes of networks"
NETWORKS: Collection[WorkloadKind] = (
    "program", "training program", "step", "training", "data parallel", "pipeline parallel",
)  # fmt: skip
"""Kinds of work whose answers err as whole networks do, however many operations they have."""


@dataclass(frozen=True)
class RatioLaw:
    """What measured ratios ask of the bands of predicted ones.

    `other_machine`: `RatioBand.other`: hosts, clocks that a run reaches, which kernel the library takes.
    `other_sizes`: `RatioBand.kept` of operations of other sizes.
    `other_networks`: the same of whole networks, whose answers err much alike at all sizes.
    """

    other_machine: float
    other_sizes: float
    other_networks: float

    def kept(self, work: WorkloadKind) -> float:
        """`RatioBand.kept` of answers at other sizes."""
        return self.other_networks if work in NETWORKS else self.other_sizes

    def band(
        self,
        names: Sequence[str] = (),
        work: WorkloadKind = "kernel",
        level: float = DEFAULT_LEVEL,
        degrees_of_freedom: float | None = None,
        residual_freedom: float | None = None,
    ) -> RatioBand:
        """The band of ratios where these names vary: of the same operations on a machine, or of other sizes.

        `work`: what the answers are of.
        `degrees_of_freedom`, `residual_freedom`: see `Spread`.
        """
        kept = SAME_OPERATIONS if all(name.startswith("machine.") for name in names) else self.kept(work)
        return RatioBand(self.other_machine, kept, level, degrees_of_freedom, residual_freedom)


@cache
def shipped() -> RatioLaw:
    """The law that ships."""
    facts = load_fitted(NAME).facts
    return RatioLaw(*(float(facts[name]) for name in (OTHER_MACHINE, OTHER_SIZES, OTHER_NETWORKS)))
