"""What a training plan knows of the public runs that its terms were fitted to, and where a question leaves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.conditions import UNMEASURED, Condition
from slipstick.estimators.fitting.fitted_file import FittedFile, load_fitted
from slipstick.estimators.training.training_law import RELEASED, UNNAMED, TrainingFit, training_groups, vendor_of
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel

MACHINE = "machine"
"""The condition that no run was of a machine."""
SOFTWARE = ("megatron", "fsdp", "automodel", "internevo", "megatron-deepspeed")
"""What trains: Megatron's layouts, weights sharded over data ranks alone (eager FSDP), and others measured."""
SHARDED = ("fsdp", "automodel")
"""Those that share out weights too (ZeRO 3) where no layout is given."""


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
    """What the runs were that a stack of software was fitted to; of one that nobody named, those of all.

    Raises InputError where none was fitted.
    """
    if software == UNNAMED:
        return _together([fitted_runs(one) for one in SOFTWARE])
    if software not in SOFTWARE:
        raise unknown_name("training software", software, list(SOFTWARE))
    try:
        facts = _document().facts[software]
        precisions = {str(name): frozenset(map(str, each)) for name, each in facts["precisions"].items()}
        least, most = map(int, facts["sequences"])
        return FittedRuns(precisions, bool(facts["experts"]), int(facts["devices"]), (least, most), int(facts["runs"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"fitted/training.json: facts of {software}: {error!r}") from None


def _together(runs: Sequence[FittedRuns]) -> FittedRuns:
    names = {name for one in runs for name in one.precisions}
    precisions = {
        name: frozenset().union(*(one.precisions.get(name, frozenset()) for one in runs)) for name in sorted(names)
    }
    ends = [one.sequences for one in runs]
    sequences = min(least for least, _ in ends), max(most for _, most in ends)
    experts, devices = any(one.experts for one in runs), max(one.devices for one in runs)
    return FittedRuns(precisions, experts, devices, sequences, sum(one.runs for one in runs))


def named_software(text: str) -> tuple[str, str]:
    """Software and release of words: "Megatron 24.07" is ("megatron", "24.07"); both "" where none is named.

    Raises InputError where it is none of `SOFTWARE`.
    """
    name, _, version = text.strip().partition(" ")
    if name and name.lower() not in SOFTWARE:
        raise unknown_name("training software (--trainer, machine.runtime.library)", text, list(SOFTWARE))
    return name.lower(), version.strip()


def groups_at(model: LanguageModel, at: Machine, precision: str, software: str) -> dict[str, str]:
    """The groups of a question; software without a release is that of the newest, and one that was measured on other
    makers' machines alone stands for none that is named: another stack runs there."""
    name, version = named_software(software)
    if foreign(at, name):
        name, version = UNNAMED, ""
    chip = _fitted_machine(at, fitted_runs(name)) or at.name
    release = f"{RELEASED.get(name, name)} {version}" if version else ""
    return training_groups(at, chip, name, release, model.name, precision)


def foreign(at: Machine, name: str) -> bool:
    """Whether stacks were measured on machines of this maker, and this one was not."""
    return name not in training_fit().stacks.get(vendor_of(at), (name,))


def unseen_machine(at: Machine, software: str) -> list[Condition]:
    """That no fitted run of the software was on such a machine; none where one was."""
    name, _ = named_software(software)
    if _fitted_machine(at, fitted_runs(name)) is not None:
        return []
    words = f"no fitted run of {name or 'any trainer'} is of {at.name}: its data sheet under terms of others"
    return [Condition(MACHINE, words, UNMEASURED)]


def outside(
    model: LanguageModel, at: Machine, devices: int, sequence: int, precision: str, software: str
) -> tuple[str, ...]:
    """A line for each way in which a question in devices, tokens and precision leaves the fitted runs: no band knows
    how far that counts."""
    software, _ = named_software(software)
    fitted = fitted_runs(software)
    software = software or "any trainer"
    lines = []
    name = _fitted_machine(at, fitted)
    if name is not None and precision not in fitted.precisions[name]:
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
