"""How long prompts take to read when nothing decodes beside them."""

from __future__ import annotations

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
