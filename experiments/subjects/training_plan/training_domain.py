"""Where a training plan leaves the public runs that its terms were fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel


@dataclass(frozen=True)
class FittedRuns:
    """What the runs of one fit were: precisions by machine, model kinds, most devices, shortest and longest sequence.

    The figures are those of `MEGATRON_TERMS` (87 runs) and `FSDP_TERMS` (216), see docs/notes/training.md.
    """

    precisions: Mapping[str, frozenset[str]]
    experts: bool
    devices: int
    sequences: tuple[int, int]


FITTED = {
    "megatron": FittedRuns(
        {
            "h100-dgx": frozenset({"bf16", "fp8"}),
            "h200-sxm": frozenset({"fp8"}),
            "b200-sxm": frozenset({"bf16", "mxfp8"}),
            "gb200": frozenset({"bf16", "fp8", "mxfp8", "nvfp4"}),
        },
        experts=True,
        devices=2048,
        sequences=(4096, 8192),
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
    ),
}


def outside(
    model: LanguageModel, at: Machine, devices: int, sequence: int, precision: str, software: str
) -> tuple[str, ...]:
    """A line for each way in which a question in devices, tokens and precision leaves the fitted runs."""
    fitted = FITTED[software]
    lines = []
    name = _fitted_machine(at, fitted)
    if name is None:
        lines.append(f"no fitted run of {software} is of {at.name}: its data sheet under terms of others")
    elif precision not in fitted.precisions[name]:
        lines.append(f"no fitted run of {software} on {at.name} is in {precision}")
    if model.experts and not fitted.experts:
        lines.append(f"no fitted run of {software} has experts")
    if devices > fitted.devices:
        lines.append(f"{devices:,} devices; the fitted runs of {software} have at most {fitted.devices:,}")
    least, most = fitted.sequences
    if not least <= sequence <= most:
        lines.append(f"sequences of {sequence:,} tokens; the fitted runs of {software} have {least:,} to {most:,}")
    return tuple(lines)


def _fitted_machine(at: Machine, fitted: FittedRuns) -> str | None:
    """The machine of fitted runs with the same cores and memory; None where none is."""
    from slipstick.hwmodels.catalog import machine

    for name in fitted.precisions:
        run = machine(name)
        if (run.cores, run.main_memory) == (at.cores, at.main_memory) and run.family == at.family:
            return name
    return None
