"""Which layout trains a language model fastest on at most so many devices, what bounds it, and why others are worse."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

from slipstick.common.errors import InputError
from slipstick.estimators.training.layout_memory import fit_of, fullest, stages
from slipstick.estimators.training.training_step_answer import TrainedBatch, TrainingStepAnswer
from slipstick.experiments.methods.training_plan.training_choice import TrainingPlan
from slipstick.workloads.language.training_layout import TrainingLayout

STAGES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64)
CHUNKS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
CONTEXTS, MICROS = (1, 2, 4, 8, 16), (1, 2, 4, 8)
LEAST_TOKENS = 2048
"""Tokens of a sequence on one context rank at least: published runs keep 4096, and the terms say nothing of fewer."""
MOST_LAYOUTS = 250_000
"""Layouts that are estimated: ten seconds."""
KEPT = 64
"""Layouts whose parts are kept for the answer."""


@dataclass(frozen=True)
class TrainingSearch:
    """Every layout of what is trained.

    `devices`: at most so many.
    """

    trained: TrainedBatch
    devices: int

    def run(self, best: int = 8) -> TrainingPlan:
        """Every layout.

        Raises InputError where none fits in memory, or the machine cannot do it at all.
        """
        if self.devices < 1:
            raise InputError(f"devices = {self.devices}: want at least 1")
        plan = self._searched(best, None)
        if (clock := self.trained.clock(plan.best[0].layout)) is not None:
            plan = self._searched(best, clock)
        held = plan.best[0].held
        return replace(plan, outside=(held, *plan.outside)) if held else plan

    def _searched(self, best: int, clock: float | None) -> TrainingPlan:
        """The plan among layouts in their order at a clock [Hz]; None: the machine's."""
        made = self.trained
        step = made.step(self.devices, clock)
        domain = step.network.domain
        kept: dict[str, list[tuple[float, int, TrainingLayout]]] = {"fits": [], "may not fit": []}
        counts = dict.fromkeys(("fits", "may not fit", "does not fit"), 0)
        least = math.inf
        refused = 0
        layouts = list(islice(self.layouts(domain), MOST_LAYOUTS + 1))
        if len(layouts) > MOST_LAYOUTS:
            raise InputError(
                f"devices = {self.devices:,}, batch = {made.batch:,}: more than {MOST_LAYOUTS:,} ways to divide; want "
                "fewer devices, or a batch with fewer divisors (a power of 2)"
            )
        for layout in layouts:
            try:
                by_stage = stages(made.model, layout, made.batch, made.sequence, made.trainer)
            except InputError:
                refused += 1
                continue
            least = min(least, fullest(by_stage).low)
            fit_in = fit_of(by_stage, made.capacity)
            counts[fit_in] += 1
            if fit_in in kept:
                plans = kept[fit_in]
                heapq.heappush(plans, (-step.step(layout, made.batch).seconds, -counts[fit_in], layout))
                if len(plans) > KEPT:
                    heapq.heappop(plans)
        sure, doubtful = (self._fastest(kept[name], best) for name in kept)
        if not (sure or doubtful):
            reason = "no layout divides" if math.isinf(least) else f"the smallest needs {least / 1e9:.4g} GB a device"
            raise InputError(
                f"{made.model.name} on at most {self.devices} x {made.machine.name}, batch {made.batch}: {reason}, of "
                f"{made.capacity / 1e9:.4g} GB; want more devices, or another batch"
            )
        tight = doubtful[0] if sure and doubtful and doubtful[0].seconds < sure[0].seconds else None
        top = sure or doubtful
        bound = made.step(self.devices).bound(self.devices, made.batch)
        return TrainingPlan(
            made.model.name, made.machine.name, self.devices, made.batch, made.sequence, made.precision,
            made.flop, made.peak, max(bound, made.loading), step.network.devices, top, made.capacity,
            counts["fits"], counts["may not fit"], counts["does not fit"], refused,
            made.fit, self._grown(), tight, made.outside(top[0].layout.devices),
        )  # fmt: skip

    def _fastest(self, plans: list[tuple[float, int, TrainingLayout]], best: int) -> tuple[TrainingStepAnswer, ...]:
        """The fastest of the kept layouts, fastest first, each as the estimator has it."""
        ordered = [layout for _, _, layout in sorted(plans, key=lambda plan: (-plan[0], -plan[1]))]
        return tuple(sorted(map(self.trained.under, ordered[:best]), key=lambda one: one.seconds))

    def _grown(self) -> TrainingStepAnswer | None:
        """The largest measured layout with more data ranks; None where batch or devices do not divide so."""
        made, fit = self.trained, self.trained.fit
        if fit is None:
            return None
        largest = max(fit.known, key=lambda known: known.layout.devices).layout
        ranks = largest.devices // largest.data
        layout = replace(largest, data=max(1, self.devices // ranks))
        try:
            layout.check(made.model, made.batch, made.sequence)
            return self.trained.under(layout)
        except InputError:
            return None

    def layouts(self, domain: int) -> Iterator[TrainingLayout]:
        """Layouts of at most so many devices; tensor ranks stay within the nearest link."""
        made = self.trained
        experts = made.model.experts.count if made.model.experts else 1
        sizes = {micro: divisors(made.batch // micro) for micro in MICROS if not made.batch % micro}
        tensors = [t for t in (1, 2, 4, 8, 16, 32) if t <= domain and not made.model.heads % t]
        alone = made.software == "fsdp"
        stages, contexts = ((1,), (1,)) if alone else (STAGES, CONTEXTS)
        for tensor, pipeline, context, micro in product([1] if alone else tensors, stages, contexts, MICROS):
            room = self.devices // (tensor * pipeline * context)
            if not room or pipeline > made.model.layers or micro not in sizes:
                continue
            if context > 1 and made.sequence // context < LEAST_TOKENS:
                continue
            if made.sequence % (tensor * context * (2 if context > 1 else 1)):
                continue
            for data in sizes[micro]:
                if data > room:
                    continue
                rounds = made.batch // (micro * data)
                chunks = [
                    c
                    for c in CHUNKS
                    if c == 1 or (pipeline > 1 and not rounds % pipeline and divides(made.model.layers, pipeline, c))
                ]
                ranks = [e for e in divisors(experts) if not (tensor * context * data) % e]
                shards = (3,) if alone else (1, 3) if pipeline == 1 else (1,)
                for chunk, expert, shard in product(chunks, ranks, shards):
                    for recompute in ("selective", "full"):
                        yield TrainingLayout(
                            tensor, pipeline, data, context, expert, chunk, micro, shard, recompute
                        )  # fmt: skip


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
