"""Which layout trains a language model fastest on at most so many devices, what bounds it, and why others are worse."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.schedule.pipelines.training_known import KnownStep, StepCalibration, calibrated
from slipstick.estimators.schedule.pipelines.training_step import (
    FSDP_TERMS,
    MEGATRON_TERMS,
    PARTS,
    PRECISIONS,
    StepTime,
    TrainingStep,
    TrainingTerms,
)
from slipstick.experiments.subjects.training_plan.training_energy import step_watts
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import TrainingLayout, training_flop
from slipstick.workloads.language.training_memory import TrainingMemory, stage_memory

if TYPE_CHECKING:
    import pandas as pd

SPREAD = 0.25
"""Log spread of the error on models that the fit had not seen (`slipstick validate training`)."""
FULL = 0.95
"""Share of a device's memory that a plan fills at most; the rest is the runtime's."""
STAGES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64)
CHUNKS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
CONTEXTS, MICROS = (1, 2, 4, 8, 16), (1, 2, 4, 8)
LEAST_TOKENS = 2048
"""Tokens of a sequence on one context rank at least: published runs keep 4096, and the terms say nothing of fewer."""
SOFTWARE = {"megatron": MEGATRON_TERMS, "fsdp": FSDP_TERMS}
"""Terms by the software that trains: Megatron's layouts, or weights sharded over data ranks alone (eager FSDP)."""
KEPT = 64
"""Layouts whose parts are kept for the answer."""


@dataclass(frozen=True)
class TrainingChoice:
    """A layout, its step time by part, and the memory of its fullest device [bytes].

    `watts` are the mean power of a device and the factor of its 80 % band; None where it is unknown.
    """

    layout: TrainingLayout
    time: StepTime
    memory: TrainingMemory
    spread: float = SPREAD
    watts: tuple[float, float] | None = None

    @property
    def width(self) -> float:
        """Factor of the 80 % band of the step."""
        return math.exp(quantile(DEFAULT_LEVEL, None) * self.spread)

    def _power(self, rate: float, cap: float | None) -> dict[str, float | None]:
        """Watts of all devices with their band, joules of a token."""
        if self.watts is None:
            return dict.fromkeys(("power_W", "low_power_W", "high_power_W", "energy_J_per_token"))
        each, width = self.watts
        number = self.layout.devices
        return {
            "power_W": each * number,
            "low_power_W": each / width * number,
            "high_power_W": min(each * width, cap or math.inf) * number,
            "energy_J_per_token": each * number / rate,
        }

    def row(self, plan: TrainingPlan) -> dict[str, Any]:
        """As a row of a table, with the 80 % band of the step."""
        seconds, width = self.time.seconds, self.width
        tokens = plan.batch * plan.sequence
        return {
            "layout": self.layout.text(),
            "devices": self.layout.devices,
            "step_s": seconds,
            "low_s": seconds / width,
            "high_s": seconds * width,
            "tokens_per_s": tokens / seconds,
            "mfu": plan.flop * tokens / (seconds * self.layout.devices * plan.peak),
            "memory_gb": self.memory.total / 1e9,
            **self._power(tokens / seconds, plan.cap),
            "cost_usd_per_million_tokens": (
                plan.price * self.layout.devices / 3600 / (tokens / seconds) * 1e6 if plan.price is not None else None
            ),
            "largest_part": self.time.bound,
            **{f"{name}_s": self.time.parts[name] for name in PARTS},
        }


@dataclass(frozen=True)
class TrainingPlan:
    """The best layouts, fastest first.

    Parameters
    ----------
    flop
        Model flop of a token.
    peak
        Flop/s of a device in the precision of the layers' products, by which MFU counts.
    bound
        Seconds below which no layout of these devices comes.
    joined
        Devices that the machine's links join by its file; beyond them the last link's rate is assumed to hold.
    fitted, short, refused
        Layouts answered; those that do not fit in memory; those that do not divide.
    calibration
        Factors fitted to measured steps of one's own; None without them.
    cap, price
        Watts that a device may draw, and what its hour costs [$]; None where the machine does not state them.
    grown
        The measured layout of most devices with more data ranks, so that it fills the devices; None where it cannot.
    """

    model: str
    machine: str
    devices: int
    batch: int
    sequence: int
    precision: str
    flop: float
    peak: float
    bound: float
    joined: int
    best: tuple[TrainingChoice, ...]
    fitted: int
    short: int
    refused: int
    calibration: StepCalibration | None = None
    grown: TrainingChoice | None = None
    cap: float | None = None
    price: float | None = None

    def rows(self) -> list[dict[str, Any]]:
        """The best layouts."""
        return [choice.row(self) for choice in self.best]

    def _repr_html_(self) -> str:
        from html import escape

        row = self.rows()[0]
        head = f"{row['layout']}: {row['step_s']:.4g} s a step ({row['low_s']:.4g} .. {row['high_s']:.4g}, 80 %)"
        return f"<p><b>{escape(self.model)} on {escape(self.machine)}</b>: {escape(head)}</p>" + str(
            self.to_frame().to_html(index=False)
        )

    def to_frame(self) -> pd.DataFrame:
        """The same as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows())


@dataclass(frozen=True)
class TrainingSearch:
    """What to search.

    Parameters
    ----------
    devices
        At most so many.
    batch, sequence
        Sequences of a step, tokens of one.
    precision
        bf16, fp8, mxfp8 or nvfp4.
    software
        megatron, or fsdp: weights sharded over data ranks alone.
    known
        Measured steps of the same model on the same machine, which calibrate the terms.
    """

    model: LanguageModel
    machine: Machine
    devices: int
    batch: int
    sequence: int
    precision: str = "bf16"
    software: str = "megatron"
    known: tuple[KnownStep, ...] = ()

    def run(self, best: int = 8) -> TrainingPlan:
        """Every layout.

        Raises
        ------
        InputError
            Where none fits in memory, or the machine cannot do it at all.
        """
        if self.software not in SOFTWARE:
            raise unknown_name("training software", self.software, list(SOFTWARE))
        if self.devices < 1 or self.batch < 1:
            raise InputError(f"devices = {self.devices}, batch = {self.batch}: want at least 1 of each")
        start = self._start
        fit = calibrated(self.model, self.machine, self.known, start) if self.known else None
        terms = fit.terms if fit else start
        step = TrainingStep(self.model, self.machine, self.sequence, self.precision, self.devices, terms)
        domain = step.network.domain
        capacity = self.machine.memory[self.machine.main_memory].capacity * FULL
        plans: list[tuple[float, int, TrainingLayout]] = []
        least = math.inf
        fitted = short = refused = 0
        for layout in self.layouts(domain):
            try:
                need = self.fullest(layout).total
            except InputError:
                refused += 1
                continue
            least = min(least, need)
            if need > capacity:
                short += 1
                continue
            fitted += 1
            heapq.heappush(plans, (-step.step(layout, self.batch).seconds, fitted, layout))
            if len(plans) > KEPT:
                heapq.heappop(plans)
        if not plans:
            reason = "no layout divides" if math.isinf(least) else f"the smallest needs {least / 1e9:.4g} GB a device"
            raise InputError(
                f"{self.model.name} on at most {self.devices} x {self.machine.name}, batch {self.batch}: {reason}, of "
                f"{capacity / 1e9:.4g} GB that a plan may fill; want more devices, or another batch"
            )
        ordered = [entry[2] for entry in sorted(plans, key=lambda entry: (-entry[0], entry[1]))]
        chosen = tuple(sorted((self._choice(step, layout, fit) for layout in ordered[:best]), key=_seconds))
        return TrainingPlan(
            self.model.name, self.machine.name, self.devices, self.batch, self.sequence, self.precision,
            training_flop(self.model, self.sequence), self.machine.peak("matrix", PRECISIONS[self.precision]),
            step.bound(self.devices, self.batch), step.network.devices, chosen, fitted, short, refused, fit,
            self._grown(step, fit), self.machine.power.cap,
            self.machine.price,
        )  # fmt: skip

    def _grown(self, step: TrainingStep, fit: StepCalibration | None) -> TrainingChoice | None:
        """The largest measured layout with more data ranks; None where batch or devices do not divide so."""
        if fit is None:
            return None
        largest = max(fit.known, key=lambda known: known.layout.devices).layout
        ranks = largest.devices // largest.data
        layout = replace(largest, data=max(1, self.devices // ranks))
        try:
            layout.check(self.model, self.batch, self.sequence)
            return self._choice(step, layout, fit)
        except InputError:
            return None

    @property
    def _start(self) -> TrainingTerms:
        return SOFTWARE[self.software]

    def _choice(self, step: TrainingStep, layout: TrainingLayout, fit: StepCalibration | None) -> TrainingChoice:
        time, memory = step.step(layout, self.batch), self.fullest(layout)
        spread = SPREAD
        if fit is not None:
            time = time.scaled(fit.offset(layout, self.batch, self.sequence))
            spread = fit.spread(layout, self.batch, self.sequence, self.precision)
        flop = training_flop(self.model, self.sequence) * self.sequence * self.batch / layout.devices
        return TrainingChoice(layout, time, memory, spread, step_watts(self.machine, time, flop, self.precision))

    def fullest(self, layout: TrainingLayout) -> TrainingMemory:
        """Memory of the first, second or last stage, whichever is fullest; those between hold less than the second."""
        ends = {0, min(1, layout.pipeline - 1), layout.pipeline - 1}
        each = (stage_memory(self.model, layout, self.batch, self.sequence, stage) for stage in sorted(ends))
        return max(each, key=lambda memory: memory.total)

    def layouts(self, domain: int) -> Iterator[TrainingLayout]:
        """Layouts of at most so many devices; tensor ranks stay within the nearest link."""
        experts = self.model.experts.count if self.model.experts else 1
        tensors = [t for t in (1, 2, 4, 8, 16, 32) if t <= domain and not self.model.heads % t]
        alone = self.software == "fsdp"
        stages, contexts = ((1,), (1,)) if alone else (STAGES, CONTEXTS)
        for tensor, pipeline, context, micro in product([1] if alone else tensors, stages, contexts, MICROS):
            room = self.devices // (tensor * pipeline * context)
            if not room or pipeline > self.model.layers or self.batch % micro:
                continue
            if context > 1 and self.sequence // context < LEAST_TOKENS:
                continue
            if self.sequence % (tensor * context * (2 if context > 1 else 1)):
                continue
            for data in divisors(self.batch // micro):
                if data > room:
                    continue
                rounds = self.batch // (micro * data)
                chunks = [
                    c
                    for c in CHUNKS
                    if c == 1 or (pipeline > 1 and not rounds % pipeline and divides(self.model.layers, pipeline, c))
                ]
                ranks = [e for e in divisors(experts) if not (tensor * context * data) % e]
                shards = (3,) if alone else (1, 3) if pipeline == 1 else (1,)
                for chunk, expert, shard in product(chunks, ranks, shards):
                    for recompute in ("selective", "full"):
                        yield TrainingLayout(
                            tensor, pipeline, data, context, expert, chunk, micro, shard, recompute
                        )  # fmt: skip


def _seconds(choice: TrainingChoice) -> float:
    return choice.time.seconds


def divides(layers: int, stages: int, chunks: int) -> bool:
    """Whether so many chunks hold the layers (see `TrainingLayout.stage_layers`)."""
    try:
        TrainingLayout(pipeline=stages, chunks=chunks).stage_layers(layers)
    except InputError:
        return False
    return stages * chunks <= layers


def divisors(number: int) -> list[int]:
    """Of a number, least first."""
    small = [n for n in range(1, math.isqrt(number) + 1) if not number % n]
    return sorted({*small, *(number // n for n in small)})
