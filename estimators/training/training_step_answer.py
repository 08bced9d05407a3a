"""A training step of a language model under one layout: seconds by part, memory, power, and each with its band.

What a training step draws: the factors of metered GPUs on the step's flop and bytes.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.formatting import shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import Condition, omitted_conditions, widening
from slipstick.estimators.fitting.fitted_model import Columns
from slipstick.estimators.power.energy import MATRIX_ENERGY, pooled_power
from slipstick.estimators.power.power_cap import (
    LAW,
    BusyPower,
    at_rated_cap,
    beyond_rated,
    cap_watts,
    rated_watts,
    refuse_idle_cap,
    slower_watts,
)
from slipstick.estimators.power.voltage import knee
from slipstick.estimators.training.layout_memory import fullest, stages
from slipstick.estimators.training.layout_step_time import PRECISIONS, TrainingStep, TrainingStepTime
from slipstick.estimators.training.own_steps import StepCalibration, UpdatedStep, calibrated
from slipstick.estimators.training.time_breakdown import TrainingTerms
from slipstick.estimators.training.training_domain import (
    MACHINE,
    SOFTWARE,
    foreign,
    groups_at,
    named_software,
    outside,
    training_fit,
    unseen_machine,
)
from slipstick.estimators.training.training_law import UNNAMED, columns_of
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.memory_band import StageMemory
from slipstick.workloads.language.training_layout import TrainingLayout, training_flop


def step_watts(machine: Machine, time: TrainingStepTime, flop: float, precision: str) -> tuple[float, float] | None:
    """Mean power of a device in a step [W], and the factor of its 80 % band; None where no factors were fitted.

    Training was metered on older GPUs alone and servers on newer ones: the factors are pooled over both. A cap that was
    set is not passed.

    `flop`: of the model in one step on one device.
    `precision`: of the layers' products: bf16, fp8, mxfp8 or nvfp4.
    """
    model, half = pooled_power(machine, "training")
    if half is None:
        return None
    energy = MATRIX_ENERGY.get(PRECISIONS[precision], MATRIX_ENERGY["float8"])
    moved = time.parts["elementwise"] * machine.bandwidth(machine.main_memory)
    try:
        watts = model.watts(
            at_rated_cap(machine), np.array([time.seconds]), np.array([flop * energy]), np.array([moved])
        )
        return min(float(watts[0]), cap_watts(machine)), math.exp(half)
    except InputError:
        return None


def lower_watts(machine: Machine, time: TrainingStepTime, watts: float, clock: float, seconds: float) -> float:
    """Mean power of a device [W] at a clock below the machine's: never more than at it.

    `time`, `watts`: a step at the machine's clock, and its mean power [W].
    `clock`, `seconds`: the lower one [Hz], and the step there.
    """
    rated, idle = rated_watts(machine)
    read, stretch = time.parts["elementwise"] / time.seconds, seconds / time.seconds
    return float(slower_watts(watts, idle, rated, read, clock / machine.clock, knee(machine) / machine.clock, stretch))


def clock_left(machine: Machine, time: TrainingStepTime, watts: float) -> float:
    """The clock that a cap leaves over the machine's own, at most 1.

    `machine`: with the cap that was set; its clock is that of the step.
    `time`, `watts`: a step under the board's rated cap, and its mean power [W].
    Raises InputError where the cap is not above idle power.
    """
    refuse_idle_cap(machine, cap_watts(machine), {})
    rated, idle = rated_watts(machine)
    read = time.parts["elementwise"] / time.seconds
    power = BusyPower.of(watts, min(idle, watts), rated, read)
    return float(power.clock(cap_watts(machine), knee(machine) / machine.clock))


MOST_BATCH = 10**12
TRAINER, OF_TRAINER, OF_MACHINE = "trainer", ("software", "release"), ("vendor", "chip", "software", "release")
"""The condition of what trains; levels of the law by which it and a machine that nobody measured widen the band."""
INPUT = "input"
"""The part of a step that waits for its input."""


@dataclass(frozen=True)
class TrainedBatch:
    """What is trained where, whatever the layout.

    Parameters
    ----------
    batch, sequence
        Sequences of a step, tokens of one.
    precision
        Of the layers' products: bf16, fp8, mxfp8 or nvfp4.
    software
        megatron, fsdp (weights sharded over data ranks alone) or another of `SOFTWARE`, with a release if need be
        ("megatron 26.02"); "" where nobody says: the mean of those that were measured, with what they differ by in the
        band.
    known
        Measured steps of the same model on the same machine, which calibrate the terms.
    input_rate
        Sequences that storage and hosts hand to the whole job in a second; None: as many as it takes. Loading overlaps
        with the step, so that a step takes batch / rate at least.
    terms
        Instead of those that were fitted, and that measured steps moved.

    Raises
    ------
    InputError
        Where the software is unknown, or a number is out of its range.
    """

    model: LanguageModel
    machine: Machine
    batch: int
    sequence: int
    precision: str = "bf16"
    software: str = UNNAMED
    known: tuple[UpdatedStep, ...] = ()
    input_rate: float | None = None
    terms: TrainingTerms | None = None

    def __post_init__(self) -> None:
        named_software(self.software)
        if not 1 <= self.batch <= MOST_BATCH:
            raise InputError(f"batch = {self.batch}: want at least 1, and at most {MOST_BATCH:,}")
        if self.input_rate is not None and not 0 < self.input_rate < math.inf:
            raise InputError(f"input rate = {self.input_rate:g} samples/s: want a finite number > 0")

    @cached_property
    def groups(self) -> dict[str, str]:
        """Of the fitted law that hold here."""
        return groups_at(self.model, self.machine, self.precision, self._taken)

    @property
    def _taken(self) -> str:
        """The software that was named; measured steps of one's own move that of most rows, where none was."""
        return self.software or (SOFTWARE[0] if self.known else UNNAMED)

    @cached_property
    def trainer(self) -> str:
        """The software that was named, without its release."""
        return named_software(self.software)[0]

    @cached_property
    def fitted(self) -> TrainingTerms:
        """Terms of the fitted law, as measured steps move it."""
        return self.fit.fit.terms(self.groups) if self.fit else _fitted_terms(tuple(sorted(self.groups.items())))

    @cached_property
    def fit(self) -> StepCalibration | None:
        """What measured steps move; None without them."""
        return _calibrated(self.model, at_rated_cap(self.machine), self.known, self._taken) if self.known else None

    @property
    def loading(self) -> float:
        """Seconds in which a step's input is loaded; 0 where it is no limit."""
        return self.batch / self.input_rate if self.input_rate is not None else 0.0

    @cached_property
    def flop(self) -> float:
        """Model flop of a token."""
        return training_flop(self.model, self.sequence)

    @property
    def peak(self) -> float:
        """Flop/s of a device in the precision of the layers' products as its vendor states it, by which MFU counts."""
        return self.machine.stated_peak("matrix", PRECISIONS[self.precision])

    @property
    def capacity(self) -> float:
        """Bytes of a device's main memory."""
        return self.machine.memory[self.machine.main_memory].capacity

    @property
    def cap(self) -> float | None:
        """Watts that a device may draw; None where the machine does not state them."""
        return None if self.machine.power.cap is None else cap_watts(self.machine)

    def step(self, devices: int, clock: float | None = None) -> TrainingStep:
        """The closed form of a step on at most so many devices, at the machine's clock or another [Hz].

        Raises
        ------
        InputError
            Where the machine cannot compute in the precision.
        """
        at = self.machine if clock is None else self.machine.using({"clock": clock})
        return TrainingStep(self.model, at, self.sequence, self.precision, devices, self.terms or self.fitted)

    def under(self, layout: TrainingLayout) -> TrainingStepAnswer:
        """The step under a layout; where a cap was set below what it draws, at the clock that the cap leaves.

        Raises
        ------
        InputError
            Where model, batch or sequence do not divide so, or the machine's links do not join the devices.
        """
        left = self._clock_left(layout)
        return self._at(layout, None if left >= 1.0 else left * self.machine.clock)

    def clock(self, layout: TrainingLayout) -> float | None:
        """The clock [Hz] that a cap leaves a layout; None where it leaves the machine's."""
        left = self._clock_left(layout)
        return None if left >= 1.0 else left * self.machine.clock

    def outside(self, devices: int) -> tuple[str, ...]:
        """Where the question leaves the fitted runs; none where measured steps calibrate it."""
        if self.fit:
            return ()
        return outside(self.model, self.machine, devices, self.sequence, self.precision, self.software)

    def _clock_left(self, layout: TrainingLayout) -> float:
        """The clock over the machine's own up to which a cap that was set lets it go; what is drawn is known at the
        stated clock."""
        rated = self.machine.stated.power.cap
        if rated is None or self.machine.power.cap in (None, rated):
            return 1.0
        full = self.machine.using({"clock": max(self.machine.clock, self.machine.stated.clock)})
        time = self.step(layout.devices, full.clock).step(layout, self.batch).with_loading(self.loading)
        watts = step_watts(at_rated_cap(full), time, self._flop_of_a_device(layout), self.precision)
        return clock_left(full, time, watts[0]) * full.clock / self.machine.clock if watts else 1.0

    def _flop_of_a_device(self, layout: TrainingLayout) -> float:
        return self.flop * self.sequence * self.batch / layout.devices

    def _at(self, layout: TrainingLayout, clock: float | None) -> TrainingStepAnswer:
        step = self.step(layout.devices, clock)
        time = step.step(layout, self.batch)
        columns = columns_of([step.amounts(layout, self.batch)])
        half, by_software = self.half(columns)
        time = time.with_loading(self.loading)
        watts = step_watts(step.machine, time, self._flop_of_a_device(layout), self.precision)
        if watts is not None and clock is None and self.machine.clock < self.machine.stated.clock:
            watts = min(watts[0], self._slower(step, layout, time)), watts[1]
        by_stage = stages(self.model, layout, self.batch, self.sequence, self.trainer)
        differing = FrozenDict(by_software)
        return TrainingStepAnswer(self, layout, time, by_stage, half, watts, clock, step.network.devices, differing)

    def half(self, columns: Columns, gone: Collection[Condition] = ()) -> tuple[float, dict[str, float]]:
        """Half of the 80 % band of the log time of a step, and its seconds by software where none was named.

        `gone`: conditions that add nothing.
        """
        law, names = self.fit.fit if self.fit else training_fit(), {one.name for one in gone}
        levels = {*(OF_TRAINER if TRAINER in names else ()), *(OF_MACHINE if MACHINE in names else ())}
        omitted = omitted_conditions(self.model.omitted)
        if self.groups["software"] == UNNAMED:
            half, by_software = law.unnamed(columns, self.groups, levels)
        else:
            half, by_software = float(law.half_width(columns, [self.groups], levels)[0]), {}
        return math.hypot(half, *(math.log(off) for one, off in omitted.items() if one not in gone)), by_software

    def _slower(self, step: TrainingStep, layout: TrainingLayout, time: TrainingStepTime) -> float:
        """Watts of a device at a clock below the stated one, by what the step draws at that."""
        at = at_rated_cap(self.machine).using({"clock": self.machine.stated.clock})
        full = replace(step, machine=at).step(layout, self.batch).with_loading(self.loading)
        watts = step_watts(at, full, self._flop_of_a_device(layout), self.precision)
        return math.inf if watts is None else lower_watts(at, full, watts[0], step.machine.clock, time.seconds)


@dataclass(frozen=True)
class TrainingStepAnswer:
    """A step under a layout.

    Parameters
    ----------
    stages
        Memory of the first, second and last stage.
    half
        Half of the 80 % band of the log time.
    watts
        Mean power of a device and the factor of its 80 % band; None where it is unknown.
    clock
        In Hz, where a power cap holds it below the machine's; else None.
    joined
        Devices that the machine's links join by its file; beyond them the last link's rate is assumed to hold.
    by_software
        Seconds under each software that was measured, where none was named.
    """

    of: TrainedBatch
    layout: TrainingLayout
    time: TrainingStepTime
    stages: tuple[StageMemory, ...]
    half: float
    watts: tuple[float, float] | None
    clock: float | None
    joined: int
    by_software: FrozenDict[float] = FrozenDict()

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """What trains, where no run was of the machine, and what of the model is not counted."""
        made, step = self.of, self.of.step(self.layout.devices, self.clock)
        columns = columns_of([step.amounts(self.layout, made.batch)])
        elsewhere = [] if made.fit else unseen_machine(made.machine, made.software)
        candidates = [*self._trainer, *elsewhere, *omitted_conditions(made.model.omitted)]
        return widening(candidates, lambda gone: made.half(columns, gone)[0])

    @property
    def _trainer(self) -> tuple[Condition, ...]:
        """What trains, with its release; where nobody says, between which of those measured the step lies."""
        made = self.of
        if made.software:
            name, _ = named_software(made.software)
            strange = foreign(made.machine, name) and "not measured on machines of this maker: as what was"
            note = strange or training_fit().release_note(made.groups)
            return (Condition(TRAINER, made.software, "given", note),)
        if made.known:
            return (Condition(TRAINER, SOFTWARE[0], "default", "moved by measured steps"),)
        ends = sorted(self.by_software, key=lambda name: self.by_software[name])
        if len(ends) < 2:
            return (Condition(TRAINER, "not named", "unknown", "none was measured on machines of this maker"),)
        texts = [f"{shown(self.by_software[name], 's')} under {name}" for name in (ends[0], ends[-1])]
        return (Condition(TRAINER, "not named", "unknown", f"{' .. '.join(texts)}; --trainer decides"),)

    @property
    def seconds(self) -> float:
        """Of the step."""
        return self.time.seconds

    @property
    def memory(self) -> StageMemory:
        """Of the fullest stage."""
        return fullest(self.stages)

    @property
    def band(self) -> tuple[float, float]:
        """Ends of the 80 % band of the step [s]; loading is known, and no step is below it."""
        width, loading = math.exp(self.half), self.of.loading
        busy = self.seconds - self.time.parts[INPUT]
        return min(max(busy / width, loading), self.seconds), max(busy * width, loading, self.seconds)

    @property
    def tokens(self) -> float:
        """Tokens a second of all devices."""
        return self.of.batch * self.of.sequence / self.seconds

    @property
    def mfu(self) -> float:
        """Model flop over what the devices' peak makes in the time of a step."""
        return self.of.flop * self.of.batch * self.of.sequence / (self.seconds * self.layout.devices * self.of.peak)

    @property
    def power(self) -> tuple[float, float, float] | None:
        """Watts of all devices and the ends of their 80 % band, none above the cap; None where it is unknown."""
        if self.watts is None:
            return None
        (each, width), number = self.watts, self.layout.devices
        return each * number, each / width * number, min(each * width, self.of.cap or math.inf) * number

    @property
    def held(self) -> str:
        """That a power cap that was set holds the clock, or is above the rated one; "" where none was set."""
        if self.clock is None:
            return beyond_rated(self.of.machine)
        at = self.of.machine
        left_of = " of ".join(shown(value, "Hz") for value in (self.clock, at.clock))
        return f"the power cap of {at.power.cap:g} W holds the clock at about {left_of} ({LAW})"


def known_text(calibration: StepCalibration) -> str:
    """What measured steps changed, in words."""
    sizes = sorted({step.layout.devices for step in calibration.known})
    return f"calibrated at {', '.join(map(str, sizes))} devices: {calibration.text()}"


@lru_cache(maxsize=64)
def _fitted_terms(groups: tuple[tuple[str, str], ...]) -> TrainingTerms:
    return training_fit().terms(dict(groups))


@lru_cache(maxsize=8)
def _calibrated(
    model: LanguageModel, machine: Machine, known: tuple[UpdatedStep, ...], software: str
) -> StepCalibration:
    groups = [groups_at(model, machine, step.precision, software) for step in known]
    return calibrated(model, machine, known, training_fit(), groups)
