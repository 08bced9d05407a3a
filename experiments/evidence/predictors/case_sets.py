"""Sets of cases by the names of their scoreboards."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from slipstick.experiments.evidence.cases import CaseSet
from slipstick.hwmodels.files.readers import unknown_name

SETS = {
    "scaling": "slipstick.experiments.evidence.predictors.sets.scaling_cases",
    "surfaces": "slipstick.experiments.evidence.predictors.sets.surface_cases",
    "training": "slipstick.experiments.evidence.predictors.sets.training_cases",
    "serving": "slipstick.experiments.evidence.predictors.sets.serving_cases",
    "defaults": "slipstick.experiments.evidence.predictors.sets.default_cases",
}


def case_set(name: str, scored: Path | None = None) -> CaseSet:
    """The cases of a scoreboard, from the public measurements or from another folder of the same files.

    Raises
    ------
    InputError
        Where the scoreboard has no cases for other predictors, or its files are not here.
    """
    if name not in SETS:
        raise unknown_name("scoreboard whose cases other predictors can answer", name, sorted(SETS))
    result: CaseSet = import_module(SETS[name]).case_set(scored)
    return result
