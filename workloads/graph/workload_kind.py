"""What kind of work a graph is of: which models were made for it, whatever it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from slipstick.workloads.graph.workload import Workload

WorkloadKind = Literal[
    "loop", "sparse product", "collective", "pipeline parallel", "data parallel", "requests", "training", "network"
]


def workload_kind(workload: Workload) -> WorkloadKind:
    """By its operations: loops, sparse products, collectives alone, a parallel run, requests, training, the rest.

    "pipeline parallel" is one device's share of a run that names its stages, "data parallel" a replica whose gradients
    are summed, "requests" what a language model's users send, "training" a step of training a language model.
    """
    if "requests" in workload.metadata:
        return "requests"
    if "training" in workload.metadata:
        return "training"
    operations = workload.distinct.operations
    if operations and all("loop" in op.attributes for op in operations):
        return "loop"
    if any(op.kind == "spmv" for op in operations):
        return "sparse product"
    if operations and all(op.kind == "collective" for op in operations):
        return "collective"
    if "pipeline_parallel" in workload.symbols | set(workload.defaults):
        return "pipeline parallel"
    return "data parallel" if workload.metadata.get("devices") == "data_parallel" else "network"


def network_of(workload: Workload) -> str:
    """The network that a graph is a part or a run of: what its metadata says, else its name."""
    return str(workload.metadata.get("network", workload.name))
