"""What kind of machine a description is of: which models were made for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from slipstick.hwmodels.machine import Machine

MachineKind = Literal["gpu", "tpu", "systolic", "many-core", "cpu", "accelerator"]
MANY_CORE = ("intel-knights-corner", "intel-knights-landing")
FAMILIES: dict[str, MachineKind] = {
    "nvidia": "gpu",
    "amd-cdna": "gpu",
    "amd-rdna": "gpu",
    "amd-gcn": "gpu",
    "amd-vega": "gpu",
    "google-tpu": "tpu",
    "intel-gaudi": "systolic",
    "intel-xe": "gpu",
    "intel": "cpu",
    "amd-zen": "cpu",
    "arm": "cpu",
    "apple": "gpu",
    "aws-neuron": "systolic",
    "cavium": "cpu",
    "fujitsu": "cpu",
    "aws-graviton": "cpu",
    "ampere-altra": "cpu",
    "huawei-ascend": "accelerator",
}
"""By the beginning of the family; the longest that fits counts."""
GPU_CORES = 8
"""From this many cores on, a matrix engine in every core is a GPU's; below, an accelerator of few large ones."""


def machine_kind(machine: Machine) -> MachineKind:
    """By its family; where that says nothing, by its engines: arrays of rows and columns, matrix engines, or none."""
    if machine.family in MANY_CORE:
        return "many-core"
    known = [name for name in FAMILIES if (machine.family or "").startswith(name)]
    if known:
        return FAMILIES[max(known, key=len)]
    matrix = machine.engines.get("matrix")
    if matrix is None:
        return "cpu"
    if matrix.rows and matrix.columns:
        return "systolic"
    return "gpu" if machine.cores >= GPU_CORES else "accelerator"
