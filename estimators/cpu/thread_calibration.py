"""What one measuring of threads says: contention, operation factor and passes of a network on a machine; strategies.

Source: Viebke et al. 2019, Section IV: strategy (a) counts instructions and fits its operation factor at one thread
count; strategy (b) takes forward, backward and preparation times from one thread; both add measured contention.

Times of a network's passes, measured on one thread: strategy (b) of Viebke et al. 2019, for any network.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict, content_digest
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.cpu.instruction_counts import InstructionCount
from slipstick.estimators.cpu.threaded_training import ThreadedTraining
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.fitting.least_squares import Fit, fit_formula
from slipstick.estimators.roofline.measured_table import MeasuredTimes, OfOneMachine
from slipstick.estimators.schedules.thread_contention import Contention, ContentionByWeights
from slipstick.estimators.schedules.thread_schedule import ThreadSchedule
from slipstick.estimators.symbolic.formula import CheckedParameters, Formula, Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import network_of

PASSES = {
    "preparation": ("preparation",),
    "image": (),
    "training": ("forward", "backward"),
    "inference": ("forward",),
    "validation": ("forward",),
    "testing": ("forward",),
}
"""Operation of a training run -> the measured passes that it is made of."""


@dataclass(frozen=True)
class PassTimes(CheckedParameters, OfOneMachine):
    """t = forward, or forward + backward, of one image on a thread that has its core to itself; preparation once.

    `network`: what was measured; another network is refused.
    `fingerprint`: of the machine measured; a changed machine is refused, since the old times say nothing about it.
    `source`: how and by whom they were measured.
    """

    forward: Annotated[float, Parameter("s", "forward propagation of one image on one thread", 1e-12, 1e6)]
    backward: Annotated[float, Parameter("s", "back-propagation and update of one image on one thread", 0.0, 1e6)]
    preparation: Annotated[float, Parameter("s", "before the first image", 0.0, 1e6)] = 0.0
    network: str = ""
    fingerprint: str = ""
    source: str = "Viebke et al. 2019, Table VI"

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The pass; refuses what was not measured.

        Raises InputError where the machine, the network or the pass is not the measured one.
        """
        if self.fingerprint and machine.fingerprint != self.fingerprint:
            raise InputError(
                f"machine {machine.name!r} is not the one that {self.network}'s passes were measured on (fingerprint "
                f"{machine.fingerprint}, measured {self.fingerprint}); missing: forward, backward and preparation "
                "times there (slipstick measure contention NETWORK --out FILE)"
            )
        network, _, name = str(op.attributes.get("measured_as", "")).rpartition("/")
        if name not in PASSES or (self.network and network != self.network):
            raise InputError(
                f"no measured time of operation {op.name!r} of network {network!r}: measured are the passes of "
                f"{self.network!r}; missing: its forward and backward times (slipstick measure contention)"
            )
        return name

    def formula(self, op: Op, machine: Machine) -> Formula:
        """Symbols: parameter.forward, .backward, .preparation."""
        parts = [symbol(f"parameter.{name}") for name in PASSES[str(self.key(op, machine))]]
        return Formula(sum(parts, start=sp.Integer(0)), "s", self.source)


Strategy = Literal["counted", "timed"]
CARRIED_OVER = 0.7
"""Scatter of the logarithm of operation factors between networks on one host: a factor of 2.5 either way."""
UNSEEN = 0.2
"""Relative error of a contention where two counts cannot show their scatter (Table IV: 4-15 % around its lines)."""
PUBLISHED, PUBLISHED_WEIGHT = 0.15 * math.sqrt(math.pi / 2), 4
"""Scatter of the method, from the mean deviation of Table IX (15 %), and of how many measured misses it counts."""


@dataclass(frozen=True)
class ThreadMeasurement:
    """What was measured of a network on a machine, in seconds.

    `machine`, `family`, `fingerprint`: of the machine, as its file names it.
    `cycles_per_instruction`: by busy threads of a core, first one.
    `instructions`: of one trained image, as `workloads.instruction_count` counts them.
    `contention`: (threads, seconds of one update of all weights).
    `training`: (threads, seconds that one of them takes for an image).
    `forward`, `backward`, `preparation`: on one thread.
    """

    network: str
    weights: float
    instructions: float
    clock: float
    machine: str
    family: str
    fingerprint: str
    contention: tuple[tuple[int, float], ...]
    training: tuple[tuple[int, float], ...]
    forward: float
    backward: float
    preparation: float = 0.0
    cycles_per_instruction: tuple[float, ...] = (1.0,)
    cores: int = 1
    protocol: str = ""

    def __post_init__(self) -> None:
        numbers = (self.instructions, self.clock, self.forward, *(s for _, s in (*self.contention, *self.training)))
        if not self.contention or not self.training:
            raise InputError(f"threads of {self.network!r}: want at least one contention and one training time")
        if not all(math.isfinite(value) and value > 0 for value in numbers):
            raise InputError(f"threads of {self.network!r}: want times, clock and instructions that are finite and > 0")

    @property
    def fitted_at(self) -> int:
        """Threads that the operation factor is fitted at: the count nearest a sixteenth of the most (15 of 240)."""
        counts = [threads for threads, _ in self.training]
        return min(counts, key=lambda count: abs(math.log(count / max(1.0, max(counts) / 16))))

    @property
    def operation_factor(self) -> float:
        """Cycles of a counted instruction, from the training time at `fitted_at` threads less the contention there."""
        threads = self.fitted_at
        seconds = dict(self.training)[threads] - self._contention_at(threads)
        alone = max(seconds, 0.01 * dict(self.training)[threads]) / self.cycles_at(threads)
        return alone * self.clock / self.instructions

    def cycles_at(self, threads: int) -> float:
        """Cycles per instruction of one of so many threads."""
        table = self.cycles_per_instruction
        return table[min(math.ceil(threads / self.cores), len(table)) - 1]

    def predicted(self, strategy: Strategy, threads: int) -> float:
        """Seconds of an image at a thread count, by a strategy: what `training` is compared with."""
        alone = (
            self.operation_factor * self.instructions / self.clock
            if strategy == "counted"
            else self.forward + self.backward
        )
        return alone * self.cycles_at(threads) + self._contention_at(threads)

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Calibration:
        """Strategy (b) instead of an estimator of measured times, else (a); for other networks wider."""
        timed = isinstance(instead_of.operation_formulas, MeasuredTimes)
        made = strategy(self, "timed" if timed else "counted")
        network = network_of(workload)
        return made if timed or network == self.network else carried_over(made, network)

    def _contention_at(self, threads: int) -> float:
        measured = dict(self.contention)
        if threads in measured:
            return measured[threads]
        intercept, slope = contention_line(self.contention).values
        return max(0.0, intercept + slope * threads)


def contention_line(measured: tuple[tuple[int, float], ...]) -> Fit:
    """The least-squares line through contention by thread count, in seconds (Table IV); one point: a ray from 0."""
    threads = [float(count) for count, _ in measured]
    seconds = [value for _, value in measured]
    if len(set(threads)) < 2:
        return Fit(("intercept", "slope"), (0.0, seconds[0] / threads[0]), ((np.nan,) * 2,) * 2, (0.0,), 0)
    line = Formula(symbol("intercept") + symbol("slope") * symbol("run.threads"), "s", "Viebke et al. 2019, Table IV")
    scale = max(seconds) / max(threads)
    return fit_formula(line, {"run.threads": threads}, seconds, {"intercept": 0.0, "slope": scale})


def _line_covariance(line: Fit, measured: tuple[tuple[int, float], ...]) -> tuple[tuple[float, ...], ...]:
    """Of intercept and slope; where no degree of freedom is left, as if each time were known to `UNSEEN`."""
    if line.degrees_of_freedom > 0 and np.all(np.isfinite(np.asarray(line.covariance))):
        return line.covariance
    variance = (UNSEEN * max(seconds for _, seconds in measured)) ** 2
    counts = np.array([count for count, _ in measured], dtype=np.float64)
    if len(set(counts)) < 2:
        return ((variance, 0.0), (0.0, variance / float(counts[0]) ** 2))
    design = np.stack([np.ones_like(counts), counts], axis=1)
    table = variance * np.linalg.inv(design.T @ design)
    return tuple(tuple(map(float, row)) for row in table)


def by_weights(networks: FrozenDict[float], slopes: FrozenDict[float]) -> ContentionByWeights:
    """fixed + by_weight W through the slopes of several networks on one machine, relative errors least.

    `networks`, `slopes`: weights, and seconds that each thread adds, by network.
    Raises InputError where there are fewer than two networks.
    """
    names = list(slopes)
    if len(names) < 2:
        raise InputError("contention by weights wants at least two networks measured on one machine")
    slope = np.array([slopes[name] for name in names])
    weights = np.array([networks[name] for name in names])
    (fixed, each), *_ = np.linalg.lstsq(np.stack([1 / slope, weights / slope], axis=1), np.ones(len(names)), rcond=None)
    return ContentionByWeights(max(0.0, float(fixed)), max(0.0, float(each)))


def carried_over(made: Calibration, network: str) -> Calibration:
    """The same for a network that was not measured: wider by what an operation factor differs between networks."""
    scatter = math.hypot(made.residual_std or 0.0, CARRIED_OVER)
    return replace(made, residual_std=scatter, source=f"{made.source}; operation factor carried over to {network}")


def strategy(measured: ThreadMeasurement, name: Strategy) -> Calibration:
    """A strategy for the measured network on the measured machine, with the band that its own misses leave.

    The scatter is that of the predicted training times at the other thread counts, pooled with the published one of
    the method, which counts as four of them: one or two counts cannot say how far to trust themselves.
    """
    line = contention_line(measured.contention)
    entry = Contention(max(-1.0, line.values[0]), max(0.0, line.values[1]), measured.contention)
    others = ContentionByWeights(0.0, min(1e-3, entry.slope / max(measured.weights, 1.0)))
    schedule = ThreadSchedule(FrozenDict({measured.network: entry}), others, measured_on=measured.machine)
    source = f"{measured.network} on {measured.machine}, 1 .. {max(t for t, _ in measured.contention)} threads"
    operation = (
        InstructionCount(measured.operation_factor)
        if name == "counted"
        else PassTimes(
            measured.forward,
            measured.backward,
            measured.preparation,
            measured.network,
            measured.fingerprint,
            "Viebke et al. 2019, Table VI",
        )
    )
    misses = [
        math.log(measured.predicted(name, threads) / seconds)
        for threads, seconds in measured.training
        if name == "timed" or threads != measured.fitted_at
    ]
    known = PUBLISHED_WEIGHT + len(misses)
    scatter = math.sqrt((PUBLISHED_WEIGHT * PUBLISHED**2 + float(np.sum(np.square(misses)))) / known)
    covariance = _line_covariance(line, measured.contention)
    names = tuple(f"schedule.contention.{measured.network}.{part}" for part in line.names)
    return Calibration(
        ThreadedTraining(operation, schedule, f"Viebke et al. 2019, instructions {name}"),
        names,
        covariance,
        tuple(misses),
        scatter,
        float(known),
        content_digest([measured.network, measured.fingerprint, measured.contention, measured.training]),
        source,
    )


__all__ = ["Strategy", "ThreadMeasurement", "by_weights", "contention_line", "strategy"]
