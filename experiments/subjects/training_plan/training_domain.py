"""Where a training plan leaves the public runs that its terms were fitted to."""

from __future__ import annotations

from slipstick.experiments.subjects.training_plan.fitted_runs import FITTED, FittedRuns
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel


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
