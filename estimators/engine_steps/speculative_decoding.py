"""Steps of a server that guesses tokens ahead and checks them together (speculative decoding).

k tokens are guessed and checked with the next one in a single step; each is kept with probability a where all before it
were, so that a step makes (1 - a^(k+1)) / (1 - a) tokens (Leviathan et al., ICML 2023, equation 1, of acceptances that
are independent). Checking costs the products of k + 1 tokens for each sequence, the visits of their experts, and one
reading of weights and cache; guessing a share of a plain step for each token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.step_amounts import Batch

MOST_GUESSED = 64


@dataclass(frozen=True)
class Speculation:
    """How a server guesses ahead.

    `tokens`: guessed in each step for each sequence.
    `acceptance`: probability that a guessed token is kept where those before it were.
    `share`: time of guessing a token over that of a plain step of the same sequences: 1 / layers of a head of one layer
        (MTP, EAGLE), the draft model's share where one is used.

    Examples
    --------
    >>> round(Speculation(1, 0.85, 0.0).kept, 9)  # DeepSeek-V3 reports 85 to 90 % and 1.8 x the tokens/s
    1.85
    """

    tokens: int
    acceptance: float
    share: float

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= MOST_GUESSED:
            raise InputError(f"draft tokens = {self.tokens}: want 1 to {MOST_GUESSED}")
        if not 0 <= self.acceptance <= 1:
            raise InputError(f"acceptance = {self.acceptance:g}: want a probability, 0 to 1")
        if not 0 <= self.share <= 1:
            raise InputError(f"draft's share of a step = {self.share:g}: want 0 to 1")

    @property
    def kept(self) -> float:
        """Tokens that a step makes of each sequence, on average."""
        if self.acceptance == 1:
            return self.tokens + 1.0
        return (1 - self.acceptance ** (self.tokens + 1)) / (1 - self.acceptance)

    def seconds(self, plain: Callable[[Batch], float]) -> Callable[[Batch], float]:
        """Seconds a token of a step, by what it works on: the server counts tokens, and steps are shared by those kept.

        `plain`: seconds of a step without speculation.
        """

        def each(batch: Batch) -> float:
            if not batch.decodes:
                return plain(batch)
            alone = Batch(batch.decodes, batch.context)
            one = plain(alone)
            return (self._checked(plain, alone) + self.tokens * self.share * one) / self.kept + plain(batch) - one

        return each

    def _checked(self, plain: Callable[[Batch], float], batch: Batch) -> float:
        """A step that checks what was guessed: its tokens are read as those of a prompt, the cache once."""
        guessed = batch.decodes * self.tokens
        return plain(batch._replace(prompt=guessed, past=0.0, chunk=float(self.tokens), finished=guessed))
