"""What a simulated server gave: every request, distributions, rates, a trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstick.common.answer import Answer, Event
from slipstick.common.array_types import FloatArray, IntArray
from slipstick.common.formatting import count_shown, shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.serving.batching.request_record import ServingRecord
from slipstick.workloads.runs.requests import Request

if TYPE_CHECKING:
    import pandas as pd

MEASURES = ("ttft", "tpot", "itl", "latency")


@dataclass(frozen=True, eq=False, repr=False)
class SimulationResult(Answer):
    """Requests of one simulated run.

    `input_tokens`, `output_tokens`, `arrived`, `placed`, `read`, `first`, `last`, `preempted`, `replica`: one entry a
        request; times in seconds from the start. A prompt is read before its first token is seen where another worker
        makes the further ones.
    `stretches`: rows (replica, start, end, steps, decodes, prompt tokens a step), equal steps together.
    `cache_peak`: largest share of the cache in use.
    `readers`: of the replicas, those that only read prompts: the first so many.
    """

    input_tokens: FloatArray
    output_tokens: FloatArray
    arrived: FloatArray
    placed: FloatArray
    read: FloatArray
    first: FloatArray
    last: FloatArray
    preempted: IntArray
    replica: IntArray
    stretches: FloatArray
    replicas: int
    cache_peak: float
    readers: int = 0

    @classmethod
    def of(
        cls, requests: Sequence[Request], record: ServingRecord, replicas: int, cache_peak: float, readers: int = 0
    ) -> SimulationResult:
        """From the record of a finished run."""
        return cls(
            np.array([r.input_tokens for r in requests], dtype=float),
            np.array([r.output_tokens for r in requests], dtype=float),
            np.array(record.arrived),
            np.array(record.placed),
            np.array(record.read),
            np.array(record.first),
            np.array(record.last),
            np.array(record.preempted, dtype=np.int64),
            np.array(record.replica, dtype=np.int64),
            record.stretches,
            replicas,
            cache_peak,
            readers,
        )

    def of_workers(self, *, read: bool) -> SimulationResult:
        """The steps of the workers that only read prompts, or of the others; requests as they are."""
        mine = (self.stretches[:, 0] < self.readers) == read
        count = self.readers if read else self.replicas - self.readers
        return replace(self, stretches=self.stretches[mine], replicas=count, readers=count if read else 0)

    @property
    def ttft(self) -> FloatArray:
        """Time to the first token of each request, its wait included, seconds."""
        return self.first - self.arrived

    @property
    def tpot(self) -> FloatArray:
        """Mean time of a further token of each request, seconds; requests of one token have none (nan)."""
        further = self.output_tokens - 1
        return np.where(further > 0, (self.last - self.first) / np.maximum(further, 1), np.nan)

    @property
    def latency(self) -> FloatArray:
        """From arrival to the last token of each request, seconds."""
        return self.last - self.arrived

    @property
    def span(self) -> float:
        """Seconds from the first arrival to the last token."""
        return float(self.last.max() - self.arrived.min())

    def waiting(self, at: float) -> int:
        """How many requests have come by a time (seconds from the start) and have no token yet."""
        return int(np.sum((self.arrived <= at) & (self.first > at)))

    @property
    def output_rate(self) -> float:
        """Output tokens a second, whole deployment."""
        return float(self.output_tokens.sum()) / self.span

    @property
    def steps(self) -> int:
        """Steps that were made, all replicas together."""
        return int(self.stretches[:, 3].sum())

    def with_first(self, median: float, mean: float, least: float) -> SimulationResult:
        """The same with first tokens whose median and mean are so many times as long, none below `least` seconds.

        Each is a power of what it was over the median, so that none changes places; later tokens come as much later.
        """
        was = self.ttft
        middle, wanted = float(np.median(was)), mean * float(was.mean())
        over = np.log(np.maximum(was, 1e-12) / middle)

        def stretched(power: float) -> FloatArray:
            return np.asarray(median * middle * np.exp(np.clip(power * over, -50.0, 50.0)))

        low, high = 0.0, 8.0
        for _ in range(60):
            power = (low + high) / 2
            low, high = (power, high) if stretched(power).mean() < wanted else (low, power)
        times = np.maximum(stretched(low), least)
        ratio = times / np.maximum(was, 1e-12)
        ends = {name: self.arrived + (getattr(self, name) - self.arrived) * ratio for name in ("placed", "read")}
        return replace(self, first=self.arrived + times, last=self.last + times - was, **ends)

    def half(self, *, last: bool) -> SimulationResult:
        """The first or the second half of the requests, with the steps that begin while they come."""
        count = len(self.arrived) // 2
        names = ("input_tokens", "output_tokens", "arrived", "placed", "read", "first", "last", "preempted", "replica")
        ends = {name: getattr(self, name)[count:] if last else getattr(self, name)[:count] for name in names}
        here = (self.stretches[:, 1] >= self.arrived[count]) == last
        return replace(self, **ends, stretches=self.stretches[here])

    def as_changed(self, before: SimulationResult, after: SimulationResult) -> SimulationResult:
        """This run with times changed as those of a shorter one of the same traffic are from `before` to `after`.

        Times to first, of further and of single tokens are multiplied by the ratio at their own quantile, so that every
        quantile moves as that of the shorter run does; the times at which requests come by the ratio of the spans.
        """
        runs = self, before, after
        spans = [float(one.arrived.max() - one.arrived.min()) for one in runs]
        slower = spans[2] / spans[1] if spans[1] > 0 else 1.0
        alike = [np.ones(len(one.arrived)) for one in runs]
        first, further = (
            _at_quantiles(*zip([getattr(one, name) for one in runs], alike, strict=True)) for name in ("ttft", "tpot")
        )
        arrived = self.arrived.min() + (self.arrived - self.arrived.min()) * slower
        ratio = first / np.maximum(self.ttft, 1e-12)
        ends = {name: arrived + (getattr(self, name) - self.arrived) * ratio for name in ("placed", "read")}
        last = arrived + first + np.where(self.output_tokens > 1, further, 0.0) * (self.output_tokens - 1)
        rows = self.stretches.copy()
        spent, made = (rows[:, 2] - rows[:, 1]) * slower, rows[:, 4] > 0
        spent[made] = _at_quantiles(*(one._token_times() for one in runs)) * rows[made, 3]
        rows[:, 1] *= slower
        rows[:, 2] = rows[:, 1] + spent
        return replace(self, arrived=arrived, first=arrived + first, last=last, stretches=rows, **ends)

    def share(self, what: str) -> float:
        """Share of the run in which a replica works ("busy"), or reads prompts ("prompt")."""
        spans = self.stretches[:, 2] - self.stretches[:, 1]
        inside = spans if what == "busy" else spans[self.stretches[:, 5] > 0]
        return min(1.0, float(inside.sum()) / (self.span * self.replicas))  # a carried run's steps may overlap

    def quantiles(self, measure: str, levels: Sequence[float] = (0.5, 0.9, 0.99)) -> dict[str, float]:
        """Mean and quantiles (p50, p90, p99) of "ttft", "tpot", "itl" (single tokens) or "latency", in seconds."""
        if measure == "itl":
            values, weights = self._token_times()
        else:
            values = getattr(self, measure)
            values = values[np.isfinite(values)]
            weights = np.ones(len(values))
        if not len(values):
            return {}
        order, places = _ranked(values, weights)
        values, weights = values[order], weights[order]
        result = {"mean": float((values * weights).sum() / weights.sum())}
        return result | {f"p{100 * level:g}": float(np.interp(level, places, values)) for level in levels}

    def _token_times(self) -> tuple[FloatArray, FloatArray]:
        rows = self.stretches[self.stretches[:, 4] > 0]
        return (rows[:, 2] - rows[:, 1]) / rows[:, 3], rows[:, 3] * rows[:, 4]

    def meeting(self, limits: Mapping[str, float]) -> float:
        """Share of requests that keep all limits (measure -> seconds); single tokens count by their mean (tpot)."""
        good = np.ones(len(self.arrived), dtype=bool)
        for measure, limit in limits.items():
            values = getattr(self, "tpot" if measure == "itl" else measure)
            good &= ~(values > limit)
        return float(good.mean())

    def rows(self) -> list[dict[str, Any]]:
        """One row a measure and statistic (mean, p50, p90, p99), in seconds."""
        return [
            {"measure": measure, "statistic": statistic, "value_s": value}
            for measure in MEASURES
            for statistic, value in self.quantiles(measure).items()
        ]

    @property
    def heads(self) -> tuple[str, ...]:
        """Tokens/s, and how many requests in which time."""
        return (f"{count_shown(self.output_rate)} tokens/s, {len(self.last):,} requests in {shown(self.span, 's')}",)

    def to_frame(self) -> pd.DataFrame:
        """One row a request, times in seconds."""
        import pandas as pd

        return pd.DataFrame(
            {
                "input_tokens": self.input_tokens.astype(int),
                "output_tokens": self.output_tokens.astype(int),
                "arrival_s": self.arrived,
                "scheduled_s": self.placed,
                "prompt_read_s": self.read,
                "first_token_s": self.first,
                "last_token_s": self.last,
                "ttft_s": self.ttft,
                "tpot_s": self.tpot,
                "latency_s": self.latency,
                "preemptions": self.preempted,
                "replica": self.replica,
            }
        )

    def events(self) -> Iterator[Event]:
        """The steps of each replica, stretches of equal ones together."""
        for replica, start, end, steps, decodes, prompt in self.stretches.tolist():
            kind = "decode" if not prompt else "prompt" if not decodes else "mixed"
            facts = FrozenDict(steps=steps, decodes=decodes, prompt_tokens=prompt)
            yield Event(f"{kind} x {steps:g}" if steps > 1 else kind, f"replica {replica:g}", start, end, kind, facts)


APART = {"mean": 0.05, "p50": 0.05, "p90": 0.05, "p99": 0.10}
"""Log times by which two quarters of a sample may lie apart; of the 99th percentile, which few decide, twice that."""


def steady(served: SimulationResult, *edges: SimulationResult) -> bool:
    """Whether the edges lie as far from the middle in the last quarter of the requests as in the one before.

    A queue that grows does not: then a shorter run says nothing of a longer one.
    """
    late = [one.half(last=True) for one in (served, *edges)]
    quarters = [(one.half(last=False), one.half(last=True)) for one in late]
    for measure in ("ttft", "tpot", "itl", "latency"):
        middle, *others = ([quarter.quantiles(measure) for quarter in pair] for pair in quarters)
        for name in middle[0]:
            for edge in others:
                before, after = (math.log(one[name] / at[name]) for one, at in zip(edge, middle, strict=True))
                if abs(before - after) > APART[name]:
                    return False
    return True


def _ranked(values: FloatArray, weights: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """The order of values, and the quantile of each in that order."""
    order = np.argsort(values)
    weights = weights[order]
    return order, (np.cumsum(weights) - 0.5 * weights) / weights.sum()


def _at_quantiles(*sides: tuple[FloatArray, FloatArray]) -> FloatArray:
    """The values of the first side, each times the ratio of the third side to the second at its own quantile.

    `sides`: values, of which some may be none (nan), and their weights; three of them.
    """
    curves = []
    for values, weights in sides:
        known = np.flatnonzero(np.isfinite(values))
        if not len(known):
            return sides[0][0]
        order, places = _ranked(values[known], weights[known])
        curves.append((places, values[known[order]], known[order]))
    (places, values, here), *others = curves
    before, after = (np.interp(places, *side[:2]) for side in others)
    result = np.full(len(sides[0][0]), np.nan)
    result[here] = values * after / np.maximum(before, 1e-12)
    return result
