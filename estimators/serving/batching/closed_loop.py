"""The steady state of a closed loop in closed form: users that each send a request when theirs is done.

Two phases are known. In lock-step all users' requests start together and, equal in length, end together: one step
reads the prompts, then all decode. Staggered, requests of unequal lengths lose each other's phase: every step decodes
for nearly all users and reads those prompts (Poisson distributed) whose predecessors ended with the step before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.batching.replica import Seconds
from slipstick.estimators.serving.batching.scheduler import Scheduler

Phase = Literal["lock-step", "staggered"]
_TAIL = 1e-4


@dataclass(frozen=True)
class Load:
    """A closed loop of `users` with requests of so many tokens, on average; all replicas together."""

    input_tokens: float
    output_tokens: float
    users: int

    def __post_init__(self) -> None:
        if not (self.input_tokens >= 1 and self.output_tokens >= 1 and self.users >= 1):
            raise InputError(
                f"load of {self.users} users, {self.input_tokens:g} + {self.output_tokens:g} tokens: want at least 1"
            )


@dataclass(frozen=True)
class Steady:
    """Means of the steady state: seconds to the first token and of each further one, tokens/s of all devices."""

    phase: Phase
    ttft: float
    tpot: float
    output_rate: float
    decodes: float
    placed: float
    queued: float


def steady(
    seconds: Seconds, rules: Scheduler, load: Load, replicas: int = 1, groups: int = 1, phase: Phase = "staggered"
) -> Steady:
    """The steady state of one phase.

    Where the cache or the scheduler's places hold fewer requests than there are users, the others queue: the time to
    the first token includes that wait.
    Raises InputError where not one request fits the cache, or a lock-step's prompts do not fit one step.
    """
    users = load.users / replicas
    longest = load.input_tokens + load.output_tokens
    room = rules.cache_tokens / (load.input_tokens + load.output_tokens / 2)
    if rules.cache_tokens < longest:
        raise InputError(f"a request of {longest:,.0f} tokens does not fit the cache of {rules.cache_tokens:,} tokens")
    rules = rules.of_ranks(groups)
    placed = min(users, float(rules.max_num_seqs), max(1.0, room))
    if phase == "lock-step":
        cycle, first, tpot = _lock_step(seconds, rules, load, placed, groups)
        decodes = placed
    else:
        cycle, first, tpot, decodes = _staggered(seconds, rules, load, placed, groups)
    rate = placed / cycle
    queued = users - placed
    ttft = first + queued / rate
    return Steady(
        phase, ttft, tpot, rate * load.output_tokens * replicas, decodes, placed * replicas, queued * replicas
    )


def _lock_step(
    seconds: Seconds, rules: Scheduler, load: Load, placed: float, groups: int
) -> tuple[float, float, float]:
    prompts = placed * load.input_tokens
    if prompts > rules.token_budget:
        raise InputError(
            f"lock-step: {prompts:,.0f} tokens of prompts start together, a step reads {rules.token_budget:,}: "
            "they end one after the other (phase staggered)"
        )
    each = placed / groups
    first = seconds(Batch(prompt=prompts / groups, chunk=load.input_tokens, finished=each))
    further = load.output_tokens - 1
    if further <= 0:
        return first, first, 0.0
    low = seconds(Batch(each, load.input_tokens + 1))
    high = seconds(Batch(each, load.input_tokens + further))
    tpot = (low + high) / 2
    return first + further * tpot, first, tpot


def _staggered(
    seconds: Seconds, rules: Scheduler, load: Load, placed: float, groups: int
) -> tuple[float, float, float, float]:
    """Cycle, first token, further token, decoding sequences.

    A request spends `reads` steps on its prompt and one on each further token; in each of them it meets what the
    others, at a random place of theirs, decode and read.
    """
    further, others = load.output_tokens - 1, placed - 1
    context = load.input_tokens + load.output_tokens / 2
    mixed = rules.chunked_prefill
    room = max(1.0, rules.token_budget - (others if mixed else 0))
    chunk = min(load.input_tokens, max(1.0, room / groups))  # a prompt is read by one rank
    reads = load.input_tokens / chunk
    steps, most = reads + further, max(1.0, room / chunk)
    step = _LoopStep(seconds, context, chunk, (load.input_tokens - chunk) / 2, reads, groups)
    chunks, decodes = others * reads / steps, others * further / steps
    if mixed:
        # Prompts are read as fast as the budget allows; beyond that, decodes wait for more steps that read them.
        behind = max(1.0, chunks / most)
        first = step.with_chunks(decodes, min(chunks, most), most, here=1) * reads * behind
        tpot = step.with_chunks(decodes + 1, min(chunks, most), most, here=0) * behind
    else:
        alone = step.at(0.0, 1.0)
        tpot = step.at(decodes + 1, 0.0) + others / max(further, 1.0) * reads * alone
        first = alone * reads + step.at(decodes, 0.0) / 2 if decodes else alone * reads
    cycle = first + further * tpot
    return cycle, first, tpot, placed * further * tpot / cycle


@dataclass(frozen=True)
class _LoopStep:
    seconds: Seconds
    context: float
    chunk: float
    past: float
    reads: float
    groups: int

    def at(self, decodes: float, chunks: float) -> float:
        """Seconds of a step of so many decodes and chunks of prompts."""
        g = self.groups
        if not chunks:
            return self.seconds(Batch(decodes / g, self.context))
        scored = chunks / self.reads / g
        return self.seconds(Batch(decodes / g, self.context, chunks * self.chunk / g, self.past, self.chunk, scored))

    def with_chunks(self, decodes: float, mean: float, most: float, here: int) -> float:
        """Mean seconds of a step with `here` chunks and Poisson many others."""
        total = weight = 0.0
        chance, count = math.exp(-mean), 0
        while weight < 1 - _TAIL and count < 10_000:
            total += chance * self.at(decodes, min(count + here, max(most, here)))
            weight += chance
            count += 1
            chance *= mean / count
        return total / weight
