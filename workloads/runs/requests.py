"""Requests to a server: how long they are and when they come."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.errors import InputError, errors_at
from slipstick.common.readers import json_lines, number_of, read_text, require_mapping, whole_of

LONGEST = 10_000_000
LATEST = 1e10
"""Latest arrival in seconds: beyond three centuries a float no longer tells the steps of a server from each other."""
REGULAR = 1e-6
"""Burstiness below which gaps are taken to be equal."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    `input_tokens`, `output_tokens`: of the prompt, and to make.
    `arrival`: seconds from the start; None in a closed loop, where a request comes when another is done.
    `cached_tokens`: of the prompt, already in the cache from other requests (a prefix hit).
    """

    input_tokens: int
    output_tokens: int
    arrival: float | None = None
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.input_tokens <= LONGEST and 1 <= self.output_tokens <= LONGEST):
            raise InputError(
                f"request of {self.input_tokens} + {self.output_tokens} tokens: want 1 to {LONGEST:,} of each"
            )
        if not 0 <= self.cached_tokens < self.input_tokens:
            raise InputError(
                f"request: {self.cached_tokens} cached tokens: want 0 to less than its {self.input_tokens}"
            )
        if self.arrival is not None and not 0 <= self.arrival <= LATEST:
            raise InputError(f"request: arrival = {self.arrival:g} s: want 0 to {LATEST:g} s (seconds from the start)")


def drawn(
    count: int,
    input_tokens: int,
    output_tokens: int,
    length_range: float = 0.0,
    prefix_hit_rate: float = 0.0,
    seed: int = 0,
) -> tuple[Request, ...]:
    """`count` requests whose lengths are drawn uniformly from (1 - length_range) x nominal to nominal.

    Public tables of "1k/8k" rows are made with length_range 0.2; equal lengths that start together stay in lock-step.
    `prefix_hit_rate` is the share of each prompt that other requests left in the cache.
    Raises InputError where `length_range` or `prefix_hit_rate` is no share of [0, 1).
    """
    if not 0 <= length_range < 1 or not 0 <= prefix_hit_rate < 1:
        raise InputError(
            f"length_range = {length_range:g}, prefix_hit_rate = {prefix_hit_rate:g}: want shares in [0, 1)"
        )
    rng = np.random.default_rng(seed)

    def lengths(nominal: int) -> list[int]:
        low = max(1, round(nominal * (1 - length_range)))
        return [int(n) for n in rng.integers(low, nominal + 1, count)]

    return tuple(
        Request(a, b, cached_tokens=min(a - 1, int(a * prefix_hit_rate)))
        for a, b in zip(lengths(input_tokens), lengths(output_tokens), strict=True)
    )


def arriving(requests: Sequence[Request], rate: float, burstiness: float = 1.0, seed: int = 0) -> tuple[Request, ...]:
    """The requests with arrival times: gaps are gamma distributed with mean 1 / rate (seconds).

    `burstiness` is the squared coefficient of variation of the gaps: 1 is a Poisson stream, 0 a regular one.
    Raises InputError where `rate` or `burstiness` is out of range.
    """
    if not 0 < rate < float("inf"):
        raise InputError(f"rate = {rate} requests/s: want a finite rate > 0")
    if not 0 <= burstiness < float("inf"):
        raise InputError(f"burstiness = {burstiness}: want a finite number >= 0")
    rng = np.random.default_rng(seed)
    if burstiness < REGULAR:
        gaps = np.full(len(requests), 1 / rate)
    else:
        gaps = rng.gamma(1 / burstiness, burstiness / rate, len(requests))
    times = np.cumsum(gaps)
    return tuple(
        Request(r.input_tokens, r.output_tokens, float(t), r.cached_tokens)
        for r, t in zip(requests, times, strict=True)
    )


def recorded(path: str | os.PathLike[str]) -> tuple[Request, ...]:
    """Requests from a file of JSON lines: input_tokens, output_tokens, arrival_s, and cached_tokens where known.

    Raises InputError, which names the line and the field.
    """
    requests = []
    for where, row in json_lines(read_text(path), path):
        entry = require_mapping(row, where, "a request")
        tokens = [
            whole_of(entry.get(name, default), f"{where}: {name}", -LONGEST)
            for name, default in (("input_tokens", None), ("output_tokens", None), ("cached_tokens", 0))
        ]
        arrival = entry.get("arrival_s")
        seconds = None if arrival is None else number_of(arrival, f"{where}: arrival_s", unit="s")
        with errors_at(where):
            requests.append(Request(tokens[0], tokens[1], seconds, tokens[2]))
    if not requests:
        raise InputError(f"{path}: no requests; want a line of JSON each with input_tokens and output_tokens")
    if len({r.arrival is None for r in requests}) > 1:
        raise InputError(f"{path}: some requests have arrival_s and some do not")
    return tuple(sorted(requests, key=lambda r: r.arrival or 0.0))
