"""What a training plan knows of the public runs that its terms were fitted to, and where a question leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.fitting.fitted_file import FittedFile, load_fitted
from slipstick.estimators.training.training_law import TrainingFit, training_groups
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel

SOFTWARE = ("megatron", "fsdp")
"""What trains: Megatron's layouts, or weights sharded over data ranks alone (eager FSDP)."""


@dataclass(frozen=True)
class FittedRuns:
    """Precisions by machine, whether models had experts, most devices, shortest and longest sequence [tokens]."""

    precisions: Mapping[str, frozenset[str]]
    experts: bool
    devices: int
    sequences: tuple[int, int]
    runs: int


@cache
def _document() -> FittedFile:
    return load_fitted("training")


@cache
def training_fit() -> TrainingFit:
    """The fitted numbers that ship."""
    return TrainingFit.of(_document())


@cache
def fitted_runs(software: str) -> FittedRuns:
    """What the runs were that a stack of software was fitted to.

    Raises InputError where none was fitted.
    """
    if software not in SOFTWARE:
        raise unknown_name("training software", software, list(SOFTWARE))
    try:
        facts = _document().facts[software]
        precisions = {str(name): frozenset(map(str, each)) for name, each in facts["precisions"].items()}
        least, most = map(int, facts["sequences"])
        return FittedRuns(precisions, bool(facts["experts"]), int(facts["devices"]), (least, most), int(facts["runs"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"fitted/training.json: facts of {software}: {error!r}") from None


def groups_at(model: LanguageModel, at: Machine, precision: str, software: str) -> dict[str, str]:
    """The groups of a question; software is that of the newest release."""
    chip = _fitted_machine(at, fitted_runs(software)) or at.name
    return training_groups(at, chip, software, "", model.name, precision)


def outside(
    model: LanguageModel, at: Machine, devices: int, sequence: int, precision: str, software: str
) -> tuple[str, ...]:
    """A line for each way in which a question in devices, tokens and precision leaves the fitted runs."""
    fitted = fitted_runs(software)
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
