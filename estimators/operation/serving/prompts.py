"""How long prompts take to read when nothing decodes beside them, and what a closed loop's mean step is the sum of."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.estimators.operation.serving.step_amounts import Batch
from slipstick.estimators.operation.serving.step_time import StepTime


def prompt_seconds(step: StepTime, input_tokens: float, budget: int) -> tuple[float, float]:
    """Seconds of one prompt by itself, and of one among so many that every step is full.

    A prompt longer than the budget of a step is read in chunks.
    """
    chunk = min(input_tokens, float(budget))
    reads = input_tokens / chunk
    past = (input_tokens - chunk) / 2
    alone = step.seconds(Batch(prompt=chunk, past=past, chunk=chunk, finished=1 / reads)) * reads
    count = max(1.0, budget // chunk)
    full = step.seconds(Batch(prompt=chunk * count, past=past, chunk=chunk, finished=count / reads))
    return alone, full * reads / count


def least_prompt_seconds(step: StepTime, input_tokens: float, budget: int) -> float:
    """Seconds below which the data sheet's rates let no machine read one prompt."""
    chunk = min(input_tokens, float(budget))
    reads = input_tokens / chunk
    return step.floor(Batch(prompt=chunk, past=(input_tokens - chunk) / 2, chunk=chunk, finished=1 / reads)) * reads


@dataclass(frozen=True)
class LoopSteps:
    """Steps of a closed loop in two points: those that decode alone, and the `share` that reads prompts as well."""

    plain: Batch
    mixed: Batch
    share: float

    @classmethod
    def of(cls, input_tokens: float, output_tokens: float, decodes: float, budget: int) -> LoopSteps:
        """Of so many sequences that decode together, each followed by the next prompt when it is done."""
        context, chunk = input_tokens + output_tokens / 2, min(input_tokens, float(budget))
        chunks = decodes * input_tokens / output_tokens / chunk
        count = max(1.0, chunks)
        mixed = Batch(decodes, context, count * chunk, 0.0, chunk, count * chunk / input_tokens)
        return cls(Batch(decodes, context), mixed, min(1.0, chunks))

    def seconds(self, step: StepTime) -> float:
        """Of a further token."""
        plain = step.seconds(self.plain)
        return plain + self.share * (step.seconds(self.mixed) - plain)
