"""The calibrated time of a step: which parameters, engine factors and band hold for a question, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity, share_shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.engine_steps.engines import ServingFit, cache_for
from slipstick.estimators.engine_steps.first_token import FirstParts, FirstToken
from slipstick.estimators.engine_steps.fitted_steps import (
    groups_on,
    names_server,
    server_on,
    serving_fit,
    step_conditions,
)
from slipstick.estimators.engine_steps.kv_transfer import KvTransfer
from slipstick.estimators.engine_steps.measured_steps import TimedServerStep, cached_measured
from slipstick.estimators.engine_steps.prompt_steps import LoopSteps, first_parts, least_prompt_seconds
from slipstick.estimators.engine_steps.speculative_decoding import Speculation
from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_device import joining, widening
from slipstick.estimators.engine_steps.step_law import StepSum
from slipstick.estimators.engine_steps.step_time import StepTime
from slipstick.estimators.engine_steps.step_time_predictor import StepTimePredictor
from slipstick.estimators.fitting.fitted_model import SOURCE, UNGROUPED
from slipstick.estimators.power.power_cap import beyond_rated
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import AUTO, CACHE_BYTES, weight_type

MEMORY_SHARE, FULLER = 0.9, 0.98
"""Of a device's memory that engines take: vLLM's gpu_memory_utilization (vllm/config/cache.py, 0.9 in 0.2 to 0.19)."""
CONTEXT_BYTES = 666e6
"""Of the engine's context and its libraries, on each device; with `_work_bytes` it gives the 2,588 blocks of 16 tokens
that vLLM 0.19 found on an RTX 4090 with Llama-3.1-8B (casys-kaist/LLMServingSim, 5daddb2): one figure, one constant."""
LOGIT_COPIES = 3
APART = (
    "prompts on workers of their own: first tokens of 102 public rows took 1.6 x as long as simulated at the "
    "median (.57 of them in the 80 % band); their further tokens are met within 8 % (.93 in the band)"
)
"""Measured by `experiments.scoreboards.serving.disaggregated` (docs/notes/serving.md)."""
TYPICAL, MADE = Batch(8.0, 1024.0), 256.0
"""A batch for whose step a band is given where no traffic says more, and tokens made for each of its requests."""


@dataclass(frozen=True)
class Deployment:
    """A model on devices of a machine under an engine.

    `stored`: how weights are stored (`weight_types.WEIGHT_TYPES`).
    `cache_type`: the data type of the cache of keys and values; "auto": as the engine makes it for the checkpoint.
    `engine`: as a runtime's library says it: "vllm 0.19.0"; "" for what the machine's runtime names, else vLLM.
    `memory_share`: of each device's memory that the engine takes.
    `known`: steps that were measured on the machine.
    `pace`, `front`: seconds of every step, and those before the first one, over those that were fitted to servers.
    `guesses`: of speculative decoding; None without.
    `prefill`: workers that read prompts for these, which then only decode; None where prompts and decodes share
        devices. The replicas of both layouts are the workers.
    `source`: who measures it: None for nobody whose rows were fitted; `UNGROUPED` for those that were.
    `link_bandwidth`: Bytes/s, one direction, of a device's connection to other workers; 0 for the machine's nearest
        link that joins all devices.
    """

    model: LanguageModel
    machine: Machine
    layout: Layout
    stored: str
    cache_type: str = AUTO
    engine: str = ""
    memory_share: float = MEMORY_SHARE
    rules: Scheduler = Scheduler()
    known: tuple[TimedServerStep, ...] = ()
    pace: float = 1.0
    front: float = 1.0
    guesses: Speculation | None = None
    prefill: Deployment | None = None
    link_bandwidth: float = 0.0
    source: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.memory_share <= 1:
            raise InputError(f"run.memory_share = {self.memory_share:g}: want more than 0, at most 1")

    @property
    def devices(self) -> int:
        """Devices of all workers."""
        return self.layout.devices + (self.prefill.layout.devices if self.prefill else 0)

    @property
    def reader(self) -> Deployment:
        """What reads prompts: the prefill workers, else these devices themselves."""
        return self.prefill or self

    @cached_property
    def kv_transfer(self) -> KvTransfer:
        """How the cache of a prompt goes from the workers that read it to these.

        Raises InputError where no link joins the devices.
        """
        return KvTransfer.of(self.machine, self.devices, self.link_bandwidth, (self.reader.shares, self.shares))

    def at_pace(self, pace: float, front: float) -> Deployment:
        """The same with every step, and what comes before the first one, so many times as long."""
        prefill = replace(self.prefill, pace=pace) if self.prefill else None
        return replace(self, pace=pace, front=front, prefill=prefill)

    @property
    def kind(self) -> str:
        """ "dense" or "experts": what the calibration distinguishes."""
        return "experts" if self.model.experts else "dense"

    @cached_property
    def fitted(self) -> ServingFit:
        """What was fitted to servers, moved by the steps that were measured."""
        return cached_measured(self.known).fit if self.known else serving_fit()

    @cached_property
    def shares(self) -> Shares:
        """What a rank holds."""
        return Shares(self.model, self.layout, weight_type(self.stored), CACHE_BYTES[self.cache[0]])

    @cached_property
    def cache(self) -> tuple[str, str]:
        """The data type of cached keys and values, and why it is that one; "" where it was named or is the usual."""
        return cache_for(self.model, self.stored, self.runs_under, self.cache_type)

    @property
    def cached(self) -> str:
        """The cache in words."""
        kind, why = self.cache
        return f"cache {kind}" + (f" ({why})" if why else "")

    @property
    def runs_under(self) -> str:
        """The engine that was named, else what the machine's runtime names."""
        return self.engine or server_on(self.machine)

    @cached_property
    def groups(self) -> dict[str, str]:
        """By what the fitted numbers vary: maker, generation, chip, engine, version, model."""
        facts = self.model.name, self.model.multiplied, self.stored
        named = bool(self.engine) or names_server(self.machine)
        known = groups_on(self.machine, self.runs_under, *facts, named=named)
        return known if self.source is None else {**known, SOURCE: self.source}

    @cached_property
    def step(self) -> StepTime:
        """The calibrated time of a step."""
        return self._step(self.groups)

    @cached_property
    def reading(self) -> StepTime:
        """The step by which the law of first tokens knows prompts: its own effect of sites stands for that of sources,
        unless own steps were measured."""
        return self.step if self.known else self._step({**self.groups, SOURCE: UNGROUPED})

    def _step(self, groups: Mapping[str, str]) -> StepTime:
        fitted = StepTime.for_machine(self.machine, self.shares, self.fitted.parameters(groups))
        return fitted if self.pace == 1.0 else fitted.scaled(self.pace)

    def half_width(self, batch: Batch = TYPICAL) -> float:
        """Half of the 80 % band of the log time of a step: wider the less of machine, engine and model was measured."""
        return math.hypot(self.fitted.half_width(self.sum_of(batch), self.groups), self.model.unmeasured)

    def sum_of(self, batch: Batch) -> StepSum:
        """A step as the law reads it."""
        plain = self.shares.amounts(batch)
        return StepSum(plain, plain, self.step.device, self.step.layers, batch.decodes, stages=self.layout.pipeline)

    @cached_property
    def oracle(self) -> StepTimePredictor:
        """The time of a step by what it works on, with its band."""
        facts = {
            "model": self.model.stands_for if self.model.typed else self.model.name, "machine": self.machine.name,
            "engine": self.runs_under, "weights": self.stored,
            "cache": self.cache[0], "layout": self.layout.text(),
        }  # fmt: skip
        return StepTimePredictor(self.step, self.fitted, FrozenDict(self.groups), FrozenDict(facts))

    @cached_property
    def first_token(self) -> FirstToken:
        """What the engine takes beyond its steps before a first token, whoever measured one of one's own."""
        return serving_fit().first_token(self.groups)

    def first_factor(self, input_tokens: float, output_tokens: float, users: float, cached: float = 0.0) -> float:
        """By how much measured first tokens of one's own make others longer; 1 without any."""
        if not any(one.first for one in self.known):
            return 1.0
        parts = self.first_parts(input_tokens, output_tokens, users, cached)
        return float(self.fitted.first_token(self.groups).seconds(parts) / self.first_token.seconds(parts))

    def first_half_width(
        self, input_tokens: float = TYPICAL.context, output_tokens: float = MADE, users: float = TYPICAL.decodes
    ) -> float:
        """Half of the 80 % band of the log time to the first token."""
        return self.fitted.first_half_width(self.first_parts(input_tokens, output_tokens, users), self.groups)

    def first_parts(self, input_tokens: float, output_tokens: float, users: float, cached: float = 0.0) -> FirstParts:
        """What a first token in a closed loop is made of; `cached` tokens before a prompt are not read again."""
        users, budget = max(1.0, users / self.layout.replicas), self.rules.token_budget
        loop = LoopSteps.of(input_tokens, output_tokens, max(1.0, users / self.layout.data), budget, cached)
        return first_parts(self.reading, input_tokens, output_tokens, users, loop.seconds(self.step), budget, cached)

    def first_seconds(self, input_tokens: float, output_tokens: float, users: float, cached: float = 0.0) -> float:
        """The median time to the first token in a closed loop, as fitted; no prompt is read faster than its flop."""
        parts = self.first_parts(input_tokens, output_tokens, users, cached)
        return max(float(self.first_token.seconds(parts)), self.least_first(input_tokens))

    def least_first(self, input_tokens: float) -> float:
        """Seconds below which the data sheet lets no first token come."""
        return least_prompt_seconds(self.step, input_tokens, self.rules.token_budget)

    @cached_property
    def cache_tokens(self) -> int:
        """Tokens that the caches of one replica hold, all its groups together.

        Raises InputError where the weights alone do not fit.
        """
        device, shares = self.step.device, self.shares
        usable = self.memory_share * device.capacity
        left = usable - shares.held_bytes - CONTEXT_BYTES - self._work_bytes
        blocks = int(left // (shares.token_cache_bytes * self.rules.block)) if shares.token_cache_bytes else 10**9
        if blocks < 1:
            raise InputError(
                f"{self.model.name} ({self.stored}) does not fit {self.machine.name} with {self.layout.text()}: "
                f"{format_quantity(shares.held_bytes, 'byte')} of weights a device and "
                f"{format_quantity(CONTEXT_BYTES + self._work_bytes, 'byte')} beside them, "
                f"{format_quantity(usable, 'byte')} usable of {format_quantity(device.capacity, 'byte')}, the share of "
                f"memory that engines take (utilization {self.memory_share:g}; for another, the capacity that it "
                f"leaves: --set machine.memory.{self.machine.main_memory}.capacity="
                f"{device.capacity * FULLER / self.memory_share / 1e9:.4g}GB for {FULLER:g}); "
                "use more devices, a larger tensor degree or a smaller type of weights"
            )
        return blocks * self.rules.block * self.layout.data

    def memory_bytes(self, share: float) -> float:
        """Bytes taken of one device where a share of the cache is in use: weights, context, activations, cache."""
        cached = self.cache_tokens / self.layout.data * self.shares.token_cache_bytes
        return self.shares.held_bytes + CONTEXT_BYTES + self._work_bytes + share * cached

    @property
    def _work_bytes(self) -> float:
        """Bytes of a step's activations and scores on one rank."""
        m, tensor = self.model, self.layout.tensor
        inner = max(m.feed_forward, m.experts.per_token * m.experts.feed_forward if m.experts else 0) / tensor
        scores = LOGIT_COPIES * 4.0 * self.rules.max_num_seqs * m.vocabulary / tensor
        return self.rules.token_budget * m.matrices * inner * 2 + scores

    @property
    def scheduler(self) -> Scheduler:
        """The rules with the cache that memory leaves."""
        return replace(self.rules, cache_tokens=self.cache_tokens)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The engine with its release, how weights and the cache are stored, and what makes the band wider."""
        kind, why = self.cache
        usual = self.memory_share == MEMORY_SHARE
        named = Condition("engine", self.runs_under, "given" if self.engine else "file")
        known = self.fitted, self.sum_of(TYPICAL), self.groups
        engine, *rest = step_conditions(*known, named, self.machine, self.model.omitted)
        return (
            engine,
            Condition("dtype", self.stored, "file" if self.stored == self.model.weights else "given"),
            Condition("cache_dtype", kind, "default" if self.cache_type == AUTO else "given", why),
            Condition(
                "run.memory_share", f"{self.memory_share:g}",
                *(("default", "vLLM's gpu_memory_utilization") if usual else ("given", "bounds the cache alone")),
            ),
            *rest,
        )  # fmt: skip

    def assumptions(self) -> tuple[str, ...]:
        """What an answer takes for granted."""
        joined = joining(self.machine, self.layout.tensor) if self.layout.tensor > 1 else ""
        words = [self.layout.text() + joined, *filter(None, [self.model.stands_for])]
        if widened := widening(self.machine, self.step.shares.kind.compute):
            words.append(widened)
        if above := beyond_rated(self.machine):
            words.append(above)
        if self.known:
            others = sorted({one.step.model.name for one in self.known} - {self.model.name})
            words.append(cached_measured(self.known).text())
            words += [f"measured with {', '.join(others)}: less is known of {self.model.name}"] if others else []
        return (*words, *self._apart, self.guessed, "chunked prompts and prefix hits are not validated")

    @property
    def _apart(self) -> tuple[str, ...]:
        """How prompts are read by workers of their own, and how their cache is sent."""
        if self.prefill is None:
            return ()
        layout = self.prefill.layout
        reading = f"{_counted(layout.replicas, 'prefill worker')} of {replace(layout, replicas=1).text()}"
        decoding = _counted(self.layout.replicas, "decode worker")
        return (f"{reading} beside {decoding}", self.kv_transfer.text(), APART)

    @property
    def guessed(self) -> str:
        """What is taken for granted of speculative decoding."""
        if self.guesses is None:
            return "speculative decoding off"
        kept, made = f"{share_shown(self.guesses.acceptance)} of them kept", f"{self.guesses.kept:.3g} tokens a step"
        checked = "a published share meets gains of 42 public pairs within 13 %; no public row states its own"
        return f"{self.guesses.tokens} tokens guessed ahead, {kept}: {made} ({checked})"

    def seconds(self, factor: float = 1.0) -> Callable[[Batch], float]:
        """Seconds of a step by what it works on, `factor` times as long; with speculation those of each token made."""
        plain = self.step.scaled(factor).seconds
        return plain if self.guesses is None else self.guesses.seconds(plain)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What in measured runs of one's own contradicts itself: a line each."""
        slips = cached_measured(self.known).slips if self.known else ()
        return tuple(dict.fromkeys([*slips, *(one.doubt for one in self.known if one.doubt)]))


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
