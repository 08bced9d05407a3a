"""Whole steps that a user measured on his machine: what they say of all its other steps, and which to measure first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity, ratio_shown
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.ratio_band import DISAGREES
from slipstick.estimators.engine_steps.engines import ServingFit, cache_for
from slipstick.estimators.engine_steps.first_token import (
    FIRST_LEVELS,
    FIRST_TOKEN_LAW,
    SITE,
    FirstParts,
    first_columns,
    first_groups,
)
from slipstick.estimators.engine_steps.fitted_steps import groups_on, serving_fit
from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.engine_steps.step_law import STEP_LAW, StepSum, columns_of
from slipstick.estimators.engine_steps.step_time import LayerCounts, demands
from slipstick.estimators.fitting.fitted_model import LawFit, LawRows
from slipstick.estimators.fitting.updated_model import Known, LawKnown, open_to, with_known
from slipstick.estimators.fitting.user_rows import chosen, lone_rows, slips_of_repeats
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.runtime import Runtime
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import AUTO, CACHE_BYTES, weight_type

CONFIGURATION = ("factor", "model")
"""What takes the error that all steps of one model on one machine under one engine share."""
DECODES, CONTEXTS = (1, 4, 16, 64, 256), (256, 1024, 4096, 16384)
PROMPTS = (128, 512, 2048, 8192)
USABLE = 0.9
"""Of a device's memory."""


@dataclass(frozen=True)
class ServerStep:
    """One step of a server: a model as it is stored, in a layout, on a machine under an engine, and its batch.

    `cache_type`: of keys and values; "auto": as the engine makes it for the checkpoint.
    """

    model: LanguageModel
    stored: str
    machine: Machine
    engine: str
    batch: Batch
    layout: Layout = Layout()
    cache_type: str = AUTO

    @property
    def shares(self) -> Shares:
        """What a rank holds."""
        cache, _ = cache_for(self.model, self.stored, self.engine, self.cache_type)
        return Shares(self.model, self.layout, weight_type(self.stored), CACHE_BYTES[cache])

    def row(self) -> StepSum:
        """What the law reads of it.

        Raises InputError where the machine lacks a rate or a link that is needed.
        """
        shares = self.shares
        device = Device.of(self.machine, shares.kind.compute, self.layout)
        amounts = shares.amounts(self.batch)
        return StepSum(amounts, amounts, device, LayerCounts.of(shares, device), self.batch.decodes)

    def groups(self) -> dict[str, str]:
        """By what the fitted numbers vary."""
        return groups_on(self.machine, self.engine, self.model.name, self.model.multiplied, self.stored)

    def fits(self) -> bool:
        """Whether weights and cache fit a device."""
        capacity = self.machine.memory[self.machine.main_memory].capacity
        shares = self.shares
        tokens = self.batch.decodes * self.batch.context + self.batch.prompt
        return capacity is None or shares.held_bytes + tokens * shares.token_cache_bytes <= USABLE * float(capacity)


@dataclass(frozen=True)
class TimedFirstToken:
    """A time to the first token, and what it is made of.

    `left`: log of measured over simulated median and mean, once the laws were moved: what phases of a run hold.
    """

    parts: FirstParts
    seconds: float
    left: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class TimedServerStep:
    """A step and its seconds.

    `first`: the first token of the run whose mean step this is, where it was measured.
    `load`: of that run: logs of users (of requests/s where these come as a stream), and of tokens read and made by a
        request; nothing where a single step was timed.
    `doubt`: what of its file cannot hold together, in words.
    `where`: file, line and field of its time, and the time as it was given.
    """

    step: ServerStep
    seconds: float
    first: TimedFirstToken | None = None
    load: tuple[float, ...] = ()
    doubt: str = ""
    where: str = ""


def engine_of_steps(steps: Sequence[TimedServerStep]) -> str:
    """The engine that all steps ran under; "" where they differ or there are none."""
    engines = {one.step.engine for one in steps}
    return engines.pop() if len(engines) == 1 else ""


def left_by_runs(
    known: Sequence[TimedServerStep], here: ServerStep, load: Sequence[float]
) -> tuple[float, float, float, float]:
    """What measured runs leave of the median and the mean first token under a load (logs), and how near they lie.

    `here`: a step of the question; runs of another model, layout, engine or machine say nothing of its phases. The
        engine is the step's, whether or not the machine's runtime names it.
    `load`: see `TimedServerStep`. Nearness is 1 at the load of a run and 0 far from all of them: of those whose first
        token was measured, and of all.
    """

    def served(one: ServerStep) -> tuple[object, ...]:
        return one.model, one.layout, one.stored, one.engine, one.machine.unchecked(runtime=Runtime()).fingerprint

    runs = [one for one in known if len(one.load) == len(load) and served(one.step) == served(here)]
    if not runs:
        return 0.0, 0.0, 0.0, 0.0
    apart = np.array([np.sum(np.subtract(run.load, load) ** 2) for run in runs])
    weights = np.exp(-apart / (2 * NEAR_LOAD**2))
    firsts = weights * [run.first is not None for run in runs]
    left = np.array([run.first.left if run.first else (0.0, 0.0) for run in runs])
    median, mean = firsts @ left / max(1.0, float(firsts.sum()))
    return float(median), float(mean), float(firsts.max()), float(weights.max())


NEAR_LOAD = math.log(4.0)
"""Logs of users or lengths over which phases of one run stop holding for another. Set by hand; no refit chose it."""
FIRST_REPEATS, STEP_REPEATS = 0.1, 0.04
"""Standard deviations of the logs of a first and of a further token between two runs of one load. Set by hand; no refit
chose them."""


@dataclass(frozen=True, eq=False)
class MeasuredServing:
    """The fitted laws with a user's steps.

    `factors`: by how much each measured step took longer than the law alone said.
    `left`: the same of the law that they moved.
    `half`: half of the law's 80 % band of log time at these steps, after they moved it: what lies outside is said.
    `firsts`: by how much each measured first token took longer than the law of first tokens said.
    `steps`: those that count.
    `slips`: steps far off all others, in words.
    """

    fit: ServingFit
    known: Known
    factors: tuple[float, ...]
    left: tuple[float, ...]
    half: float
    steps: tuple[TimedServerStep, ...]
    firsts: tuple[float, ...] = ()
    slips: tuple[str, ...] = ()

    @property
    def disagreement(self) -> str:
        """That the steps lie outside the band of the law even after they moved it; "" where they do not."""
        rest, typical = (float(np.exp(np.median(np.log(values)))) for values in (self.left, self.factors))
        if abs(np.log(rest)) <= self.half:
            return ""
        return (
            f"what was measured is x{ratio_shown(typical)} of the model's answer, further than the law can follow: "
            f"still x{ratio_shown(rest)} of this answer; was it the mean time of a further token, at this load and "
            "these settings?"
        )

    def text(self) -> str:
        """What the steps changed, in a line."""
        words = self.known.text(self.factors, self.left, self.half)
        if not self.firsts:
            return words
        first = ratio_shown(float(np.exp(np.median(np.log(self.firsts)))))
        return f"{words}; first tokens x{first} of what others say: used"


def with_measured(steps: Sequence[TimedServerStep], fit: ServingFit | None = None) -> MeasuredServing:
    """The fitted law of a step after some were measured.

    `fit`: what ships where None.
    Raises InputError where a step is faster than the data sheet allows, or an engine is not known.
    """
    plain = fit or serving_fit()
    repeats = slips_of_repeats([(one.step, one.load) for one in steps], np.log([one.seconds for one in steps]))
    slips = [f"{DISAGREES}{steps[at].where}) is {words}" for at, words in repeats.items()]
    steps = [one for at, one in enumerate(steps) if at not in repeats]
    rows = _rows([one.step for one in steps], [one.seconds for one in steps])
    for one in steps:
        least = least_step(one.step)
        if one.seconds < least * (1 - 1e-3):
            raise InputError(
                f"a measured step of {format_quantity(one.seconds, 's')}: {one.step.model.name} on "
                f"{one.step.machine.name} needs at least {format_quantity(least, 's')} by its data sheet"
            )
    factors = rows.seconds / plain.steps.seconds(STEP_LAW, rows.columns, rows.groups)
    half = float(np.median(plain.steps.half_width(STEP_LAW, rows.columns, rows.groups)))
    lone, kept = lone_rows(np.log(factors), half / quantile(DEFAULT_LEVEL, None), sorted_rows=False)
    slips += [f"{DISAGREES}{steps[at].where}) is {words}" for at, words in lone.items()]
    steps, factors = [steps[at] for at in kept], factors[kept]
    rows = rows.take(np.array(kept))
    known = with_known(_opened(plain, rows), STEP_LAW, rows, CONFIGURATION)
    measured = {level: set(groups) for level, groups in rows.groups.items()}
    alone = {
        level: {group: model for group, model in named.items() if group not in measured.get(level, ())}
        for level, named in plain.alone.items()
    }
    left = rows.seconds / known.fit.seconds(STEP_LAW, rows.columns, rows.groups)
    half = float(np.median(known.fit.half_width(STEP_LAW, rows.columns, rows.groups)))
    moved = replace(plain, steps=known.fit, first=_first_known(plain.first, steps), alone=alone)
    firsts = tuple(
        one.first.seconds / plain.first_token(one.step.groups()).seconds(one.first.parts) for one in steps if one.first
    )
    return MeasuredServing(
        moved, known, tuple(factors.tolist()), tuple(left.tolist()), half, tuple(steps), firsts, tuple(slips)
    )


def _first_known(fitted: LawFit, steps: Sequence[TimedServerStep]) -> LawFit:
    """The law of first tokens after some were measured, at the site that every question is of: the user's own."""
    timed = [(one.step.groups(), one.first) for one in steps if one.first is not None]
    if not timed:
        return fitted
    rows = LawRows(
        first_columns([first.parts for _, first in timed]),
        {name: [value for groups, _ in timed for value in first_groups(groups)[name]] for name in FIRST_LEVELS},
        [groups["model"] for groups, _ in timed],
        np.array([first.seconds for _, first in timed]),
        ["measured"] * len(timed),
    )
    return with_known(fitted, FIRST_TOKEN_LAW, rows, ("factor", SITE)).fit


@dataclass(frozen=True)
class NextStep:
    """A step worth measuring.

    `seconds`: predicted before it is measured.
    `spread`: standard deviation of its log time as it is known now.
    `left`: mean standard deviation of the log times of all wanted steps once this one and those before it are measured.
    """

    step: ServerStep
    seconds: float
    spread: float
    left: float


def next_steps(
    offered: Sequence[ServerStep], count: int, wanted: Sequence[ServerStep] | None = None, fit: ServingFit | None = None
) -> list[NextStep]:
    """The steps to measure, the most informative first (A-optimal by the posterior of the law).

    `wanted`: whose times are to be known; those offered where None.
    """
    law = STEP_LAW
    every = [*offered, *(wanted or ())]
    rows = _rows(every, [1.0] * len(every))
    model = LawKnown.of(open_to(_opened(fit or serving_fit(), rows), law, rows, CONFIGURATION), law, rows)
    logs, slope = model.linear(np.zeros(model.size))
    here = len(offered)
    return [
        NextStep(offered[one.place], float(np.exp(logs[one.place])), one.spread, one.left)
        for one in chosen(slope[:here], model.noise[:here], count, slope[here:] if wanted else None)
    ]


def usual_steps(
    model: LanguageModel, stored: str, machine: Machine, engine: str, layout: Layout, purpose: str
) -> list[ServerStep]:
    """Batches between which a server's steps lie and that fit the machine.

    `purpose`: "decode", "prompt", or "mixed" for both.
    Raises InputError where none fits.
    """
    batches = [Batch(float(n), float(context)) for n in DECODES for context in CONTEXTS if purpose != "prompt"]
    batches += [Batch(prompt=float(n), chunk=float(n), finished=1.0) for n in PROMPTS if purpose != "decode"]
    steps = [ServerStep(model, stored, machine, engine, batch, layout) for batch in batches]
    fitting = [step for step in steps if step.fits()]
    if not fitting:
        raise InputError(f"{model.name} ({stored}) does not fit {machine.name} with {layout.text()}")
    return fitting


def _opened(fit: ServingFit, rows: LawRows) -> LawFit:
    """Steps with the effects of makers and chips that ran one other model alone as uncertain as if none had run."""
    covariance = fit.steps.covariance.copy()
    for level, named in fit.alone.items():
        others = {g for g, m in zip(rows.groups[level], rows.groups["model"], strict=True) if named.get(g, m) != m}
        for at, one in enumerate(fit.steps.coordinates):
            if one.level == level and one.group in others:
                covariance[at, at] += fit.steps.widths[one.parameter, level] ** 2
    return replace(fit.steps, covariance=covariance)


def _rows(steps: Sequence[ServerStep], seconds: Sequence[float]) -> LawRows:
    groups = [step.groups() for step in steps]
    names = [f"{step.model.name} {step.engine} {step.machine.name} {step.stored}" for step in steps]
    return LawRows(
        columns_of([step.row() for step in steps]),
        {name: [one[name] for one in groups] for name in groups[0]},
        names,
        np.array(seconds, dtype=float),
        ["measured"] * len(steps),
    )


def least_step(step: ServerStep) -> float:
    """Seconds that the bytes or the flop of a step take at the rates of the data sheet, the longer of them.

    Raises InputError as `ServerStep.row`.
    """
    row = step.row()
    return float(max(demands(row.plain, row.device)))


@lru_cache(maxsize=16)
def cached_measured(steps: tuple[TimedServerStep, ...]) -> MeasuredServing:
    """`with_measured` of what ships: the same steps are often looked at again."""
    return with_measured(steps)
