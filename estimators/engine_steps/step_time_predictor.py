"""The time of a server's step by what it works on, with its band: many times a second, for a simulator to call.

The time is that of `StepTime`, which `serve` simulates with: one formula, on floats or on arrays. The width of the band
needs a derivative by every fitted parameter; it is computed once on a grid of batches and read off between its points.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.engine_steps.engines import ServingFit
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.engine_steps.step_law import columns_of_batch
from slipstick.estimators.engine_steps.step_time import StepTime

if TYPE_CHECKING:
    import pandas as pd

Seconds = TypeVar("Seconds", float, FloatArray)
AT_ONCE = 8192
"""Steps whose columns stay in a processor's cache."""
GRID: tuple[tuple[float, ...], ...] = (
    (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    (0, 64, 512, 2048, 8192, 32768, 131072),
    (0, 1, 16, 64, 128, 256, 512, 1024, 2048, 8192),
    (0, 1024, 8192, 65536),
)
"""Decodes, context, prompt and past of the batches for which the width is computed."""


class StepSeconds(NamedTuple, Generic[Seconds]):
    """Seconds of a step with the ends of their 80 % band: floats, or arrays of one shape."""

    seconds: Seconds
    low: Seconds
    high: Seconds


WANTED = "want numbers of at least 0"


@dataclass(frozen=True, eq=False)
class StepTimePredictor:
    """Seconds of the steps of one model on one machine under one engine.

    Numbers are of one group of ranks that share a cache (with data parallelism, a group's share of the batch). What an
    engine takes before a request's first step is no part of a step.

    Parameters
    ----------
    step
        The time of a step.
    fit
        What was learned of steps: the width of the band.
    groups
        By what the fitted numbers vary.
    facts
        What it answers for, in words: model, machine, engine, weights, layout.
    """

    step: StepTime = field(repr=False)
    fit: ServingFit = field(repr=False)
    groups: FrozenDict[str] = field(repr=False)
    facts: FrozenDict[str]

    @overload
    def __call__(
        self, decodes: float = 0.0, context: float = 0.0, prompt: float = 0.0, *, past: float = 0.0,
        chunk: float | None = None, finished: float | None = None,
    ) -> StepSeconds[float]: ...  # fmt: skip

    @overload
    def __call__(
        self, decodes: FloatArray, context: FloatArray | float = 0.0, prompt: FloatArray | float = 0.0, *,
        past: FloatArray | float = 0.0, chunk: FloatArray | float | None = None,
        finished: FloatArray | float | None = None,
    ) -> StepSeconds[FloatArray]: ...  # fmt: skip

    def __call__(
        self,
        decodes: FloatArray | float = 0.0,
        context: FloatArray | float = 0.0,
        prompt: FloatArray | float = 0.0,
        *,
        past: FloatArray | float = 0.0,
        chunk: FloatArray | float | None = None,
        finished: FloatArray | float | None = None,
    ) -> StepSeconds[float] | StepSeconds[FloatArray]:
        """Seconds of a step, or of many where `decodes` is an array (the others: arrays of its shape, or numbers).

        Parameters
        ----------
        decodes
            Sequences that get one more token.
        context
            Tokens in the cache of each of these, on average.
        prompt
            Tokens of prompts read in the step.
        past
            Tokens of the cache that each of those attends to beside its own chunk, on average.
        chunk
            Tokens of one prompt read at once; without it all are one prompt's.
        finished
            Prompts whose last token is among those read; without it all are.

        Raises
        ------
        InputError
            Where a number is below 0.
        """
        if isinstance(decodes, np.ndarray):
            return self._many(decodes, context, prompt, past, chunk, finished)
        if not (decodes >= 0 and context >= 0 and prompt >= 0 and past >= 0):
            raise InputError(f"step of {decodes:g} decodes, {context:g} context, {prompt:g} prompt tokens: {WANTED}")
        chunk = prompt if chunk is None else chunk
        if finished is None:
            finished = prompt / chunk if chunk else 0.0
        return self._one(_batch(decodes, context, prompt, past, chunk, finished))

    def of_requests(self, requests: Sequence[tuple[int, int]]) -> StepSeconds[float]:
        """Seconds of a step that works on requests, each with its new tokens in this step and those in the cache.

        A request with one new token and some in the cache is a decode; of every other one a chunk of its prompt is
        read, taken to be its last.

        Raises
        ------
        InputError
            Where a request has no new token, or less than none in the cache.
        """
        decodes, context, prompt, past, squares, chunks = 0, 0, 0, 0, 0, 0
        for new, cached in requests:
            if new < 1 or cached < 0:
                raise InputError(f"request of {new} new tokens, {cached} in the cache: want at least 1, and at least 0")
            if new == 1 and cached:
                decodes, context = decodes + 1, context + cached + 1
            else:
                prompt, past, squares, chunks = prompt + new, past + new * cached, squares + new * new, chunks + 1
        mean, read = context / max(decodes, 1), max(prompt, 1)
        return self._one(Batch(decodes, mean, prompt, past / read, squares / read, chunks))

    def _one(self, batch: Batch) -> StepSeconds[float]:
        seconds = self.step.seconds(batch)
        factor = math.exp(self._widths.at((batch.decodes, batch.context, batch.prompt, batch.past)))
        return StepSeconds(seconds, max(seconds / factor, self.step.floor(batch)), seconds * factor)

    def _many(
        self,
        decodes: FloatArray,
        context: FloatArray | float,
        prompt: FloatArray | float,
        past: FloatArray | float,
        chunk: FloatArray | float | None,
        finished: FloatArray | float | None,
    ) -> StepSeconds[FloatArray]:
        shape, prompt = decodes.shape, np.asarray(prompt, dtype=float)
        chunk = prompt if chunk is None else np.asarray(chunk, dtype=float)
        if finished is None:
            finished = (chunk > 0) * prompt / (chunk + (chunk == 0))
        columns = [_flat(value, shape) for value in (decodes, context, prompt, past, chunk, finished)]
        if not all(bool((column >= 0).all()) for column in columns):
            raise InputError(f"steps: {WANTED}")
        made = np.empty((3, decodes.size))
        for start in range(0, decodes.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            every = [column[part] for column in columns]
            batch = _batch(*every)
            seconds = made[0, part] = self.step.seconds(batch)
            factor = np.exp(self._widths.many(every[:4]))
            made[1, part] = np.maximum(seconds / factor, self.step.floor(batch))
            made[2, part] = seconds * factor
        return StepSeconds(*(row.reshape(shape) for row in made))

    @cached_property
    def _widths(self) -> _Widths:
        decodes, context, prompt, past = np.array(list(product(*GRID)), dtype=float).T
        half = self._half_widths(_batch(decodes, context, prompt, past, prompt, 1.0 * (prompt > 0)))
        return _Widths(half.reshape([len(axis) for axis in GRID]))

    def half_width(self, batch: Batch) -> float:
        """Half of the 80 % band of the log time of a step, derivatives taken at the step itself."""
        return float(self._half_widths(_batch(*(np.array([value]) for value in batch)))[0])

    def _half_widths(self, batch: Batch) -> FloatArray:
        half = self.fit.half_widths(columns_of_batch(self.step, batch), self.groups)
        return np.hypot(half, self.step.shares.model.unmeasured)

    def rows(
        self, decodes: Sequence[float], context: Sequence[float], prompt: Sequence[float] = (0.0,)
    ) -> list[dict[str, float]]:
        """One row for each combination of `decodes`, `context` and `prompt`, with seconds and the 80 % band."""
        made = np.array(list(product(decodes, context, prompt)), dtype=float).reshape(-1, 3)
        answer = self(made[:, 0], made[:, 1], made[:, 2])
        names = ("decodes", "context_tokens", "prompt_tokens", "time_s", "low_s", "high_s")
        return [dict(zip(names, row, strict=True)) for row in np.column_stack([made, *answer]).tolist()]

    def to_frame(
        self, decodes: Sequence[float], context: Sequence[float], prompt: Sequence[float] = (0.0,)
    ) -> pd.DataFrame:
        """The same as a frame; `to_csv` and `to_parquet` write it."""
        import pandas as pd

        return pd.DataFrame(self.rows(decodes, context, prompt))


class _Widths:
    """Half-widths on the grid, read off between its points; beyond it, as at its edge."""

    def __init__(self, values: FloatArray) -> None:
        self.values = values
        self.plain: list[float] = values.ravel().tolist()
        self.strides = [stride // values.itemsize for stride in values.strides]
        self.scales = [np.log1p(np.array(axis, dtype=float)) for axis in GRID]
        self.steps = [scale.tolist() for scale in self.scales]

    def at(self, point: Sequence[float]) -> float:
        """At one batch (decodes, context, prompt, past): linear in the logs of 1 + each."""
        corners = [(0, 1.0)]
        for value, steps, stride in zip(point, self.steps, self.strides, strict=True):
            place = math.log1p(value)
            low = min(max(bisect_right(steps, place) - 1, 0), len(steps) - 2)
            share = min((place - steps[low]) / (steps[low + 1] - steps[low]), 1.0)
            base = low * stride
            if share:
                corners = [
                    (at + base + more, weight * of)
                    for at, weight in corners
                    for more, of in ((0, 1.0 - share), (stride, share))
                ]
            else:
                corners = [(at + base, weight) for at, weight in corners]
        plain = self.plain
        return sum(plain[at] * weight for at, weight in corners)

    def many(self, points: Sequence[FloatArray]) -> FloatArray:
        """At many batches, an array of each of their four numbers."""
        from scipy.ndimage import map_coordinates

        places = [
            np.interp(np.log1p(values), scale, np.arange(len(scale)))
            for values, scale in zip(points, self.scales, strict=True)
        ]
        return np.asarray(map_coordinates(self.values, places, order=1, mode="nearest"))


def _flat(values: FloatArray | float, shape: tuple[int, ...]) -> FloatArray:
    """A number or an array as one row of the shape's length."""
    return np.asarray(np.broadcast_to(np.asarray(values, dtype=float), shape).ravel(), dtype=float)


def _batch(*columns: Any) -> Batch:
    """Many steps as one batch."""
    return Batch(*columns)
