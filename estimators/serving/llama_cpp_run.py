"""One user's model on one's own machine under llama.cpp: tokens/s of generation and of a prompt, with bands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from slipstick.common.answer import Answer, Provenance
from slipstick.common.errors import InputError
from slipstick.common.formatting import count_shown, format_quantity, shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import Condition, NotUsed, conditions_lines, depends_on
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, OperationTime, Spread, quantile
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.composition.power_capped import cap_was_set
from slipstick.estimators.engine_steps.fitted_steps import local_fit, local_groups_on
from slipstick.estimators.engine_steps.llama_cpp_fit import LocalFit, PhaseFit
from slipstick.estimators.engine_steps.llama_cpp_step import CACHE, LocalWork, PromptWork, backend_of
from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_energy import clock_of_step
from slipstick.estimators.power.power_cap import LAW, at_rated_cap, at_stated_clock, beyond_rated
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import in_gguf, is_gguf, stored_as, weight_bytes, weight_type

DEFAULT_TYPE = "q4_k_m"
FAR = 3.0
"""Half-widths of the 80 % band (3.8 standard deviations) beyond which a measured rate is said to be far off."""
PROMPT, TOKENS = "reading the prompt", "new tokens"
SOURCE = "a token's bytes and arithmetic as fitted to runs of llama.cpp (docs/notes/serving.md), one user, one device"
_Band: TypeAlias = tuple[float, float, float]
"""Value, low and high (80 %) in seconds."""


@dataclass(frozen=True)
class MeasuredRate:
    """A run on the same machine: a model, its type of weights, and measured tokens/s of generation.

    `prompt`: tokens of a prompt that was timed alone and their tokens/s; nothing where none was.
    `backend`: of llama.cpp; "" where nobody said it: the machine's.
    `unread`: what else its file holds, in words; "" for nothing.
    """

    model: LanguageModel
    stored: str
    rate: float
    prompt: tuple[int, float] | None = None
    backend: str = ""
    unread: str = ""

    def work(self, machine: Machine) -> LocalWork:
        """What a new token needs of a machine."""
        return LocalWork.of(self.model, weight_type(self.stored), machine)

    def prompt_work(self, machine: Machine) -> PromptWork | None:
        """What a token of its prompt needs of a machine; None where no prompt was timed."""
        return PromptWork.of(self.model, weight_type(self.stored), machine, self.prompt[0]) if self.prompt else None

    def moved(self, machine: Machine) -> LocalFit:
        """What was fitted to llama.cpp, as the run on a machine moves it: new tokens, and a prompt's where timed."""
        groups, prompt = local_groups_on(machine, self.stored, self.backend), self.prompt_work(machine)
        fitted = local_fit(groups["backend"])
        made = replace(fitted, generating=fitted.generating.with_known(self.work(machine), groups, 1 / self.rate))
        if self.prompt is None or prompt is None:
            return made
        return replace(made, prompting=fitted.prompting.with_known(prompt, groups, 1 / self.prompt[1]))

    def text(self) -> str:
        """The run in words."""
        read = f", a prompt of {self.prompt[0]:,} at {count_shown(self.prompt[1])}" if self.prompt else ""
        backend = f" on {self.backend}" if self.backend else ""
        beside = f"; not read: {self.unread}" if self.unread else ""
        return f"{self.model.name} {self.stored}{backend} at {self.rate:.4g} tokens/s{read}{beside}"


@dataclass(frozen=True, repr=False)
class Local(Answer):
    """A model on a machine for one user.

    `given`, `not_used`: what of the machine was set, and what of that no number of the answer reads.
    `stood`: the machine as `anchor` ran on it; None where nothing was set.
    """

    model: LanguageModel
    machine: Machine
    stored: str
    input_tokens: int = 1024
    output_tokens: int = 256
    anchor: MeasuredRate | None = None
    given: tuple[Condition, ...] = ()
    not_used: tuple[NotUsed, ...] = ()
    stood: Machine | None = None

    @property
    def provenance(self) -> Provenance:
        """ "calibrated" where a run is known."""
        return "calibrated" if self.anchor else "estimated"

    @cached_property
    def backend(self) -> str:
        """Of llama.cpp: that of the run that is known, else the machine's."""
        return (self.anchor.backend if self.anchor else "") or backend_of(self.machine.family)

    def groups(self, stored: str) -> dict[str, str]:
        """By what the fitted numbers vary."""
        return local_groups_on(self.machine, stored, self.backend)

    @cached_property
    def law(self) -> LocalFit:
        """What was fitted, moved by the one run that is known."""
        return self.anchor.moved(self.stood or self.machine) if self.anchor else local_fit(self.backend)

    @cached_property
    def work(self) -> LocalWork:
        """What a new token needs: it reads the context that it has at the mean."""
        return LocalWork.of(self.model, weight_type(self.stored), self.machine, context=self.context)

    @cached_property
    def prompt_work(self) -> PromptWork:
        """What a token of the prompt needs."""
        return PromptWork.of(self.model, weight_type(self.stored), self.machine, float(self.input_tokens))

    @property
    def context(self) -> float:
        """Tokens in the cache of a new token, at the mean over the output."""
        return self.input_tokens + self.output_tokens / 2

    @cached_property
    def _seconds(self) -> tuple[float, float]:
        return self._at(self.machine)

    def _at(self, machine: Machine) -> tuple[float, float]:
        """Seconds of a new token and of a prompt's token, each at the clock that the machine's cap leaves it."""
        fitted, kind = self.law.parameters(self.groups(self.stored)), weight_type(self.stored)

        def both(clocked: Machine) -> tuple[float, float]:
            work = LocalWork.of(self.model, kind, clocked, context=self.context)
            prompt = PromptWork.of(self.model, kind, clocked, float(self.input_tokens))
            return float(work.token_seconds(fitted)), float(fitted.prompt(prompt))

        if not cap_was_set(machine, "held") or machine_kind(machine) != "gpu":
            return both(machine)
        shares, board = Shares(self.model, Layout(), kind), at_stated_clock(at_rated_cap(machine))
        count = float(self.input_tokens)
        batches = Batch(decodes=1.0, context=self.context), Batch(prompt=count, chunk=count, finished=1.0)
        taken = zip(both(board), (1.0, count), strict=True)
        held = (
            machine.using({"clock": clock_of_step(shares.amounts(batch), seconds * many, machine, kind.compute)})
            for batch, (seconds, many) in zip(batches, taken, strict=True)
        )
        token, prompt = map(both, held)
        return token[0], prompt[1]

    @cached_property
    def floor(self) -> float:
        """The least seconds of a new token: the weights and the cache of its context once over the bandwidth."""
        return self.work.least

    @cached_property
    def prompt_floor(self) -> float:
        """The least seconds of a prompt's token: its flop at the peak."""
        return float(self.prompt_work.products)

    @property
    def token_seconds(self) -> float:
        """Seconds of a new token at the mean context of the output."""
        return self._seconds[0]

    @property
    def prompt_seconds(self) -> float:
        """Seconds of one token of a prompt."""
        return self._seconds[1]

    @property
    def half_width(self) -> float:
        """Half of the 80 % band of log time of a new token: wider the less of the machine was measured."""
        return self._widened[0]

    @cached_property
    def _widened(self) -> tuple[float, tuple[Condition, ...]]:
        return self.law.generating.widened(self.work, self.groups(self.stored), self.model.omitted)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What was set of the machine, and what makes the band of a new token wider; with a run of one's own it is
        about that."""
        return (*self.given, *self._widened[1])

    @property
    def depends(self) -> dict[str, Sequence[Mapping[str, object]]]:
        """Conditions, and what was given and not used."""
        return depends_on(self.conditions, self.not_used)

    @property
    def prompt_half_width(self) -> float:
        """The same of a prompt's token."""
        return math.hypot(
            self.law.prompting.half_width(self.prompt_work, self.groups(self.stored)), self.model.unmeasured
        )

    @property
    def weights_bytes(self) -> float:
        """Bytes of the file."""
        return weight_bytes(self.model, weight_type(self.stored))

    @property
    def cache_bytes(self) -> float:
        """Bytes of the cache at its fullest."""
        return self.model.cache_bytes() * (self.input_tokens + self.output_tokens)

    def check(self) -> None:
        """Check that weights and cache fit the machine's memory.

        Raises InputError where they do not.
        """
        capacity = self.machine.memory[self.machine.main_memory].capacity
        needed = self.weights_bytes + self.cache_bytes
        if capacity is not None and needed > capacity:
            raise InputError(
                f"{self.model.name} ({self.stored}) needs {format_quantity(needed, 'byte')} with its cache, "
                f"{self.machine.name} has {format_quantity(float(capacity), 'byte')}: use a smaller type of weights"
            )

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Tokens/s of generation and of a prompt, times with their 80 % bands, memory."""
        token, prompt = (
            self._band(self.token_seconds, self.half_width, self.floor),
            self._band(self.prompt_seconds, self.prompt_half_width, self.prompt_floor),
        )
        first = _sum(_scaled(prompt, self.input_tokens), token)
        whole = _sum(first, _scaled(token, self.output_tokens - 1))
        return (
            Quantity("output", *_rates(token), "more", "tokens/s of generation, at the mean context"),
            Quantity("prompt", *_rates(prompt), "more", "tokens/s of a prompt"),
            _time("ttft", first, "to the first token", **{PROMPT: first[0] - token[0], TOKENS: token[0]}),
            _time("tpot", token, "of a further token", **{TOKENS: token[0]}),
            _time("latency", whole, "of a request"),
            Quantity(
                "memory", self.weights_bytes + self.cache_bytes, "byte", meaning="weights, and the cache at its fullest"
            ),
        )

    def _band(self, seconds: float, half_width: float, floor: float) -> _Band:
        """Value and ends; no end is faster than the bandwidth or the peak allows."""
        width = math.exp(half_width)
        return seconds, max(seconds / width, min(floor, seconds)), seconds * width

    def row(self) -> dict[str, Any]:
        """The figures, rates with their 80 % bands."""
        known = {one.name: one for one in self.quantities}
        rate, prompt = known["output"], known["prompt"]
        return {
            "model": self.model.name,
            "machine": self.machine.name,
            "weights": self.stored,
            "backend": self.backend,
            "output_tokens_per_s": rate.value,
            "low_tokens_per_s": rate.low,
            "high_tokens_per_s": rate.high,
            "prompt_tokens_per_s": prompt.value,
            "prompt_low_tokens_per_s": prompt.low,
            "prompt_high_tokens_per_s": prompt.high,
            "ttft_s": known["ttft"].value,
            "latency_s": known["latency"].value,
            "weight_bytes": self.weights_bytes,
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row: `row`."""
        return [self.row()]

    @property
    def heads(self) -> tuple[str, ...]:
        """Tokens/s, the times of a request, memory."""
        row = self.row()
        held, cached = (format_quantity(one, "byte") for one in (self.weights_bytes, self.cache_bytes))
        return (
            f"{self.model.name} on {self.machine.name}: {count_shown(row['output_tokens_per_s'])} tokens/s "
            f"(80 %: {count_shown(row['low_tokens_per_s'])} .. {count_shown(row['high_tokens_per_s'])})",
            f"prompt: {count_shown(row['prompt_tokens_per_s'])} tokens/s "
            f"(80 %: {count_shown(row['prompt_low_tokens_per_s'])} .. {count_shown(row['prompt_high_tokens_per_s'])}); "
            f"for a prompt of {self.input_tokens:,} the first token comes after {shown(row['ttft_s'], 's')}, "
            f"the last of {self.output_tokens:,} after {shown(row['latency_s'], 's')}",
            f"memory: fits, {held} of weights, {cached} of cache; at most "
            f"{count_shown(1 / self.floor)} tokens/s by bandwidth alone",
            *(one.text() for one in self.not_used),
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Program, backend, how weights are stored, and the run that is known."""
        anchored = ""
        if self.anchor:
            anchored = f"; anchored to {self.anchor.text()}{self._far}"
        held = beyond_rated(self.machine)
        if not held and self._seconds > self._at(at_rated_cap(self.machine)):
            held = f"the power cap of {self.machine.power.cap:g} W holds the clock ({LAW})"
        known = f"llama.cpp on {self.backend}, one sequence, weights {self.stored}{anchored}"
        return (known, *filter(None, [held, self.model.stands_for]))

    @property
    def _far(self) -> str:
        """In words, where the run that is known lies far outside the band of what was expected of it."""
        if self.anchor is None:
            return ""
        anchor, groups, plain = self.anchor, self.groups(self.anchor.stored), local_fit(self.backend)
        at = self.stood or self.machine
        prompt, new, far = anchor.prompt_work(at), anchor.work(at), ""
        timed: list[tuple[PhaseFit, LocalWork | PromptWork, float, str]] = [(plain.generating, new, anchor.rate, "")]
        if anchor.prompt is not None and prompt is not None:
            timed.append((plain.prompting, prompt, anchor.prompt[1], " of the prompt"))
        for phase, work, rate, of in timed:
            expected = 1 / phase.seconds(work, groups)
            if abs(math.log(rate / expected)) > FAR * phase.half_width(work, groups):
                far += f" (beware: {count_shown(expected)}{of} were expected; "
                far += "so far from it, the run is taken only in part)"
        return far

    @property
    def notes(self) -> tuple[str, ...]:
        """What was taken for granted."""
        return (*conditions_lines(self.conditions), "assuming: " + "; ".join(self.assumptions))

    def estimate(self) -> Estimate:
        """The same as an answer of an estimator: the time is that of a request, the answer begins with tokens/s."""
        known = {one.name: one for one in self.quantities}
        whole = known.pop("latency")
        prompt = self.prompt_seconds * self.input_tokens
        tokens = self.token_seconds * self.output_tokens
        low, high = whole.low or whole.value, whole.high or whole.value
        return Estimate(
            whole.value,
            parts=(OperationTime(PROMPT, PROMPT, prompt), OperationTime(TOKENS, TOKENS, tokens)),
            rule="a prompt's tokens, then one token after the other",
            spread=Spread(residual=math.log(high / low) / 2 / quantile(DEFAULT_LEVEL, None)),
            assumptions=(*self.assumptions, CACHE, SOURCE),
            others=tuple(known.values()),
            name="latency",
            head="output",
            band=(low, high),
            conditions=self.conditions,
        )


def _rates(seconds: _Band) -> tuple[float, str, float, float]:
    value, low, high = seconds
    return 1 / value, "tokens/s", 1 / high, 1 / low


def _time(name: str, seconds: _Band, meaning: str, **parts: float) -> Quantity:
    value, low, high = seconds
    return Quantity(name, value, "s", low, high, "less", f"mean {meaning}", FrozenDict(parts))


def _scaled(seconds: _Band, times: float) -> _Band:
    value, low, high = seconds
    return value * times, low * times, high * times


def _sum(first: _Band, second: _Band) -> _Band:
    """Errors of both taken as one: both slow, or both fast."""
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def as_stored(model: LanguageModel, dtype: str | None) -> str:
    """How llama.cpp stores the weights: as the model's own file where that is a GGUF, else in the usual type.

    Raises InputError where nothing stores weights in the type.
    """
    if model.weights == "mxfp4" and dtype in ("fp16", "f16", "bf16"):  # an "F16" file keeps the experts as they are
        return model.weights
    published = dtype is None and is_gguf(in_gguf(model.weights))
    return in_gguf(model.weights if published else stored_as(model, dtype or DEFAULT_TYPE))
