"""What users want of a server: a closed loop, a stream, or recorded requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from slipstick.common.errors import InputError
from slipstick.common.formatting import share_shown
from slipstick.workloads.runs.requests import Request, arriving, drawn

LEAST_REQUESTS, MOST_REQUESTS = 200, 5000
MOST_USERS = 100_000
"""Of one server."""


@dataclass(frozen=True)
class Traffic:
    """Requests and how they come.

    `input_tokens`, `output_tokens`: nominal lengths; drawn uniformly from (1 - length_range) x nominal to nominal.
    `users`: of a closed loop; None for a stream.
    `rate`, `burstiness`: requests a second of a stream, and the squared coefficient of variation of its gaps (1:
        Poisson).
    `prefix_hit_rate`: share of each prompt that other requests left in the cache.
    `num_requests`: requests to simulate; None: ten for each user as public tables do, at least 200, at most 5,000.
    `given`: recorded requests, in place of all these.
    """

    input_tokens: int = 1024
    output_tokens: int = 256
    users: int | None = None
    rate: float | None = None
    burstiness: float = 1.0
    length_range: float = 0.2
    prefix_hit_rate: float = 0.0
    num_requests: int | None = None
    seed: int = 0
    given: tuple[Request, ...] = ()

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise InputError(f"--rate {self.rate:g}: want a finite number of requests/s > 0")
        if self.users is not None and not 1 <= self.users <= MOST_USERS:
            raise InputError(f"--concurrency {self.users:,}: want 1 to {MOST_USERS:,} users")
        if not 0 <= self.burstiness < math.inf:
            raise InputError(f"--burstiness {self.burstiness:g}: want a finite number >= 0")
        ways = sum((self.users is not None, self.rate is not None, bool(self.given)))
        timed = bool(self.given) and self.given[0].arrival is None and self.users is not None and self.rate is None
        if ways != 1 and not timed:
            raise InputError("give one of --concurrency (users of a closed loop), --rate (requests/s), --requests FILE")
        if self.given and self.given[0].arrival is None and self.users is None:
            raise InputError("the recorded requests have no arrival_s: give --concurrency too")

    @cached_property
    def requests(self) -> tuple[Request, ...]:
        """The requests to simulate."""
        if self.given:
            return self.given
        wanted = 10 * self.users if self.users else int(60 * (self.rate or 0))
        count = self.num_requests or min(MOST_REQUESTS, max(LEAST_REQUESTS, wanted))
        made = drawn(count, self.input_tokens, self.output_tokens, self.length_range, self.prefix_hit_rate, self.seed)
        return made if self.rate is None else arriving(made, self.rate, self.burstiness, self.seed + 1)

    def shorter(self, least: int) -> Traffic:
        """The same with a tenth of the requests, at least so many, in a loop ten for each user; recorded ones stay."""
        count = max(least, len(self.requests) // 10, 10 * (self.users or 0))
        return self if self.given or len(self.requests) <= count else replace(self, num_requests=count)

    def text(self) -> str:
        """As people say it."""
        if self.given:
            how = f"{len(self.given)} recorded requests"
            return how + (f", {users_shown(self.users)}" if self.users else "")
        lengths = f"{self.input_tokens} + {self.output_tokens} tokens"
        if self.length_range:
            lengths += f" (each drawn from {1 - self.length_range:g}-1 x that)"
        how = f"{users_shown(self.users)} in a closed loop" if self.users else f"{self.rate:g} requests/s"
        return f"{how}, {lengths}" + (
            f", {share_shown(self.prefix_hit_rate)} of prompts in the cache" if self.prefix_hit_rate else ""
        )


def users_shown(users: int) -> str:
    """A number of users in words: ``1 user``, ``32 users``."""
    return f"{users:,} user{'s' * (users != 1)}"
