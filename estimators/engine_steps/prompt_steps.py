"""How long prompts take to read when nothing decodes beside them, and what a closed loop's mean step is the sum of."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.estimators.engine_steps.first_token import FirstParts
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.engine_steps.step_time import StepTime


def prompt_seconds(step: StepTime, input_tokens: float, budget: int, cached: float = 0.0) -> float:
    """Seconds of one prompt among so many that every step is full; one longer than the budget is read in chunks.

    `cached`: tokens before it that are in the cache already.
    """
    count = max(1.0, budget // min(input_tokens, float(budget)))
    full, reads = _chunks(input_tokens, budget, cached, count)
    return step.seconds(full) * reads / count


def _chunks(input_tokens: float, budget: int, cached: float, count: float) -> tuple[Batch, float]:
    """A step that reads a chunk of each of so many prompts, in the middle of them, and how many chunks a prompt has."""
    chunk = min(input_tokens, float(budget))
    reads, past = input_tokens / chunk, cached + (input_tokens - chunk) / 2
    return Batch(prompt=chunk * count, past=past, chunk=chunk, finished=count / reads), reads


def first_parts(
    step: StepTime,
    input_tokens: float,
    output_tokens: float,
    users: float,
    tpot: float,
    budget: int,
    cached: float = 0.0,
) -> FirstParts:
    """What the first token of a request is made of in a closed loop of so many users of one replica.

    `input_tokens`: those that are read, behind `cached` ones that are in the cache already.
    `tpot`: seconds of a further token.
    """
    batch, passes = _through(step, input_tokens, budget, cached)
    parts, q = step.parts(batch), step.parameters
    slower = step.seconds(batch) / parts.seconds * passes
    return FirstParts(
        shared=(parts.weights + parts.attention + parts.links) * slower, experts=parts.experts * slower,
        fixed=parts.fixed * slower, kernels=parts.fixed * passes / (q.fixed * step.device.fixed * q.factor),
        together=prompt_seconds(step, input_tokens, budget, cached) * users / step.shares.layout.data, tpot=tpot,
        users=users, decoding=output_tokens * tpot,
    )  # fmt: skip


def _through(step: StepTime, input_tokens: float, budget: int, cached: float) -> tuple[Batch, float]:
    """A prompt's way through all stages: a step that takes as long as one chunk does, and how many times as long.

    A step has as many chunks under way as there are stages. Those of one prompt follow each other: all but the first
    take a stage's time more. One chunk alone gains nothing by a pipeline.
    """
    stages = step.shares.layout.pipeline
    batch, reads = _chunks(input_tokens, budget, cached, stages)
    return batch, (reads + stages - 1) / stages


def stepped_prompt_seconds(step: StepTime, input_tokens: float, budget: int, cached: float) -> float:
    """Seconds that simulated steps take to read one prompt, in which all stages of a pipeline share each chunk."""
    batch, reads = _chunks(input_tokens, budget, cached, 1.0)
    return step.seconds(batch) * reads


def least_prompt_seconds(step: StepTime, input_tokens: float, budget: int) -> float:
    """Seconds below which the data sheet's rates let no machine read one prompt."""
    batch, passes = _through(step, input_tokens, budget, 0.0)
    return step.floor(batch) * passes


@dataclass(frozen=True)
class LoopSteps:
    """Steps of a closed loop in two points: those that decode alone, and the `share` that reads prompts as well."""

    plain: Batch
    mixed: Batch
    share: float

    @classmethod
    def of(
        cls, input_tokens: float, output_tokens: float, decodes: float, budget: int, cached: float = 0.0
    ) -> LoopSteps:
        """Of so many sequences that decode together, each followed by the next prompt when it is done.

        `cached`: tokens before each prompt that are in the cache already.
        """
        context, chunk = cached + input_tokens + output_tokens / 2, min(input_tokens, float(budget))
        chunks = decodes * input_tokens / output_tokens / chunk
        count = max(1.0, chunks)
        mixed = Batch(decodes, context, count * chunk, cached, chunk, count * chunk / input_tokens)
        return cls(Batch(decodes, context), mixed, min(1.0, chunks))

    def seconds(self, step: StepTime) -> float:
        """Of a further token."""
        plain = step.seconds(self.plain)
        return plain + self.share * (step.seconds(self.mixed) - plain)
