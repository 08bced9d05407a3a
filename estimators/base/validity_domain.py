"""Where a calibration holds, or an estimator answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstick.workloads.graph.workload_kind import WorkloadKind, network_of, workload_kind

if TYPE_CHECKING:
    from slipstick.hwmodels.machine import Machine
    from slipstick.workloads.graph.workload import Workload


@dataclass(frozen=True)
class Domain:
    """The workloads and machines for which something holds; an empty field leaves nothing out.

    Parameters
    ----------
    kinds
        Of workload (`workload_kind`).
    networks
        Names of networks (`network_of`).
    families
        Of machines, whole names ("intel-knights-corner").
    """

    kinds: tuple[WorkloadKind, ...] = ()
    networks: tuple[str, ...] = ()
    families: tuple[str, ...] = ()

    def holds(self, workload: Workload, machine: Machine) -> bool:
        """Whether a question lies inside."""
        return self.holds_workload(workload) and (not self.families or machine.family in self.families)

    def holds_workload(self, workload: Workload) -> bool:
        """Whether a workload does, on some machine."""
        of_kind = not self.kinds or workload_kind(workload) in self.kinds
        return of_kind and (not self.networks or network_of(workload) in self.networks)

    def __str__(self) -> str:
        parts = [", ".join(names) for names in (self.networks, self.kinds, self.families) if names]
        return " on ".join(parts) or "everything else"
