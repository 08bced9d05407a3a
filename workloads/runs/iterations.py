"""A training run as a table of iterations: a length (or a proxy of it) each, and a time where one is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import ByContent, content_digest
from slipstick.workloads.runs.lengths import Lengths

Order: TypeAlias = Literal["sorted", "shuffled", "bucketed"]


@dataclass(frozen=True, eq=False)
class Iterations(ByContent):
    """One epoch or run, iteration by iteration.

    Parameters
    ----------
    lengths
        Shape (iterations,): sequence length of each, or a proxy that orders them alike; finite, >= 0.
    times
        Shape (iterations,): seconds of each, finite and > 0; None where nothing was measured or estimated.
    proxy
        What `lengths` are: "length", "tokens", "duration".
    noise
        Relative standard deviation of an iteration's time when the same one runs again; None where unknown.
    profiles
        Shape (iterations, features): shares of kernels or counters, for clustering; None where unknown.
    source
        Where the table comes from.
    first
        The number that its log gives to the first iteration.
    block
        How many iterations at most share a time, the mean of them.

    Raises
    ------
    InputError
        Where shapes differ or a value is out of range.
    """

    lengths: FloatArray
    times: FloatArray | None = None
    proxy: str = "length"
    noise: float | None = None
    profiles: FloatArray | None = None
    source: str = ""
    first: int = 0
    block: int = 1

    def __post_init__(self) -> None:
        where = f"iterations{f' of {self.source}' if self.source else ''}"
        lengths = _column(self.lengths, where, self.proxy)
        object.__setattr__(self, "lengths", lengths)
        if not len(lengths):
            raise InputError(f"{where}: none; want at least one")
        if self.times is not None:
            times = _column(self.times, where, "time")
            if len(times) != len(lengths):
                raise InputError(f"{where}: {len(times)} times for {len(lengths)} lengths")
            if times.min() <= 0:
                raise InputError(f"{where}: time = {times.min():g} s: want times > 0")
            object.__setattr__(self, "times", times)
        if self.noise is not None and not 0 <= self.noise < math.inf:
            raise InputError(f"{where}: noise = {self.noise!r}: want a relative standard deviation >= 0")
        if self.profiles is not None and len(self.profiles) != len(lengths):
            raise InputError(f"{where}: {len(self.profiles)} profiles for {len(lengths)} iterations")

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def identity(self) -> str:
        """Digest of the content."""
        return content_digest([self.lengths, self.times, self.proxy, self.noise, self.profiles])

    @property
    def known_times(self) -> FloatArray:
        """The times.

        Raises
        ------
        InputError
            Where none are known.
        """
        if self.times is None:
            raise InputError(f"iterations {self.source or ''}: have no times; estimate or measure them first")
        return self.times

    @property
    def total(self) -> float:
        """Seconds of all iterations together."""
        return float(self.known_times.sum())

    def using(self, times: FloatArray) -> Iterations:
        """The same iterations with other times (another machine)."""
        return replace(self, times=times)


def _column(values: FloatArray, where: str, name: str) -> FloatArray:
    column = np.array(values, dtype=np.float64)
    if column.ndim != 1:
        raise InputError(f"{where}: {name}: want one value an iteration, got shape {column.shape}")
    if len(column) and not (np.isfinite(column).all() and column.min() >= 0):
        raise InputError(f"{where}: {name}: want finite values >= 0")
    column.setflags(write=False)
    return column


def epoch_lengths(lengths: Lengths, batch: int, order: Order, seed: int = 0) -> IntArray:
    """The padded length of every iteration of one epoch: the longest of each batch; the last batch may be smaller.

    `order`: sorted: by ascending length (the first epoch of DeepSpeech2); bucketed: batches of similar lengths in
        random order (its later epochs, and GNMT); shuffled: sequences in random order, then cut into batches.
    Raises InputError where `batch` is below 1, or the order is unknown.
    """
    if batch < 1:
        raise InputError(f"batch = {batch}: want at least 1")
    if order not in get_args(Order):
        raise unknown_name("order of iterations", order, list(get_args(Order)))
    generator = np.random.default_rng(seed)
    values = generator.permutation(lengths.values) if order == "shuffled" else np.sort(lengths.values)
    padded = np.maximum.reduceat(values, np.arange(0, len(values), batch))
    return generator.permutation(padded) if order == "bucketed" else padded
