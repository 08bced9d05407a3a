"""Bytes that a tape keeps, as the tests compare them with PyTorch's."""

from __future__ import annotations

from slipstick.workloads.graph.saved import tape
from slipstick.workloads.graph.workload import Workload


def saved_bytes(workload: Workload) -> float:
    """Bytes that autograd keeps between the forward and the backward pass: each storage once."""
    kept: dict[str, float] = {}
    for entry in tape(workload):
        kept |= entry.saves
    return sum(kept.values())
