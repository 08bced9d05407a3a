"""A candidate of a serving plan, and how sure it is that one machine serves for fewer dollars than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slipstick.common.formatting import money_shown, share_shown
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.deployment import Deployment
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.runs.traffic import users_shown

SURELY = 0.99
"""Beyond which no figure is given: tails of the bands were not scored."""


@dataclass(frozen=True)
class ServedBatch:
    """What the steps of a deployment work on."""

    deployment: Deployment
    batch: Batch

    def half_width_over(self, other: ServedBatch) -> float:
        """Half of the 80 % band of the log ratio of both steps: what one law misses alike in both cancels."""
        fitted = self.deployment.fitted
        ours, theirs = ((one.deployment.sum_of(one.batch), one.deployment.groups) for one in (self, other))
        return fitted.ratio_half_width(ours, theirs)


@dataclass(frozen=True)
class ServingChoice:
    """One layout on one machine under one load, in the steady closed loop.

    `ttft`, `tpot`: the median time to the first token and the mean one of a further token, seconds.
    `users`: requests in flight at one replica.
    `per_device`, `per_user`: output tokens a second.
    `keeps`: probability that these times keep all limits, were the limits' errors one (the least over the limits).
    `dollars`: a million output tokens; None where the machine's price is not stated.
    `served`: what its steps work on, for comparisons with others.
    """

    machine: str
    layout: Layout
    stored: str
    users: int
    ttft: float
    tpot: float
    per_device: float
    per_user: float
    keeps: float
    half_width: float
    dollars: float | None
    served: ServedBatch | None = field(default=None, repr=False, compare=False)

    def text(self) -> str:
        """As people say it."""
        return f"{self.layout.devices} x {self.machine}, {self.layout.text()}, {self.stored}, {users_shown(self.users)}"

    def row(self) -> dict[str, Any]:
        """As a row of a table."""
        width = math.exp(self.half_width)
        return {
            "machine": self.machine,
            "devices": self.layout.devices,
            "layout": self.layout.text(),
            "weights": self.stored,
            "users": self.users,
            "ttft_s": self.ttft,
            "tpot_s": self.tpot,
            "tokens_per_s_per_device": self.per_device,
            "low": self.per_device / width,
            "high": self.per_device * width,
            "tokens_per_s_per_user": self.per_user,
            "keeps_limits": self.keeps,
            "cost_usd_per_million_tokens": self.dollars,
        }


def chance_cheaper(one: ServingChoice, other: ServingChoice) -> float | None:
    """Probability that a layout costs less a token than another; None where a price is not stated.

    Prices are taken as given. Errors of log rate are normal, those of one posterior: parameters and effects that both
    machines share cancel, effects of a machine that nobody measured do not.
    """
    from scipy.special import ndtr

    if not (one.dollars and other.dollars and one.served and other.served):
        return None
    spread = one.served.half_width_over(other.served) / quantile(DEFAULT_LEVEL, None)
    return float(ndtr(math.log(other.dollars / one.dollars) / spread))


def cheaper_lines(best: ServingChoice, others: Sequence[ServingChoice]) -> list[str]:
    """For each other machine a line: its cheapest layout, and how sure it is that the best one costs less."""
    lines = []
    for name in dict.fromkeys(one.machine for one in others if one.machine != best.machine):
        rival = min((one for one in others if one.machine == name), key=lambda one: one.dollars or math.inf)
        sure = chance_cheaper(best, rival)
        if sure is not None and rival.dollars is not None:
            words = "over 99 %" if sure > SURELY else share_shown(sure)
            lines.append(f"cheaper than {rival.text()} at {money_shown(rival.dollars)} a million tokens: {words} sure")
    return lines
