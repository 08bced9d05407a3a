"""What the public runs were that the terms of a training step were fitted to.

version: 1
refit: ``python tools/refit_training.py`` writes `FITTED` from the public rows and prints the terms; a test holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class FittedRuns:
    """Precisions by machine, whether models had experts, most devices, shortest and longest sequence [tokens]."""

    precisions: Mapping[str, frozenset[str]]
    experts: bool
    devices: int
    sequences: tuple[int, int]
    runs: int


# begin: written by tools/refit_training.py
FITTED: Mapping[str, FittedRuns] = {
    "megatron": FittedRuns(
        {
            "h100-dgx": frozenset({"bf16", "fp8"}),
            "h200-sxm": frozenset({"fp8"}),
            "b200-sxm": frozenset({"bf16", "mxfp8"}),
            "gb200": frozenset({"bf16", "fp8", "mxfp8", "nvfp4"}),
            "b300-sxm": frozenset({"bf16", "mxfp8"}),
            "gb300": frozenset({"nvfp4"}),
        },
        experts=True,
        devices=2048,
        sequences=(4096, 8192),
        runs=107,
    ),
    "fsdp": FittedRuns(
        {
            "a100-sxm-40gb": frozenset({"bf16"}),
            "a100-80-dgx": frozenset({"bf16"}),
            "h100-dgx": frozenset({"bf16", "fp8"}),
        },
        experts=False,
        devices=512,
        sequences=(512, 65536),
        runs=216,
    ),
}
# end
