"""What is fitted anew by `slipstick validate --refit NAME`: each module's `refit()` gives the files that ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from slipstick.common.readers import unknown_name
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.experiments.scoring.fitted_files import ShippedFiles

HOME = "slipstick.experiments.scoreboards"
REFITS: Mapping[str, str] = {
    "bandwidth": "cpu.bandwidth_board",
    "bricks": "dlbricks.dlbricks_board",
    "collectives": "parallel.collectives_board",
    "cpu-library": "programs.cpu_library_fit",
    "host": "programs.host_fit",
    "libraries": "gpu.library_spread",
    "llama-cpp": "local_llm.local_fits",
    "loops": "cpu.loop_scores",
    "memory": "programs.vision_board",
    "operations": "shipped.shipped_board",
    "power-limit": "energy.power_limit_scores",
    "programs": "programs.program_refit",
    "ratios": "whatif.ratio_fit",
    "recurrences": "programs.recurrences_board",
    "scaling": "scaling.scaling_refit",
    "serving": "serving.serving_refit",
    "serving-power": "energy.energy_board",
    "sources": "sources.source_refit",
    "sparse": "spmv.spmv_refit",
    "tpu": "tpu.tpu_board",
    "training": "training.training_fit",
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
