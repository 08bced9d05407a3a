"""What is fitted anew by `slipstick validate --refit NAME`: each module's `refit()` gives the file that ships."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slipstick.estimators.learning.fitted_file import FittedFile
from slipstick.hwmodels.files.readers import unknown_name


def _bandwidth() -> FittedFile:
    from slipstick.experiments.evidence.boards.bandwidth import refit

    return refit()


def _collectives() -> FittedFile:
    from slipstick.experiments.evidence.validation.parallel.collective_fit import refit

    return refit()


def _cpu_library() -> FittedFile:
    from slipstick.experiments.evidence.validation.vision.cpu_library_fit import refit

    return refit()


def _host() -> FittedFile:
    from slipstick.experiments.evidence.validation.models.programs.host_fit import refit

    return refit()


def _llama_cpp() -> FittedFile:
    from slipstick.experiments.evidence.validation.serving.local_fits import refit

    return refit()


def _memory() -> FittedFile:
    from slipstick.experiments.evidence.validation.vision.vision_memory import refit

    return refit()


def _programs() -> FittedFile:
    from slipstick.experiments.evidence.validation.models.programs.program_refit import refit

    return refit()


def _power_limit() -> FittedFile:
    from slipstick.experiments.evidence.validation.energy.power_limit_scores import refit

    return refit()


def _recurrences() -> FittedFile:
    from slipstick.experiments.evidence.validation.models.recurrent_fit import refit

    return refit()


def _serving() -> FittedFile:
    from slipstick.experiments.evidence.validation.serving.refit import refit

    return refit()


def _serving_power() -> FittedFile:
    from slipstick.experiments.evidence.validation.energy.serving_fit import refit

    return refit()


def _training() -> FittedFile:
    from slipstick.experiments.evidence.validation.parallel.training.training_fit import refit

    return refit()


REFITS: Mapping[str, Callable[[], FittedFile]] = {
    "bandwidth": _bandwidth,
    "collectives": _collectives,
    "cpu-library": _cpu_library,
    "host": _host,
    "llama-cpp": _llama_cpp,
    "memory": _memory,
    "power-limit": _power_limit,
    "programs": _programs,
    "recurrences": _recurrences,
    "serving": _serving,
    "serving-power": _serving_power,
    "training": _training,
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
    return REFITS[name]()
