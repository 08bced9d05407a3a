"""Rules of thumb, stated once: what people reckon with who have no model, a baseline of every board they can answer.

A device reaches 70 % of its memory bandwidth and 50 % of its peak; training a language model reaches 45 % of the peak
in model flop; a first token takes the flop of its prompt at 50 % of the peak. Nothing is fitted and nothing was chosen
here: the numbers are those that people quote.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.experiments.question.question import question
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

RULE = "rule of thumb"
"""The baseline's name."""
BANDWIDTH, PEAK, TRAINING = 0.70, 0.50, 0.45
"""Shares of the data sheet's bandwidth and peak, and of the peak in model flop of a training step."""
PRODUCTS = ("matrix", "bfloat16"), ("matrix", "float16"), ("vector", "float32")
FIELDS = {"compute_efficiency": PEAK, "memory_efficiency": BANDWIDTH}


def longer(computing: npt.ArrayLike, reading: npt.ArrayLike) -> FloatArray:
    """Seconds of work whose flop take `computing` at the peak and whose bytes `reading` at the bandwidth [s]."""
    return np.maximum(np.asarray(computing, dtype=float) / PEAK, np.asarray(reading, dtype=float) / BANDWIDTH)


def products(seconds: npt.ArrayLike) -> FloatArray:
    """Seconds of work, such as a prompt's, whose flop take `seconds` at the peak."""
    return np.asarray(seconds, dtype=float) / PEAK


def training_step(seconds: npt.ArrayLike) -> FloatArray:
    """Seconds of training steps whose model flop take `seconds` at the peak of all devices."""
    return np.asarray(seconds, dtype=float) / TRAINING


def product_peak(machine: Machine) -> float:
    """Flop/s of products in 16 bits where there is an engine of them, else of vectors in 32.

    Raises InputError where the machine states none of them.
    """
    for unit, dtype in PRODUCTS[:-1]:
        with suppress(InputError):
            return machine.peak(unit, dtype)
    return machine.peak(*PRODUCTS[-1])


def program(workload: Workload, machine: Machine) -> float:
    """Seconds of a graph, operation by operation.

    Raises InputError where the machine has no rate for one.
    """
    settings = {f"estimator.operation.{name}": value for name, value in FIELDS.items()}
    return question(workload, machine, "roofline", settings=settings).answer().time


def options() -> Sequence[str]:
    """Words that make the rule of a command that takes an estimator."""
    numbers = [f"estimator.operation.{name}={value:g}" for name, value in FIELDS.items()]
    return "--estimator", "roofline", *(word for one in numbers for word in ("--set", one))
