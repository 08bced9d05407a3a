"""A deployment under traffic, simulated: at its pace, at both edges of its band, with the first tokens of their law."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import quantile as quantile_of
from slipstick.estimators.engine_steps.measured_steps import STEP_REPEATS, ServerStep, cached_measured, left_by_runs
from slipstick.estimators.engine_steps.prompt_steps import first_parts, stepped_prompt_seconds
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.batching.server import PrefillWorkers, simulate
from slipstick.estimators.serving.batching.simulation_result import SimulationResult
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.drawn_power import held_back
from slipstick.workloads.runs.traffic import Traffic

LEVEL = 0.8
"""The share of answers that a band holds."""
CORRECTIONS, NEAR = 3, 0.03
"""Of first tokens to the law's: most, and the share that is left."""


@dataclass(frozen=True)
class ServingRuns:
    """A deployment at the clock that its cap leaves, simulated at its pace and at both edges of its band.

    `front`: seconds before the queue, so that first tokens are those of the law.
    `served`, `fast`, `slow`: requests and steps at the pace of the law and at the edges of its 80 % band.
    """

    deployment: Deployment
    front: float
    served: SimulationResult
    fast: SimulationResult
    slow: SimulationResult


def serving_runs(deployment: Deployment, traffic: Traffic) -> ServingRuns:
    """All simulations of a deployment under traffic.

    Raises
    ------
    InputError
        Where the model does not fit, a request could never be served, or a power cap was set that idle power reaches.
    """
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
    near = left_by_own_runs(held, traffic)[3]
    half = math.exp(beside_runs(held.half_width(mean_batch(held, served)), near, STEP_REPEATS))
    fast, slow = simulated_run(held, traffic, front, 1 / half), simulated_run(held, traffic, front, half)
    return ServingRuns(held, front, served, fast, slow)


def left_by_own_runs(deployment: Deployment, traffic: Traffic) -> tuple[float, float, float, float]:
    """Logs by which own measured runs move the median and the mean first token, and how near they lie (0 to 1).

    All are 0 where none was measured, or where prompts are read apart: see `left_by_runs`.
    """
    if not deployment.known or deployment.prefill:
        return 0.0, 0.0, 0.0, 0.0
    here = ServerStep(
        deployment.model, deployment.stored, deployment.machine, deployment.runs_under, Batch(), deployment.layout
    )
    return left_by_runs(cached_measured(deployment.known).steps, here, load_of(traffic))


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
