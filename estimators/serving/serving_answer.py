"""The answer to a serving question: what users get, what devices give, how sure that is, what bounds it.

What a deployment draws while it serves: watts of all its devices, joules of an output token, with 80 % bands.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.answer import Answer, Event, Provenance
from slipstick.common.errors import InputError
from slipstick.common.frames import write_csv
from slipstick.common.records import FrozenDict
from slipstick.common.writer import atomic_write
from slipstick.estimators.base.conditions import Condition, NotUsed, conditions_lines, depends_on
from slipstick.estimators.base.estimate import quantile as quantile_of
from slipstick.estimators.base.sureness import sure_row, verdict_text, within_near
from slipstick.estimators.engine_steps.first_token import FirstParts
from slipstick.estimators.engine_steps.measured_steps import FIRST_REPEATS, STEP_REPEATS, ServerStep, left_by_runs
from slipstick.estimators.engine_steps.prompt_steps import first_parts, stepped_prompt_seconds
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.engine_steps.step_time import StepTime
from slipstick.estimators.power.facility import Facility
from slipstick.estimators.power.power_cap import cap_watts
from slipstick.estimators.power.serving_power import ServingPower, ServingWork
from slipstick.estimators.power.serving_power_law import COLUMNS, power_fit, power_groups
from slipstick.estimators.serving.batching.server import PrefillWorkers, simulate
from slipstick.estimators.serving.batching.simulation_result import SimulationResult, steady
from slipstick.estimators.serving.deployment import Deployment
from slipstick.workloads.runs.traffic import Traffic

if TYPE_CHECKING:
    import pandas as pd


NO_POWER: Mapping[str, Any] = dict.fromkeys(
    (
        "power_W", "low_power_W", "high_power_W", "energy_J_per_token", "low_energy_J_per_token",
        "high_energy_J_per_token",
    )
)  # fmt: skip
"""The figures of a machine that states no power cap."""
SAME_CLOCK = 1e-9
"""Share of a clock that is rounding."""


@dataclass(frozen=True)
class DeploymentPower:
    """Mean power of all devices of a deployment [W], hosts and cooling apart, and half of the 80 % band of its log."""

    watts: float
    half_width: float
    cap: float

    def row(self, rate: tuple[float, float, float]) -> dict[str, Any]:
        """Figures with their bands; `rate` is output tokens/s with low and high.

        Power and pace are taken as independent, so that the band of a token's energy is wider than each alone; it ends
        at the cap at the slow end of the pace.
        """
        middle, low, high = rate
        paces = max(abs(math.log(middle / low)), abs(math.log(high / middle)))
        both = math.exp(math.hypot(self.half_width, paces))
        width, joules = math.exp(self.half_width), self.watts / middle
        return {
            "power_W": self.watts,
            "low_power_W": self.watts / width,
            "high_power_W": min(self.watts * width, self.cap),
            "energy_J_per_token": joules,
            "low_energy_J_per_token": joules / both,
            "high_energy_J_per_token": min(joules * both, self.most_joules(low)),
        }

    def most_joules(self, low: float) -> float:
        """Joules of an output token at the cap, where the deployment makes `low` tokens/s, the slow end of the band."""
        return self.cap / low


def drawn_power(deployment: Deployment, served: SimulationResult) -> DeploymentPower | None:
    """Mean power over a simulated run; None where the machine states no power cap."""
    machine, layout = deployment.machine, deployment.layout
    if machine.power.cap is None:
        return None
    if deployment.prefill:
        pools = (drawn_power(*one) for one in _pools(deployment, served))
        return _together([one for one in pools if one is not None])
    busy = served.share("busy")
    work = _mean_work(deployment, served)
    watts = ServingPower.of(machine).watts(machine, work, min(busy, 1.0)) * layout.devices
    half = power_fit().half_width(dict(zip(COLUMNS, work.columns(), strict=True)), power_groups(machine))
    return DeploymentPower(watts, half, cap_watts(machine) * layout.devices)


def _pools(deployment: Deployment, served: SimulationResult) -> tuple[tuple[Deployment, SimulationResult], ...]:
    """The workers that decode and those that read prompts, each with its steps."""
    decoding = replace(deployment, prefill=None, link_bandwidth=0.0)
    return (decoding, served.of_workers(read=False)), (deployment.reader, served.of_workers(read=True))


def _together(pools: Sequence[DeploymentPower]) -> DeploymentPower:
    """Power of all: errors of one law, so that widths do not average out."""
    watts, cap = sum(one.watts for one in pools), sum(one.cap for one in pools)
    return DeploymentPower(watts, sum(one.half_width * one.watts for one in pools) / watts, cap)


def held_back(deployment: Deployment, served: SimulationResult) -> Deployment:
    """The deployment at the clock that its power cap leaves; the same one where the cap holds nothing back.

    Nothing is held back at the stated cap and clock: measured times of a board are already those under its rated power.
    One clock holds for the whole run, that of its mean power while busy.
    Raises InputError where a cap was set that idle power and that of memory reach.
    """
    machine = deployment.machine
    board = machine.stated
    if machine.power.cap is None or (machine.power.cap, machine.clock) == (board.power.cap, board.clock):
        return deployment
    if deployment.prefill:
        decoding, reading = (held_back(*one) for one in _pools(deployment, served))
        return replace(deployment, machine=decoding.machine, prefill=reading)
    clock = ServingPower.of(machine).held_clock(machine, _mean_work(deployment, served))
    if clock >= machine.clock * (1 - SAME_CLOCK):
        return deployment
    return replace(deployment, machine=machine.using({"clock": clock}))


def _mean_work(deployment: Deployment, served: SimulationResult) -> ServingWork:
    """What one device does in a mean step of a run, at the clock that its machine states."""
    rows, layout = served.stretches, deployment.layout
    machine, step = deployment.machine, deployment.step
    steps = float(rows[:, 3].sum())
    seconds = float((rows[:, 2] - rows[:, 1]).sum()) / steps
    decodes = float((rows[:, 3] * rows[:, 4]).sum()) / steps / layout.data
    prompts = float((rows[:, 3] * rows[:, 5]).sum()) / steps / layout.data
    length = float(served.input_tokens.mean())
    context = length + float(served.output_tokens.mean()) / 2
    decoding = Batch(max(decodes, 1.0), context)
    chunk = max(1.0, min(length, float(deployment.rules.token_budget)))
    reading = Batch(prompt=chunk, chunk=chunk, finished=chunk / max(length, 1.0))
    if machine.clock != machine.stated.clock:
        stated = replace(deployment, machine=machine.using({"clock": machine.stated.clock})).step

        def mean_step(time: StepTime) -> float:
            return time.seconds(decoding) + time.seconds(reading) * prompts / chunk

        seconds *= mean_step(stated) / mean_step(step)
        step = stated
    read, flop = step.demands(decoding)
    _, more = step.demands(reading)
    return ServingWork(
        read / seconds,
        (flop + more * prompts / chunk) / seconds,
        layout.tensor * layout.data * layout.pipeline,
        max(decodes, 1.0),
        float(deployment.shares.narrow_experts),
        float(layout.data > 1),
    )


KINDS = FrozenDict(prefill=True, decode=False)
"""Workers, and whether they read prompts."""
MEASURES = ("ttft", "tpot", "itl", "latency")
QUANTILES = ("mean", "p50", "p90", "p99")
LEVEL = 0.8
CORRECTIONS, NEAR = 3, 0.03
"""Of first tokens to the law's: most, and the share that is left."""
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
        return beside_runs(half, _left(self.deployment, self.traffic)[2], FIRST_REPEATS)

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
    run = _runs(deployment, few)
    if few is not traffic and not steady(run.served, run.fast, run.slow):
        few, run = traffic, _runs(deployment, traffic)
    held, three = run.deployment, [run.served, run.fast, run.slow]
    if few is not traffic:
        whole = simulated_run(held, traffic, run.front)
        middle, *edges = (one.half(last=True) for one in three)
        three = [whole, *(whole.as_changed(middle, edge) for edge in edges)]
    median, mean, _, _ = _left(held, traffic)
    if median or mean:
        least = least_first(held, traffic)
        three = [one.with_first(math.exp(median), math.exp(mean), least) for one in three]
    served, fast, slow = three
    kept, sampled = FrozenDict(dict(limits or {})), 0 if few is traffic else len(few.requests)
    return Serving(held, traffic, kept, served, fast, slow, deployment.machine.clock, edges_of=sampled)


@dataclass(frozen=True)
class _Runs:
    """A deployment at the clock that its cap leaves, simulated at its pace and at both edges of its band.

    `front`: seconds before the queue, so that first tokens are those of the law.
    """

    deployment: Deployment
    front: float
    served: SimulationResult
    fast: SimulationResult
    slow: SimulationResult


def _runs(deployment: Deployment, traffic: Traffic) -> _Runs:
    """All simulations of a deployment under traffic."""
    served = simulated_run(deployment, traffic)
    held = held_back(deployment, served)
    if held is not deployment:
        served = simulated_run(held, traffic)
    front = max(0.0, front_seconds(held, traffic))
    wanted = first_median(held, traffic, served, front)
    missing, step = wanted - float(np.median(served.ttft)), 1.0
    for _ in range(CORRECTIONS):  # a longer wait before the queue shortens the queue, and phases lock or not
        if abs(missing) < NEAR * wanted:
            break
        longer = max(0.0, front + step * missing)
        tried = simulated_run(held, traffic, longer)
        left = wanted - float(np.median(tried.ttft))
        if abs(left) < abs(missing):
            served, front, missing = tried, longer, left
        else:
            step /= 2
    front *= held.front
    served = simulated_run(held, traffic, front) if held.front != 1.0 else served
    near = _left(held, traffic)[3]
    half = math.exp(beside_runs(held.half_width(mean_batch(held, served)), near, STEP_REPEATS))
    fast, slow = simulated_run(held, traffic, front, 1 / half), simulated_run(held, traffic, front, half)
    return _Runs(held, front, served, fast, slow)


def _left(deployment: Deployment, traffic: Traffic) -> tuple[float, float, float, float]:
    """See `left_by_runs`."""
    if not deployment.known or deployment.prefill:
        return 0.0, 0.0, 0.0, 0.0
    here = ServerStep(deployment.model, deployment.stored, deployment.machine, "", Batch(), deployment.layout)
    return left_by_runs(deployment.known, here, load_of(traffic))


def beside_runs(half: float, near: float, repeats: float) -> float:
    """Half of a band of log time: of another run of what was measured where that is near, as without it far away."""
    return math.hypot(half * math.sqrt(1 - near**2), near * quantile_of(LEVEL, None) * repeats)


def least_first(deployment: Deployment, traffic: Traffic) -> float:
    """Seconds below which no first token of this traffic comes: see `Serving.least_first`."""
    fewest = min(r.input_tokens - r.cached_tokens for r in traffic.requests)
    return deployment.reader.least_first(max(1.0, float(fewest)))


def load_of(traffic: Traffic) -> tuple[float, float, float]:
    """The load of requests as measured first tokens name it: see `TimedFirstToken`."""
    count = len(traffic.requests)
    read = sum(r.input_tokens - r.cached_tokens for r in traffic.requests) / count
    made = sum(r.output_tokens for r in traffic.requests) / count
    many = math.log(traffic.users) if traffic.users else -100.0 + math.log(traffic.rate or 1e-3)
    return many, math.log(max(read, 1.0)), math.log(max(made, 1.0))


def first_median(deployment: Deployment, traffic: Traffic, served: SimulationResult, front: float) -> float:
    """The median first token: in a closed loop the law's, as plans have it, or what the simulated steps alone take.

    Either is as much longer as measured first tokens of one's own say.
    """
    load, median = means(traffic, served), float(np.median(served.ttft))
    factor = deployment.first_factor(*load)
    if not traffic.users or deployment.prefill:  # the law is of servers that read prompts beside decoding
        return factor * median
    return factor * max(deployment.first_seconds(*load), median - front)


def means(traffic: Traffic, served: SimulationResult) -> tuple[float, float, float, float]:
    """Tokens of a prompt that are read, those made for it, requests at a time, and tokens found in the cache.

    Requests at a time are those of the loop, else those that a run had.
    """
    users = float(traffic.users or served.latency.sum() / served.span)
    cached = _cached(traffic)
    tokens = (float(served.input_tokens.mean()) - cached, float(served.output_tokens.mean()))
    return max(tokens[0], 1.0), max(tokens[1], 1.0), max(users, 1.0), cached


def _cached(traffic: Traffic) -> float:
    """Tokens of a prompt that are in the cache already, at the mean."""
    return sum(request.cached_tokens for request in traffic.requests) / len(traffic.requests)


def mean_batch(deployment: Deployment, served: SimulationResult) -> Batch:
    """The decode step that a run took at the mean."""
    rows = served.of_workers(read=False).stretches
    decodes = float((rows[:, 3] * rows[:, 4]).sum() / rows[:, 3].sum()) / deployment.layout.data
    context = float(served.input_tokens.mean() + served.output_tokens.mean() / 2)
    return Batch(max(decodes, 1.0), context)


def simulated_run(
    deployment: Deployment, traffic: Traffic, front: float | None = None, factor: float = 1.0
) -> SimulationResult:
    """One simulated run with every step `factor` times as long; `front` seconds before the queue, else those fitted.

    Raises InputError where prefill workers read requests of one token alone.
    """
    layout, seconds = deployment.layout, deployment.seconds(factor)
    wait = max(0.0, front_seconds(deployment, traffic)) if front is None else front
    users, rules = traffic.users, deployment.scheduler
    prefill = _readers(deployment, factor)
    if prefill and all(request.output_tokens == 1 for request in traffic.requests):
        raise InputError("requests of one token: their prefill workers make it, and none goes to one that decodes")
    return simulate(traffic.requests, seconds, rules, users, layout.replicas, layout.data, wait, prefill)


def _readers(deployment: Deployment, factor: float) -> PrefillWorkers | None:
    """The workers that read prompts apart, with every step `factor` times as long; None where there are none."""
    if deployment.prefill is None:
        return None
    reader, layout = deployment.prefill, deployment.prefill.layout
    sent = deployment.kv_transfer.seconds
    return PrefillWorkers(reader.seconds(factor), reader.scheduler, layout.replicas, layout.data, sent)


def front_seconds(deployment: Deployment, traffic: Traffic) -> float:
    """Seconds before a request reaches the queue: fitted, since steps and queue alone do not explain it.

    Where prompts are read apart, a request waits for no steps of others but those that are simulated. Below 0 where the
    law of first tokens takes a prompt as shorter than its simulated step: nothing is then left before the queue.
    """
    requests, reader, replicas = traffic.requests, deployment.reader, deployment.layout.replicas
    cached = _cached(traffic)
    mean_input = max(1.0, sum(r.input_tokens for r in requests) / len(requests) - cached)
    outputs = sum(r.output_tokens for r in requests) / len(requests)
    context, budget = cached + mean_input + outputs / 2, reader.rules.token_budget
    one = first_parts(reader.reading, mean_input, outputs, 1.0, 0.0, budget, cached)
    present = traffic.users or _present(traffic, one.alone + outputs * deployment.step.seconds(Batch(1.0, context)))
    users = max(1.0, present / replicas)
    decodes = max(1.0, min(users / deployment.layout.data, deployment.rules.max_num_seqs))
    tpot = 0.0 if deployment.prefill else deployment.step.seconds(Batch(decodes, context))
    stepped = stepped_prompt_seconds(reader.step, mean_input, budget, cached)
    return deployment.first_token.front(replace(one, users=users, tpot=tpot), stepped)


def _present(traffic: Traffic, seconds: float) -> float:
    """Requests of a stream that are served at a time, where each alone takes so long: Little's law, at most all."""
    times = [request.arrival or 0.0 for request in traffic.requests]
    span, every = times[-1] - times[0], float(len(times))
    return seconds * (every - 1) / span if span * every > seconds * (every - 1) else every
