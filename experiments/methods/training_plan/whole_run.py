"""A whole training run: how long so many tokens last, and what they cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.formatting import count_shown, money_shown
from slipstick.estimators.training.training_step_answer import TrainingStepAnswer

COUNT = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+]?[0-9]{1,2})?)\s*([kMBGT]?)\s*")
THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
MOST = 1e18
"""Tokens beyond which a typing error is likelier than a run."""
DAY = 86_400.0


def tokens_of(text: str) -> float:
    """Tokens from ``"1T"``, ``"300B"``, ``"1.5e12"``.

    Raises InputError where the text is no count of 1 to 1e18 tokens.

    Examples
    --------
    >>> tokens_of("1.4T")
    1400000000000.0
    """
    match = COUNT.fullmatch(text) if len(text) <= 64 else None
    count = float(match[1].replace("_", "")) * THOUSANDS[match[2]] if match else 0.0
    if not 1 <= count <= MOST:
        raise InputError(f"tokens = {text[:64]!r}: want a count of 1 to 1e18, such as 300B or 1.5T")
    return count


@dataclass(frozen=True)
class WholeRun:
    """Steps back to back until the tokens are read.

    Restarts, checkpoints, evaluation and devices that wait are not in it, and every step takes as long as the next.

    `tokens`: of the whole run; 0: none were given.
    `price`: dollars an hour of a device; None where it is not stated.
    """

    tokens: float = 0.0
    price: float | None = None

    def steps(self, step: TrainingStepAnswer) -> float:
        """How many steps read the tokens."""
        return self.tokens / (step.of.batch * step.of.sequence)

    def row(self, step: TrainingStepAnswer, seconds: dict[str, float]) -> dict[str, Any]:
        """Days and dollars with the band of a step's time; `seconds` of a step by the key's beginning."""
        if not self.tokens:
            return {}
        days = {name: one * self.steps(step) / DAY for name, one in seconds.items()}
        hours = 24 * step.layout.devices * (self.price or 0.0)
        return {
            **{f"{name}run_days": one for name, one in days.items()},
            **{f"{name}run_cost_usd": one * hours if self.price is not None else None for name, one in days.items()},
        }

    def text(self, step: TrainingStepAnswer, row: dict[str, Any]) -> str:
        """``run of 1,000,000,000,000 tokens: 13.2 days (10.4 to 16.8 with 80 %), ... $ (... to ...)``."""
        line = f"run of {count_shown(self.tokens)} tokens, {count_shown(self.steps(step))} steps: "
        days, low, high = (count_shown(row[f"{end}run_days"]) for end in ("", "low_", "high_"))
        line += f"{days} days ({low} to {high} with 80 %)"
        if self.price is not None:
            ends = f"{count_shown(row['low_run_cost_usd'])} to {count_shown(row['high_run_cost_usd'])}"
            line += f", {money_shown(row['run_cost_usd'])} ({ends})"
        else:
            line += ", dollars not known (no price: --set machine.price=2.5)"
        return f"{line}; restarts, checkpoints and evaluation apart"
