"""The study of Viebke et al. as estimators: strategies (a) and (b), contention fitted to Table IV, its simulations.

Viebke et al., "Performance Modelling of Deep Learning on Intel Many Integrated Core Architectures", 2019. Strategy (a)
is an instruction count under the thread schedule, (b) a table of measured times under the same schedule; the contention
line is an ordinary least-squares fit; the simulations replace the schedule.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slipstick.common.expressions import symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.instruction_counts import InstructionCount
from slipstick.estimators.cpu.thread_calibration import by_weights
from slipstick.estimators.cpu.threaded_training import ThreadedTraining
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.fitting.least_squares import Fit, fit_formula
from slipstick.estimators.interconnect.collectives import Collectives, DeviceAndCollectives
from slipstick.estimators.roofline.measured_table import MeasuredTimes
from slipstick.estimators.schedules.thread_contention import Contention, ContentionByWeights
from slipstick.estimators.schedules.thread_schedule import Beyond, ThreadSchedule
from slipstick.estimators.simulation.thread_simulation import SharedMemory, ThreadSimulation
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.networks.phi_cnn import all_weights

FAMILY = "intel-knights-corner"
COUNT_ERROR = 0.12
"""By which instructions counted from a graph miss those of Tables VII and VIII at most (large network)."""
SIZES = ("small", "medium", "large")
MEASURED_THREADS = (1, 15, 30, 60, 120, 180, 240)
PREDICTED_THREADS = (480, 960, 1920, 3840)
TABLE_III_MS = {  # forward and backward propagation of one image [ms], preparation [s]
    "small": (1.45, 5.3, 12.56),
    "medium": (12.55, 69.73, 12.7),
    "large": (148.88, 859.19, 13.5),
}
TABLE_IV_S = {
    "small": ((7.10e-6, 6.40e-4, 1.36e-3, 3.07e-3, 6.76e-3, 9.95e-3, 1.40e-2), (2.78e-2, 5.60e-2, 1.12e-1, 2.25e-1)),
    "medium": ((1.56e-4, 2.00e-3, 3.97e-3, 8.03e-3, 1.65e-2, 2.50e-2, 3.83e-2), (7.31e-2, 1.47e-1, 2.95e-1, 5.91e-1)),
    "large": ((8.83e-4, 8.75e-3, 1.67e-2, 3.22e-2, 6.74e-2, 1.00e-1, 1.38e-1), (2.73e-1, 5.46e-1, 1.09, 2.19)),
}
TABLE_IX_PERCENT = {"small": (14.57, 16.35), "medium": (14.76, 7.48), "large": (15.36, 10.22)}
TABLE_X_MINUTES = {  # (a), (b) by thread count
    "small": ((6.6, 6.7), (5.4, 5.5), (4.9, 4.9), (4.6, 4.6)),
    "medium": ((36.8, 39.1), (23.9, 25.1), (17.4, 18.0), (14.2, 14.5)),
    "large": ((92.9, 82.6), (60.8, 45.7), (44.8, 27.2), (36.8, 18.0)),
}
TABLE_XI_MINUTES = {  # (threads, images, test images) -> 70, 140, 280 epochs; small network, strategy (a)
    (240, 60_000, 10_000): (8.9, 17.6, 35.0),
    (240, 120_000, 20_000): (17.6, 35.0, 69.7),
    (240, 240_000, 40_000): (35.0, 69.7, 139.3),
    (480, 60_000, 10_000): (6.6, 12.9, 25.6),
    (480, 120_000, 20_000): (12.9, 25.6, 51.1),
    (480, 240_000, 40_000): (25.6, 51.1, 101.9),
}


def phi() -> Machine:
    """The Xeon Phi 7120P of the study."""
    return machine("xeon-phi-7120p")


def contention_fit(size: str) -> Fit:
    """The least-squares line through the seven measured thread counts of Table IV, in seconds."""
    threads = symbol("run.threads")
    line = Formula(symbol("intercept") + symbol("slope") * threads, "s", "Viebke et al. 2019, Table IV")
    return fit_formula(line, {"run.threads": MEASURED_THREADS}, TABLE_IV_S[size][0], {"intercept": 0.0, "slope": 1e-4})


def contention() -> FrozenDict[Contention]:
    """Table IV by network: the measured values, and the fitted line elsewhere."""
    entries = {}
    for size in SIZES:
        intercept, slope = contention_fit(size).values
        entries[size] = Contention(intercept, slope, tuple(zip(MEASURED_THREADS, TABLE_IV_S[size][0], strict=True)))
    return FrozenDict(entries)


def measured_times() -> MeasuredTimes:
    """Table III: seconds of one image forward (validation, testing), forward and backward (training), preparation."""
    seconds = {}
    for size, (forward, backward, preparation) in TABLE_III_MS.items():
        seconds[f"phi-cnn-{size}/training"] = (forward + backward) * 1e-3
        seconds[f"phi-cnn-{size}/validation"] = seconds[f"phi-cnn-{size}/testing"] = forward * 1e-3
        seconds[f"phi-cnn-{size}/preparation"] = preparation
        seconds[f"phi-cnn-{size}/image"] = 0.0  # part of the preparation
    source = "Viebke et al. 2019, Table III"
    hint = (
        "missing: forward, backward and preparation times of the network on one thread (slipstick measure contention "
        "MODULE:FUNCTION --out FILE.json, then --calibration FILE.json)"
    )
    return MeasuredTimes(FrozenDict(seconds), phi().fingerprint, "one thread a core", source, hint=hint)


def contention_by_weights() -> ContentionByWeights:
    """Table IV by weights: 49.8 us and 1.36 ns a weight that each thread adds, for networks it does not hold.

    A line through two of the three networks gives the third one's slope within 2.7 %.
    """
    slopes = {size: contention_fit(size).values[1] for size in SIZES}
    return by_weights(FrozenDict({size: float(all_weights(size)) for size in SIZES}), FrozenDict(slopes))


def schedule(beyond: Beyond) -> ThreadSchedule:
    """Threads with the contention of Table IV, which counts on Knights Corner alone."""
    return ThreadSchedule(contention(), contention_by_weights(), beyond, FAMILY)


def threaded(strategy: str, beyond: Beyond) -> ThreadedTraining:
    """Strategy "a" or "b" for any network and machine; measured contention and passes are the study's.

    Raises InputError where there is no such strategy.
    """
    if strategy == "a":
        return ThreadedTraining(InstructionCount(15.0), schedule(beyond), "Viebke et al. 2019, Table V")
    if strategy == "b":
        return ThreadedTraining(measured_times(), schedule(beyond), "Viebke et al. 2019, Table VI")
    raise unknown_name("strategy", strategy, ["a", "b"])


def several_nodes() -> ThreadedTraining:
    """Strategy (a) on several many-core nodes that sum their weights over the machine's links (Section VII)."""
    operation = DeviceAndCollectives(InstructionCount(15.0), Collectives())
    source = "Viebke et al. 2019, Table V, on several nodes"
    return ThreadedTraining(operation, schedule("oversubscribed"), source, exchanging="all_reduce")


def estimator(strategy: str) -> ComposedEstimator:
    """Strategy "a" or "b" (Tables V and VI), "simulated" (Figure 4, contention as measured), "queue" (as a mechanism).

    Raises
    ------
    InputError
        Where there is no such strategy.
    """
    if strategy in ("a", "b"):
        return threaded(strategy, "wider")
    if strategy == "simulated":
        return ComposedEstimator(
            InstructionCount(15.0), ThreadSimulation(FrozenDict(dict(contention()))), "Figure 4, simulated"
        )
    if strategy == "queue":
        queues = FrozenDict({size: fit_queue(size)[0] for size in SIZES})
        return ComposedEstimator(
            InstructionCount(15.0), ThreadSimulation(FrozenDict(dict(queues))), "Figure 4, memory as a queue"
        )
    raise unknown_name("strategy", strategy, ["a", "b", "simulated", "queue"])


def calibrated(size: str, strategy: str = "a", beyond: Beyond = "wider") -> Calibration:
    """A strategy with what is known of its errors: the line's covariance, and the published mean deviation of Table IX.

    A mean absolute deviation of D is a standard deviation of D sqrt(pi / 2) where errors are normal.
    """
    fit = contention_fit(size)
    names = tuple(f"schedule.contention.{size}.{name}" for name in fit.names)
    deviation = TABLE_IX_PERCENT[size]["ab".index(strategy)] / 100
    return Calibration(
        threaded(strategy, beyond),
        names,
        fit.covariance,
        residual_std=deviation * math.sqrt(math.pi / 2),
        degrees_of_freedom=float(fit.degrees_of_freedom),
        source=f"Table IV (contention line) and Table IX (mean deviation), strategy ({strategy}), {size} network",
    )


def other_networks(strategy: str, beyond: Beyond) -> Calibration:
    """A strategy for networks that the study does not have: wider by what the count of instructions misses."""
    deviation = max(TABLE_IX_PERCENT[one]["ab".index(strategy)] for one in SIZES) / 100
    return Calibration(
        threaded(strategy, beyond),
        (),
        residual_std=math.hypot(deviation, COUNT_ERROR) * math.sqrt(math.pi / 2),
        source=f"three other networks of the study (Table IX, Table IV by weights), strategy ({strategy})",
    )


def fit_queue(size: str) -> tuple[SharedMemory, np.ndarray[Any, np.dtype[np.float64]]]:
    """The queue that explains Table IV, and its errors log(queue / measured) at the seven counts.

    The measuring script does nothing but ask for memory: a closed network of p threads and one server. A visit lasts D,
    for the data come from another core, so that a round of p threads takes p D; one thread alone keeps its data and
    needs what was measured at one. D is the mean (of logs) of what 15 threads and more measured over their number.
    """
    threads = np.array(MEASURED_THREADS, dtype=np.float64)
    measured = np.array(TABLE_IV_S[size][0])
    service = float(np.exp(np.mean(np.log(measured[1:] / threads[1:]))))
    queue = SharedMemory(service, 1, float(measured[0]))
    predicted = np.concatenate([measured[:1], service * threads[1:]])
    return queue, np.log(predicted / measured)
