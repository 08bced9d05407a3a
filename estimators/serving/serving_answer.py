"""The answer to a serving question: what users get, what devices give, how sure that is, what bounds it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slipstick.common.answer import Answer, Event, Provenance
from slipstick.common.errors import InputError
from slipstick.common.frames import write_csv
from slipstick.common.records import FrozenDict
from slipstick.common.writer import atomic_write
from slipstick.estimators.base.conditions import Condition, NotUsed, conditions_lines, depends_on
from slipstick.estimators.base.sureness import sure_row, verdict_text, within_near
from slipstick.estimators.engine_steps.first_token import FirstParts
from slipstick.estimators.engine_steps.measured_steps import FIRST_REPEATS
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.power.facility import Facility
from slipstick.estimators.serving.batching.simulation_result import SimulationResult, steady
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.drawn_power import NO_POWER, drawn_power
from slipstick.estimators.serving.serving_runs import (
    beside_runs,
    least_first,
    left_by_own_runs,
    mean_batch,
    means,
    serving_runs,
    simulated_run,
)
from slipstick.workloads.runs.traffic import Traffic

if TYPE_CHECKING:
    import pandas as pd


KINDS = FrozenDict(prefill=True, decode=False)
"""Workers, and whether they read prompts."""
MEASURES = ("ttft", "tpot", "itl", "latency")
QUANTILES = ("mean", "p50", "p90", "p99")
SAMPLED = 10_000
"""Requests of which corrections and edges are simulated at least."""


@dataclass(frozen=True, repr=False)
class Serving(Answer):
    """A deployment under traffic, simulated at the calibrated pace and at both edges of its 80 % band.

    Parameters
    ----------
    deployment
        At the clock that its power cap leaves.
    clock
        Of the machine before the cap held it back [Hz]; None where no cap was looked at.
    given, not_used
        What of the machine the question sets; what of it the answer did not read.
    facility
        Hosts and the building around the devices.
    edges_of
        Requests of the runs that gave the edges of the band; 0: all of them.
    """

    deployment: Deployment
    traffic: Traffic
    limits: FrozenDict[float]
    served: SimulationResult
    fast: SimulationResult
    slow: SimulationResult
    clock: float | None = None
    given: tuple[Condition, ...] = ()
    not_used: tuple[NotUsed, ...] = ()
    facility: Facility = Facility()
    edges_of: int = 0

    @property
    def meter(self) -> float | None:
        """Watts at the building's meter; None where neither hosts nor building are counted, or no power is known."""
        power = self.summary()["power_W"]
        counted = self.facility.counted and power is not None
        return self.facility.watts(power, self.deployment.devices) if counted else None

    def band(self, measure: str, quantile: str) -> tuple[float, float, float]:
        """Value, low and high (80 %) of a measure of requests, seconds."""
        middle = self.served.quantiles(measure)[quantile]
        low, high = self.fast.quantiles(measure)[quantile], self.slow.quantiles(measure)[quantile]
        if measure == "ttft":
            factor = math.exp(self.first_half_width)
            low, high = min(low, middle / factor), max(high, middle * factor)
            low = max(low, self.least_first)
        return middle, min(low, middle), max(high, middle)

    @cached_property
    def least_first(self) -> float:
        """Seconds below which the data sheet lets no first token come: of the prompt with fewest tokens to read."""
        return least_first(self.deployment, self.traffic)

    @property
    def first_half_width(self) -> float:
        """Half of the 80 % band of the log time to the first token, under this traffic."""
        half = self.deployment.fitted.first_half_width(self.first_parts, self.deployment.groups)
        half = math.hypot(half, self.deployment.model.unmeasured)
        return beside_runs(half, left_by_own_runs(self.deployment, self.traffic)[2], FIRST_REPEATS)

    @property
    def first_parts(self) -> FirstParts:
        """What a first token is made of, under this traffic."""
        return self.deployment.reader.first_parts(*means(self.traffic, self.served))

    @property
    def rate_band(self) -> tuple[float, float, float]:
        """Output tokens/s of all devices: value, low, high (80 %)."""
        middle = self.served.output_rate
        return middle, min(middle, self.slow.output_rate), max(middle, self.fast.output_rate)

    @property
    def provenance(self) -> Provenance:
        """ "calibrated" where steps were measured, or runs of a server."""
        return "calibrated" if self.deployment.known else "estimated"

    @cached_property
    def bounds(self) -> dict[str, float]:
        """Shares of a decode step's time by what it goes to, and the share of time in steps that read prompts."""
        parts = self.deployment.step.parts(mean_batch(self.deployment, self.served))
        names = {
            "weights": "reading weights", "experts": "reading experts", "attention": "attention over the cache",
            "links": "messages between devices", "fixed": "kernels and host (fixed times)",
        }  # fmt: skip
        shares = {text: getattr(parts, name) / parts.seconds for name, text in names.items()}
        return {text: share for text, share in shares.items() if share > 0.005}

    @property
    def peak_share_of_prompts(self) -> float:
        """Flop of a full step of prompts, beside a decode, over what the matrix engines could do in its time."""
        length, reader = max(1.0, float(self.served.input_tokens.mean())), self.deployment.reader
        budget = float(reader.rules.token_budget)
        beside = 0.0 if self.deployment.prefill else 1.0
        reading = Batch(beside, length, prompt=budget, chunk=min(length, budget), finished=budget / length)
        _, flop = reader.step.demands(reading)
        return flop / reader.step.seconds(reading)

    @property
    def workers(self) -> FrozenDict[float]:
        """Shares of the time that each kind of worker is busy, and mean seconds from a prompt read to its first token.

        Nothing where no workers read prompts apart.
        """
        if self.deployment.prefill is None:
            return FrozenDict()
        busy = {f"{name}_busy": self.served.of_workers(read=read).share("busy") for name, read in KINDS.items()}
        return FrozenDict({**busy, "kv_transfer_s": float((self.served.first - self.served.read).mean())})

    def rows(self) -> list[dict[str, Any]]:
        """One row a measure and statistic, seconds with the 80 % band."""
        result = []
        for measure in MEASURES:
            if not self.served.quantiles(measure):
                continue
            for quantile in QUANTILES:
                value, low, high = self.band(measure, quantile)
                result.append(
                    {"measure": measure, "statistic": quantile, "value_s": value, "low_s": low, "high_s": high}
                )
        return result

    def summary(self) -> dict[str, Any]:
        """The figures of the whole deployment."""
        deployment, served = self.deployment, self.served
        devices = deployment.devices
        rate, low, high = self.rate_band
        machine = deployment.machine
        dollars = machine.price * devices / 3600 / rate * 1e6 if machine.price is not None else None
        drawn = drawn_power(deployment, served)
        joules = drawn.most_joules(low) * 1e6 if drawn else None
        users = float(served.latency.sum()) / served.span
        return {
            "output_tokens_per_s": rate,
            "low_tokens_per_s": low,
            "high_tokens_per_s": high,
            "output_tokens_per_s_per_device": rate / devices,
            "output_tokens_per_s_per_user": rate / max(users, 1.0),
            "requests_per_s": len(served.last) / served.span,
            "devices": devices,
            "busy": served.share("busy"),
            "prompt_share": served.share("prompt"),
            "cache_peak": served.cache_peak,
            "cache_tokens": deployment.cache_tokens,
            "weight_bytes_per_device": deployment.shares.held_bytes,
            "preemptions": int(served.preempted.sum()),
            "cost_usd_per_million_tokens": dollars,
            "energy_J_per_million_tokens_at_most": joules,
            **(drawn.row(self.rate_band) if drawn else NO_POWER),
            "meeting_limits": served.meeting(self.limits) if self.limits else None,
            "meeting_limits_low": self.slow.meeting(self.limits) if self.limits else None,
            "meeting_limits_high": self.fast.meeting(self.limits) if self.limits else None,
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a simulated request."""
        return self.served.to_frame()

    def events(self) -> Iterator[Event]:
        """The steps of each replica."""
        return self.served.events()

    def write_requests(self, path: str | os.PathLike[str]) -> None:
        """All requests as Parquet (or CSV, by the name's end).

        Raises
        ------
        InputError
            Where the name ends in neither .parquet nor .csv.
        """
        frame = self.to_frame()
        text = os.fspath(path)
        if text.endswith(".parquet"):
            with atomic_write(path, "wb") as stream:
                frame.to_parquet(stream, index=False)
        elif text.endswith(".csv"):
            write_csv(frame, path)
        else:
            raise InputError(f"{path}: want a name that ends in .parquet or .csv")

    @property
    def heads(self) -> tuple[str, ...]:
        """Who is served by what, and the rate with its band."""
        devices, summary = self.deployment.devices, self.summary()
        rate, low, high = self.rate_band
        each = f"{rate / devices:,.0f} a device, {summary['output_tokens_per_s_per_user']:,.1f} a user"
        sure, stream = verdict_text(within_near(rate, low, high)), self.traffic.rate is not None
        until = f" until the last of {len(self.served.last):,} is answered" if stream else ""
        return (
            f"{self.deployment.model.name} on {devices} x {self.deployment.machine.name}: {self.traffic.text()}",
            f"output: {rate:,.0f} tokens/s (80 %: {low:,.0f} .. {high:,.0f}){sure}, {each}; "
            f"{summary['requests_per_s']:.3g} requests/s{until}",
            *(one.text() for one in self.not_used),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was taken for granted."""
        return (*conditions_lines(self.conditions), "assuming: " + "; ".join(self.assumptions))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of the deployment, and of how many requests the edges of the band were simulated where not of all."""
        few = f"edges of the band as {self.edges_of:,} of the requests have them, quantile by quantile"
        return (*self.deployment.assumptions(), *([few] if self.edges_of else []))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What is given, then what the deployment takes."""
        named = {one.name for one in self.given}
        return (*self.given, *(one for one in self.deployment.conditions if one.name not in named))

    @property
    def depends(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """Conditions, and what was given and not used."""
        return depends_on(self.conditions, self.not_used)

    def document(self) -> list[dict[str, Any]]:
        """The figures of the whole, what bounds it, and all measures."""
        more = {
            **sure_row(within_near(*self.rate_band)),
            "assumptions": list(self.assumptions),
            "traffic": self.traffic.text(),
            "bounds": self.bounds,
            "measures": self.rows(),
            **({"workers": dict(self.workers)} if self.workers else {}),
        }
        return [{**self.summary(), **more}]


def serve(deployment: Deployment, traffic: Traffic, limits: Mapping[str, float] | None = None) -> Serving:
    """Simulate a deployment under traffic.

    Parameters
    ----------
    limits
        Seconds by measure (ttft, tpot, latency).

    Raises
    ------
    InputError
        Where the model does not fit, a request could never be served, or a power cap was set that idle power reaches.
    """
    few = traffic.shorter(SAMPLED)
    run = serving_runs(deployment, few)
    if few is not traffic and not steady(run.served, run.fast, run.slow):
        few, run = traffic, serving_runs(deployment, traffic)
    held, three = run.deployment, [run.served, run.fast, run.slow]
    if few is not traffic:
        whole = simulated_run(held, traffic, run.front)
        middle, *edges = (one.half(last=True) for one in three)
        three = [whole, *(whole.as_changed(middle, edge) for edge in edges)]
    median, mean, _, _ = left_by_own_runs(held, traffic)
    if median or mean:
        least = least_first(held, traffic)
        three = [one.with_first(math.exp(median), math.exp(mean), least) for one in three]
    served, fast, slow = three
    kept, sampled = FrozenDict(dict(limits or {})), 0 if few is traffic else len(few.requests)
    return Serving(held, traffic, kept, served, fast, slow, deployment.machine.clock, edges_of=sampled)
