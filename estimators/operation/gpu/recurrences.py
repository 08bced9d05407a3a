"""Steps of recurrent layers as libraries run them on each family of GPUs.

Fitted to DeepBench's forward times in FP32 (baidu-research/DeepBench, 53 layers a machine) by
`experiments.evidence.boards.recurrences.fitted`; `slipstick validate recurrences` leaves families out.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.estimators.operation.gpu.kernel_classes import RECURRENT, KernelParameters
from slipstick.estimators.tuned.tuned_defaults import KNOWN, RELATED, UNRELATED
from slipstick.hwmodels.machine import Machine

MEASURED = {
    "amd-gcn5": KernelParameters(3.47e-5, 0.425, 1.0, tile_cycles=535, small_tile=0.101, overlap=0.0),
    "nvidia-maxwell": KernelParameters(2.79e-5, 0.664, 0.622, tile_cycles=17_500, small_tile=0.0104, overlap=0.0),
    "nvidia-pascal": KernelParameters(2.01e-5, 0.966, 0.6, tile_cycles=6_050, small_tile=0.149, overlap=0.4),
    "nvidia-volta": KernelParameters(1.83e-5, 0.996, 0.852, tile_cycles=1, small_tile=0.017, overlap=0.0),
}
"""Medians of |log(predicted / measured)| of the rows that they are fitted to: 0.15, 0.10, 0.14, 0.12."""
RELATIVES = {
    "amd-": "amd-gcn5",
    "nvidia-kepler": "nvidia-maxwell",
    "nvidia-": "nvidia-volta",
}
"""Who stands for families that nobody measured; the first that fits."""


@dataclass(frozen=True)
class RecurrentKernels:
    """Parameters of a step, how far they stray (standard deviation of log time), and whose they are."""

    kernels: KernelParameters
    spread: float
    note: str


def recurrent_kernels(machine: Machine) -> RecurrentKernels:
    """What is known of recurrent steps on a machine."""
    for family, measured in MEASURED.items():
        if machine.family.startswith(family):
            return RecurrentKernels(measured, KNOWN, f"DeepBench's layers on {family}")
    for family, relative in RELATIVES.items():
        if machine.family.startswith(family):
            return RecurrentKernels(MEASURED[relative], RELATED, f"DeepBench's layers on {relative}")
    return RecurrentKernels(RECURRENT, UNRELATED, "DeepBench's layers on nine GPUs")
