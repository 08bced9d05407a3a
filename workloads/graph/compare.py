"""How two workloads differ: operations by what they are, and totals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from slipstick.common.expressions import expression_text
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op, Workload

PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class Difference:
    """Operations of one kind and size that the two workloads hold in different numbers."""

    kind: str
    dims: str
    phase: str
    left: int
    right: int


def differences(left: Workload, right: Workload) -> list[Difference]:
    """Operations in different numbers, whatever their names; empty where the workloads do the same."""
    counted = Counter(_signature(op) for op in left), Counter(_signature(op) for op in right)
    keys = sorted(set(counted[0]) | set(counted[1]))
    return [Difference(*key, counted[0][key], counted[1][key]) for key in keys if counted[0][key] != counted[1][key]]


def _signature(op: Op) -> tuple[str, str, str]:
    times = "" if op.times == 1 else f" x {amount_text(op.times)}"
    dims = ", ".join(f"{name}={amount_text(amount)}" for name, amount in sorted(op.dims.items()))
    return op.kind, dims + times, phase_of(op)


def phase_of(op: Op) -> str:
    """ "forward", "backward" or "optimizer"."""
    return str(op.attributes.get("phase", "forward"))


def amount_text(amount: Amount) -> str:
    """An amount as short text."""
    return str(amount) if isinstance(amount, (int, float)) else expression_text(amount)


def matrix_flop(workload: Workload, phase: str) -> Amount:
    """flop of matrix products and convolutions in a phase, each as often as it is done; a multiply-add is two."""
    return _total(workload, phase, "flop.matrix.")


def total_bytes(workload: Workload, phase: str) -> Amount:
    """Bytes read and written in a phase; views left out, since most runtimes do them for nothing."""
    moving = (op for op in workload if phase_of(op) == phase and op.kind != "view")
    return sum(op.cost.bytes_moved * op.times for op in moving)


def _total(workload: Workload, phase: str, resource: str) -> Amount:
    inside = (op for op in workload if phase_of(op) == phase)
    return sum(amount * op.times for op in inside for name, amount in op.cost.items() if name.startswith(resource))


def summary(workload: Workload) -> dict[str, Amount]:
    """The first figures of a workload, units in the key; expressions in open names are expanded."""
    import sympy as sp

    figures: dict[str, Amount] = {}
    for phase in PHASES:
        figures[f"{phase}_matrix_flop"] = matrix_flop(workload, phase)
        figures[f"{phase}_flop"] = _total(workload, phase, "flop.")
        figures[f"{phase}_bytes"] = total_bytes(workload, phase)
    return {name: sp.expand(value) if isinstance(value, sp.Basic) else value for name, value in figures.items()}
