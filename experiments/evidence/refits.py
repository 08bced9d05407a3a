"""What is fitted anew by `slipstick validate --refit NAME`: each module's `refit()` gives the file that ships."""

from __future__ import annotations

from importlib import import_module

from slipstick.estimators.learning.fitted_file import FittedFile
from slipstick.hwmodels.files.readers import unknown_name

REFITS = {
    "llama-cpp": "slipstick.experiments.evidence.validation.serving.local_rows",
    "serving": "slipstick.experiments.evidence.validation.serving.refit",
}


def refitted(name: str) -> FittedFile:
    """Fit anew; nothing is written.

    Raises
    ------
    InputError
        Where nothing is fitted by this name, or the public rows are missing.
    """
    if name not in REFITS:
        raise unknown_name("fitted numbers", name, sorted(REFITS))
    made: FittedFile = import_module(REFITS[name]).refit()
    return made
