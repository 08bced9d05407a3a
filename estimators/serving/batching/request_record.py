"""What happened to every request, and what every step was."""

from __future__ import annotations

import math
from array import array

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError

MOST_STRETCHES, OF_A_REQUEST = 500_000, 5
"""At least, and for each request: only prompts cut into tiny chunks, or a cache lost with every step, take more."""


class ServingRecord:
    """Times of requests and stretches of steps as a simulation fills them in."""

    def __init__(self, requests: int) -> None:
        # `array`: a number of numpy's takes ten times as long to read or set by itself, a list four times the memory
        unknown = array("d", [math.nan]) * requests
        self.arrived, self.placed, self.read, self.first, self.last = (unknown[:] for _ in range(5))
        self.preempted, self.replica = array("q", [0]) * requests, array("q", [0]) * requests
        self._stretches = array("d")
        self.most = max(MOST_STRETCHES, OF_A_REQUEST * requests)

    def place(self, index: int, now: float) -> None:
        """A request gets a place for the first time."""
        if math.isnan(self.placed[index]):
            self.placed[index] = now

    def token(self, index: int, now: float) -> None:
        """A prompt is read: its first token is there (a preempted request has its first already)."""
        if math.isnan(self.first[index]):
            self.read[index] = self.first[index] = now

    def join(self, index: int, now: float) -> None:
        """A prompt that another worker read goes on here: only now its user sees the first token."""
        self.first[index] = now

    def end(self, index: int, now: float) -> None:
        """Note that a request is done at `now` seconds."""
        self.last[index] = now

    def stretch(self, replica: int, start: float, end: float, steps: int, decodes: int, prompt: int) -> None:
        """`steps` equal steps of `decodes` sequences and `prompt` tokens each.

        Raises InputError where there are more than `most`.
        """
        if len(self._stretches) >= 6 * self.most:
            raise InputError(
                f"{len(self.arrived):,} requests: more than {self.most:,} steps that differ, after {end:,.0f} "
                "simulated seconds; take fewer requests, or more tokens a step"
            )
        self._stretches.extend((replica, start, end, steps, decodes, prompt))

    @property
    def stretches(self) -> FloatArray:
        """Rows (replica, start, end, steps, decodes, prompt tokens)."""
        return np.asarray(self._stretches, dtype=float).reshape(-1, 6)
