"""Sequence lengths of data sets: counted ones from files, larger or free ones drawn and labelled synthetic."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.array_types import IntArray
from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, whole_of
from slipstick.common.records import ByContent

MAX_LENGTH = 10_000_000


@dataclass(frozen=True, eq=False)
class Lengths(ByContent):
    """Lengths of the sequences of a data set, in the steps that the network counts.

    `values`: shape (sequences,), whole numbers >= 1.
    `unit`: what is counted ("tokens", "frames").
    `source`: where they come from.
    `synthetic`: whether they were drawn, not counted.
    """

    values: IntArray
    unit: str
    source: str
    synthetic: bool = False

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.int64)
        if values.ndim != 1 or not len(values):
            raise InputError(f"lengths of {self.source}: want one list of lengths, got shape {values.shape}")
        if values.min() < 1:
            raise InputError(f"lengths of {self.source}: {values.min()} {self.unit}: want lengths >= 1")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def resampled(self, size: int, seed: int = 0) -> Lengths:
        """`size` lengths drawn from these with replacement: a data set of another size, labelled synthetic.

        Raises InputError where `size` is below 1.
        """
        if size < 1:
            raise InputError(f"size = {size}: want at least one sequence")
        drawn = np.random.default_rng(seed).choice(self.values, size)
        return Lengths(drawn, self.unit, f"{size} drawn from {len(self)} of {self.source}, seed {seed}", synthetic=True)

    def scaled(self, factor: float, unit: str) -> Lengths:
        """The lengths in another unit, rounded down, at least 1 (samples at 16 kHz to frames: factor 1 / 160).

        Raises InputError where the factor is not above 0.
        """
        if not factor > 0:
            raise InputError(f"factor = {factor!r}: want a number > 0")
        values = np.maximum(1, np.floor(self.values * factor)).astype(np.int64)
        return Lengths(values, unit, self.source, self.synthetic)


def read_lengths(path: str | os.PathLike[str], column: str, unit: str) -> Lengths:
    """Lengths from a column of a CSV file.

    Raises InputError, which names the file, the line and the column where a value is no whole number >= 1.
    """
    rows = read_csv_rows(path, required=[column])
    values = [whole_of(row[column], f"{path}: line {line}: {column}", 1, MAX_LENGTH) for line, row in rows]
    return Lengths(np.array(values, dtype=np.int64), unit, f"{Path(path).name}, column {column}")


def lognormal_lengths(
    size: int, median: float, sigma: float, low: int, high: int, unit: str = "tokens", seed: int = 0
) -> Lengths:
    """Synthetic lengths: log-normal (median, standard deviation of the log), clipped to [low, high].

    Sentence lengths and utterance durations are skewed so; low and high are a data set's filters.
    Raises InputError where `size`, `median`, `sigma` or the filter is out of range.
    """
    if size < 1 or not (median > 0 and sigma > 0 and 1 <= low <= high <= MAX_LENGTH):
        raise InputError(
            f"lengths: size = {size}, median = {median:g}, sigma = {sigma:g}, {low} <= length <= {high}: "
            f"want size >= 1, median and sigma > 0 and 1 <= low <= high <= {MAX_LENGTH}"
        )
    generator: Any = np.random.default_rng(seed)
    values = np.clip(np.rint(median * np.exp(sigma * generator.standard_normal(size))), low, high).astype(np.int64)
    source = f"log-normal, median {median:g}, sigma {sigma:g}, clipped to [{low}, {high}], seed {seed}"
    return Lengths(values, unit, source, synthetic=True)
