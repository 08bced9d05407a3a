"""Which layout trains a language model fastest on at most so many devices, what bounds it, and why others are worse."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.operation.power.power_cap import LAW, at_rated_cap, cap_watts
from slipstick.estimators.schedule.pipelines.training_known import KnownStep, StepCalibration, calibrated
from slipstick.estimators.schedule.pipelines.training_law import columns_of
from slipstick.estimators.schedule.pipelines.training_parts import TrainingTerms
from slipstick.estimators.schedule.pipelines.training_step import PRECISIONS, TrainingStep
from slipstick.experiments.subjects.training_plan.fitting import fit_of, fullest, stages
from slipstick.experiments.subjects.training_plan.training_choice import TrainingChoice, TrainingPlan
from slipstick.experiments.subjects.training_plan.training_domain import SOFTWARE, groups_at, outside, training_fit
from slipstick.experiments.subjects.training_plan.training_energy import clock_left, step_watts
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.files.shown import shown
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import TrainingLayout, training_flop

STAGES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64)
CHUNKS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
CONTEXTS, MICROS = (1, 2, 4, 8, 16), (1, 2, 4, 8)
LEAST_TOKENS = 2048
"""Tokens of a sequence on one context rank at least: published runs keep 4096, and the terms say nothing of fewer."""
MOST_LAYOUTS, MOST_BATCH = 250_000, 10**12
"""Layouts that are estimated: ten seconds."""
KEPT = 64
"""Layouts whose parts are kept for the answer."""


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
    input_rate
        Sequences that storage and hosts hand to the whole job in a second; None: as many as it takes. Loading overlaps
        with the step, so that a step takes batch / rate at least.
    terms
        Instead of those that were fitted.
    """

    model: LanguageModel
    machine: Machine
    devices: int
    batch: int
    sequence: int
    precision: str = "bf16"
    software: str = "megatron"
    known: tuple[KnownStep, ...] = ()
    input_rate: float | None = None
    terms: TrainingTerms | None = None

    def run(self, best: int = 8) -> TrainingPlan:
        """Every layout.

        Raises
        ------
        InputError
            Where none fits in memory, or the machine cannot do it at all.
        """
        if self.software not in SOFTWARE:
            raise unknown_name("training software", self.software, list(SOFTWARE))
        if self.devices < 1 or not 1 <= self.batch <= MOST_BATCH:
            counts = f"devices = {self.devices}, batch = {self.batch}"
            raise InputError(f"{counts}: want at least 1 of each, and a batch of at most {MOST_BATCH:,}")
        if self.input_rate is not None and not 0 < self.input_rate < math.inf:
            raise InputError(f"input rate = {self.input_rate:g} samples/s: want a finite number > 0")
        fit = calibrated(self.model, at_rated_cap(self.machine), self.known, self._start) if self.known else None
        plan = self._searched(best, fit)
        left = self._clock_left(plan)
        if left >= 1.0:
            return plan
        clock = left * self.machine.clock
        held = replace(self, machine=self.machine.using({"clock": clock}))._searched(best, fit)
        left_of = " of ".join(shown(value, "Hz") for value in (clock, self.machine.clock))
        note = f"the power cap of {self.machine.power.cap:g} W holds the clock at about {left_of} ({LAW})"
        return replace(held, peak=plan.peak, bound=plan.bound, remarks=(note, *held.remarks))

    def _clock_left(self, plan: TrainingPlan) -> float:
        """The clock over the machine's own under a cap that was set, by the power of the best layout."""
        best, rated = plan.best[0], self.machine.stated.power.cap
        if rated is None or self.machine.power.cap in (None, rated):
            return 1.0
        board = at_rated_cap(self.machine)
        flop = self._flop_of_a_device(best.layout)
        free = step_watts(board, best.time, flop, self.precision)
        return clock_left(self.machine, best.time, free[0]) if free else 1.0

    def _flop_of_a_device(self, layout: TrainingLayout) -> float:
        return training_flop(self.model, self.sequence) * self.sequence * self.batch / layout.devices

    def _searched(self, best: int, fit: StepCalibration | None) -> TrainingPlan:
        """The plan at the machine's clock."""
        terms = fit.terms if fit else self._start
        step = TrainingStep(self.model, self.machine, self.sequence, self.precision, self.devices, terms)
        domain = step.network.domain
        capacity = self.machine.memory[self.machine.main_memory].capacity
        kept: dict[str, list[tuple[float, int, TrainingLayout]]] = {"fits": [], "may not fit": []}
        counts = dict.fromkeys(("fits", "may not fit", "does not fit"), 0)
        least = math.inf
        refused = 0
        layouts = list(islice(self.layouts(domain), MOST_LAYOUTS + 1))
        if len(layouts) > MOST_LAYOUTS:
            raise InputError(
                f"devices = {self.devices:,}, batch = {self.batch:,}: more than {MOST_LAYOUTS:,} ways to divide; want "
                "fewer devices, or a batch with fewer divisors (a power of 2)"
            )
        for layout in layouts:
            try:
                by_stage = stages(self.model, layout, self.batch, self.sequence)
            except InputError:
                refused += 1
                continue
            least = min(least, fullest(by_stage).low)
            fit_in = fit_of(by_stage, capacity)
            counts[fit_in] += 1
            if fit_in in kept:
                plans = kept[fit_in]
                heapq.heappush(plans, (-step.step(layout, self.batch).seconds, -counts[fit_in], layout))
                if len(plans) > KEPT:
                    heapq.heappop(plans)
        sure, doubtful = (self._fastest(step, fit, kept[name], best) for name in kept)
        if not (sure or doubtful):
            reason = "no layout divides" if math.isinf(least) else f"the smallest needs {least / 1e9:.4g} GB a device"
            raise InputError(
                f"{self.model.name} on at most {self.devices} x {self.machine.name}, batch {self.batch}: {reason}, of "
                f"{capacity / 1e9:.4g} GB; want more devices, or another batch"
            )
        tight = doubtful[0] if sure and doubtful and _seconds(doubtful[0]) < _seconds(sure[0]) else None
        return TrainingPlan(
            self.model.name, self.machine.name, self.devices, self.batch, self.sequence, self.precision,
            training_flop(self.model, self.sequence), self.machine.peak("matrix", PRECISIONS[self.precision]),
            max(step.bound(self.devices, self.batch), self._loading), step.network.devices, sure or doubtful, capacity,
            counts["fits"], counts["may not fit"], counts["does not fit"], refused,
            fit, self._grown(step, fit), tight,
            () if fit else self._outside(sure or doubtful),
            None if self.machine.power.cap is None else cap_watts(self.machine), self.machine.price,
        )  # fmt: skip

    def _fastest(
        self,
        step: TrainingStep,
        fit: StepCalibration | None,
        plans: list[tuple[float, int, TrainingLayout]],
        best: int,
    ) -> tuple[TrainingChoice, ...]:
        """The fastest of the kept layouts, fastest first."""
        ordered = [layout for _, _, layout in sorted(plans, key=lambda plan: (-plan[0], -plan[1]))]
        return tuple(sorted((self._choice(step, layout, fit) for layout in ordered[:best]), key=_seconds))

    def _outside(self, best: tuple[TrainingChoice, ...]) -> tuple[str, ...]:
        """Where the fastest layout leaves the fitted runs."""
        devices = best[0].layout.devices
        return outside(self.model, self.machine, devices, self.sequence, self.precision, self.software)

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

    @cached_property
    def _groups(self) -> dict[str, str]:
        return groups_at(self.model, self.machine, self.precision, self.software)

    @cached_property
    def _start(self) -> TrainingTerms:
        return self.terms or training_fit().terms(self._groups)

    @property
    def _loading(self) -> float:
        """Seconds in which a step's input is loaded; 0 where it is no limit."""
        return self.batch / self.input_rate if self.input_rate is not None else 0.0

    def _choice(self, step: TrainingStep, layout: TrainingLayout, fit: StepCalibration | None) -> TrainingChoice:
        time = step.step(layout, self.batch)
        by_stage = stages(self.model, layout, self.batch, self.sequence)
        if fit is not None:
            time = time.scaled(fit.offset(layout, self.batch, self.sequence))
            half = quantile(DEFAULT_LEVEL, None) * fit.spread(layout, self.batch, self.sequence, self.precision)
        else:
            columns = columns_of([step.amounts(layout, self.batch)])
            half = float(training_fit().half_width(columns, [self._groups])[0])
        time = time.fed(self._loading)
        watts = step_watts(self.machine, time, self._flop_of_a_device(layout), self.precision)
        return TrainingChoice(layout, time, by_stage, half, watts, self._loading)

    def layouts(self, domain: int) -> Iterator[TrainingLayout]:
        """Layouts of at most so many devices; tensor ranks stay within the nearest link."""
        experts = self.model.experts.count if self.model.experts else 1
        sizes = {micro: divisors(self.batch // micro) for micro in MICROS if not self.batch % micro}
        tensors = [t for t in (1, 2, 4, 8, 16, 32) if t <= domain and not self.model.heads % t]
        alone = self.software == "fsdp"
        stages, contexts = ((1,), (1,)) if alone else (STAGES, CONTEXTS)
        for tensor, pipeline, context, micro in product([1] if alone else tensors, stages, contexts, MICROS):
            room = self.devices // (tensor * pipeline * context)
            if not room or pipeline > self.model.layers or micro not in sizes:
                continue
            if context > 1 and self.sequence // context < LEAST_TOKENS:
                continue
            if self.sequence % (tensor * context * (2 if context > 1 else 1)):
                continue
            for data in sizes[micro]:
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
