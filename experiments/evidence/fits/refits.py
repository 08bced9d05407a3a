"""What is fitted anew by `slipstick validate --refit NAME`: each module's `refit()` gives the files that ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from slipstick.estimators.learning.fitted_file import FittedFile
from slipstick.experiments.evidence.fits.shipped_files import ShippedFiles
from slipstick.hwmodels.files.readers import unknown_name

HOME = "slipstick.experiments.evidence"
REFITS: Mapping[str, str] = {
    "bandwidth": "boards.bandwidth",
    "collectives": "validation.parallel.collective_fit",
    "cpu-library": "validation.vision.cpu_library_fit",
    "host": "validation.models.programs.host_fit",
    "libraries": "validation.gpu.library_spread",
    "llama-cpp": "validation.serving.local_fits",
    "loops": "validation.cpu.loop_scores",
    "memory": "validation.vision.vision_memory",
    "operations": "boards.shipped",
    "power-limit": "validation.energy.power_limit_scores",
    "programs": "validation.models.programs.program_refit",
    "ratios": "validation.whatif.ratio_fit",
    "recurrences": "validation.models.recurrent_fit",
    "scaling": "validation.scaling.refit",
    "serving": "validation.serving.refit",
    "serving-power": "validation.energy.serving_fit",
    "sparse": "validation.spmv.spmv_refit",
    "tpu": "validation.tpu.tpu_fit",
    "training": "validation.parallel.training.training_fit",
}
"""Modules below `HOME` by the name of what they fit."""


def words(names: Sequence[str]) -> list[str]:
    """What is to be fitted, each once, in order; "all" is everything.

    Raises
    ------
    InputError
        Where nothing is fitted by one of these names: before the others take minutes.
    """
    for name in names:
        if name not in REFITS and name != "all":
            raise unknown_name("fitted numbers", name, sorted(REFITS))
    return sorted(REFITS) if "all" in names else list(dict.fromkeys(names))


def refitted(name: str) -> FittedFile | ShippedFiles:
    """Fit anew; nothing is written.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    made: FittedFile | ShippedFiles = import_module(f"{HOME}.{REFITS[name]}").refit()
    return made
