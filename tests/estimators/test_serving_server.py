"""The simulated server: conservation, bounds, closed forms, limits of queueing theory, speed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.batching.closed_loop import Load, steady
from slipstick.estimators.serving.batching.kv_cache_blocks import CacheBlocks
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.batching.server import simulate
from slipstick.estimators.serving.batching.simulation_result import SimulationResult
from slipstick.workloads.runs.requests import Request, arriving, drawn, recorded


def seconds(batch: Batch) -> float:
    """A server of 8 GB of weights at 4 TB/s and 100 us of kernels, 15 GFLOP a token at 500 TFLOP/s."""
    memory = (8e9 + 131_072 * batch.decodes * batch.context) / 4e12
    return 1e-4 + memory + 15e9 * batch.tokens / 5e14


def slow(batch: Batch) -> float:
    """The same with three quarters of the memory bandwidth."""
    memory = (8e9 + 131_072 * batch.decodes * batch.context) / 3e12
    return 1e-4 + memory + 15e9 * batch.tokens / 5e14


def conserved(served: SimulationResult, requests: tuple[Request, ...]) -> None:
    """Every request finishes once, in order; tokens add up; nothing is faster than its steps allow."""
    assert np.isfinite(served.last).all()
    assert (served.arrived <= served.placed).all()
    assert (served.placed < served.first).all()
    assert (served.first <= served.last).all()
    rows = served.stretches
    first = len(requests) + int((served.preempted > 0).sum())  # each prompt read gives a token, again after preemption
    made = (rows[:, 3] * rows[:, 4]).sum() + len(requests) + served.preempted.sum()
    wanted = sum(r.output_tokens for r in requests)
    assert made >= wanted
    if not served.preempted.sum():
        assert made == wanted
    read = (rows[:, 3] * rows[:, 5]).sum()
    assert read >= sum(r.input_tokens - r.cached_tokens for r in requests)
    assert served.cache_peak <= 1
    least = seconds(Batch(1, 1.0))
    further = served.output_tokens > 1
    assert (served.tpot[further] >= least * (1 - 1e-9)).all()
    assert first >= len(requests)


@given(
    lengths=st.lists(st.tuples(st.integers(1, 400), st.integers(1, 120)), min_size=1, max_size=40),
    users=st.integers(1, 20),
    cache=st.integers(33, 400),
    budget=st.integers(60, 600),
    chunked_prefill=st.booleans(),
    preemption=st.sampled_from(["cached", "recompute", "swap"]),
    replicas=st.integers(1, 3),
)
def test_conservation(lengths, users, cache, budget, chunked_prefill, preemption, replicas) -> None:  # type: ignore[no-untyped-def]
    requests = tuple(Request(a, b, cached_tokens=min(a - 1, a // 3)) for a, b in lengths)
    rules = Scheduler(budget, 30, 16, cache * 16, chunked_prefill, preemption, 1e-6)
    conserved(simulate(requests, seconds, rules, users, replicas), requests)


@settings(max_examples=20, deadline=None)
@given(rate=st.floats(0.5, 200), burstiness=st.floats(0, 4), seed=st.integers(0, 99))
def test_conservation_of_streams(rate: float, burstiness: float, seed: int) -> None:
    requests = arriving(drawn(60, 200, 60, 0.5, seed=seed), rate, burstiness, seed)
    conserved(simulate(requests, seconds, Scheduler(cache_tokens=4000), replicas=2), requests)


def test_lock_step_in_closed_form() -> None:
    served = simulate(drawn(640, 100, 200), seconds, Scheduler(), users=64)
    closed = steady(seconds, Scheduler(), Load(100, 200, 64), phase="lock-step")
    assert closed.tpot == pytest.approx(served.quantiles("tpot")["mean"], rel=1e-9)
    assert closed.ttft == pytest.approx(served.quantiles("ttft")["mean"], rel=1e-9)
    assert closed.output_rate == pytest.approx(served.output_rate, rel=1e-9)


CLOSED_LOOPS = [(512, 256, 8), (512, 256, 64), (1000, 1000, 32), (1024, 128, 64)]


@pytest.mark.parametrize(("inputs", "outputs", "users"), CLOSED_LOOPS)
def test_staggered_in_closed_form(inputs: int, outputs: int, users: int) -> None:
    served = simulate(drawn(max(2000, 60 * users), inputs, outputs, 0.4), seconds, Scheduler(), users=users)
    late = slice(10 * users, -5 * users)  # the steady state: start and end left out
    closed = steady(seconds, Scheduler(), Load(inputs * 0.8, outputs * 0.8, users))
    assert closed.tpot == pytest.approx(float(served.tpot[late].mean()), rel=0.01)
    rate = served.output_tokens[late].sum() / (served.last[late].max() - served.arrived[late].min())
    assert closed.output_rate == pytest.approx(float(rate), rel=0.03)
    cycle = float(served.latency[late].mean())
    assert closed.output_rate == pytest.approx(users * outputs * 0.8 / cycle, rel=0.01)


def test_one_at_a_time_is_a_queue_with_fixed_service() -> None:
    """M/D/1: the mean wait is rho S / (2 (1 - rho)) (Kleinrock, Queueing Systems I, 1975, section 5.6)."""
    requests = drawn(40_000, 100, 1)
    service = seconds(Batch(prompt=100, chunk=100, finished=1))
    load = 0.7
    served = simulate(arriving(requests, load / service, seed=3), seconds, Scheduler(max_num_seqs=1))
    wait = float((served.placed - served.arrived).mean())
    assert wait == pytest.approx(load * service / (2 * (1 - load)), rel=0.05)


@pytest.mark.parametrize(("most", "users"), [(16, 32), (16, 16), (256, 16)])
def test_a_budget_of_one_token_a_sequence_reads_prompts_as_sequences_end(most: int, users: int) -> None:
    """vLLM wants max_num_batched_tokens >= max_num_seqs, equal allowed: one token of each, as many as decode together.

    Whoever reads its prompt does not decode, so that a token is left for it; no step holds more than the 16.
    """
    requests, rules = drawn(64, 40, 10), Scheduler(16, most)
    batches: list[Batch] = []

    def timed(batch: Batch) -> float:
        batches.append(batch)
        return 1.0

    served = simulate(requests, timed, rules, users)
    conserved(served, requests)
    assert max(batch.tokens for batch in batches) == 16
    assert served.last.max() >= sum(one.input_tokens + one.output_tokens - 1 for one in requests) / 16
    with pytest.raises(
        InputError, match="want at least the 17 sequences .*--max-batched-tokens 17, or --max-num-seqs 16"
    ):
        simulate(requests, timed, Scheduler(16, 17), users=32)


def test_one_at_a_time_in_a_closed_loop() -> None:
    """A closed network of one server: every request waits for the users before it."""
    served = simulate(drawn(400, 100, 10), seconds, Scheduler(max_num_seqs=1), users=5)
    one = simulate(drawn(1, 100, 10), seconds, Scheduler(max_num_seqs=1), users=1)
    assert served.latency[10:].mean() == pytest.approx(5 * one.latency[0], rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(inputs=st.integers(1, 900), outputs=st.integers(2, 300), users=st.integers(1, 40), seed=st.integers(0, 9))
def test_more_bandwidth_is_never_slower_in_a_closed_loop(inputs: int, outputs: int, users: int, seed: int) -> None:
    requests = drawn(users, inputs, outputs, 0.3, seed=seed)
    rules = Scheduler(token_budget=10**9, max_num_seqs=10**6, cache_tokens=10**9)
    fast, today = simulate(requests, seconds, rules, users), simulate(requests, slow, rules, users)
    assert (fast.last <= today.last * (1 + 1e-12)).all()


@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=20), steps=st.integers(0, 100), block=st.integers(1, 33)
)
def test_blocks_are_those_of_each_sequence(sizes: list[int], steps: int, block: int) -> None:
    cache = CacheBlocks(10**6, block)
    for size in sizes:
        cache.take(cache.blocks(size))
        cache.start(size)
    cache.grow(steps)
    assert cache.used == sum(-(-(size + steps) // block) for size in sizes)
    for size in sizes:
        cache.stop(size + steps)
    assert cache.used == 0


def test_recorded_requests(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    lines = [{"input_tokens": 100, "output_tokens": 5, "arrival_s": t} for t in (0.5, 0.0)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    requests = recorded(path)
    assert [r.arrival for r in requests] == [0.0, 0.5]
    served = simulate(requests, seconds, Scheduler())
    assert served.arrived.tolist() == [0.0, 0.5]
    assert served.write_trace(tmp_path / "steps.json") == len(served.stretches)
    path.write_text('{"input_tokens": true, "output_tokens": 3}')
    with pytest.raises(InputError, match="line 1: input_tokens"):
        recorded(path)


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(InputError, match="does not fit the cache"):
        simulate(drawn(2, 1000, 10), seconds, Scheduler(cache_tokens=512), users=1)
    with pytest.raises(InputError, match="users"):
        simulate(drawn(2, 10, 10), seconds, Scheduler())


@pytest.mark.timed
@pytest.mark.parametrize("users", [8, 64])
def test_twenty_thousand_requests_in_twelve_seconds_of_cpu(users: int) -> None:
    """A fifth of 1e5 requests of 256 tokens in a fifth of a minute."""
    started = time.process_time()
    served = simulate(drawn(20_000, 512, 256, 0.2), seconds, Scheduler(), users=users)
    assert time.process_time() - started < 12
    assert served.steps > 60_000


def test_one_token_is_over_with_the_prompts() -> None:
    closed = steady(seconds, Scheduler(), Load(100, 1, 16), phase="lock-step")
    step = seconds(Batch(prompt=1600, chunk=100, finished=16))
    assert (closed.ttft, closed.tpot) == (pytest.approx(step), 0.0)
    assert closed.output_rate == pytest.approx(16 / step)


@pytest.mark.parametrize(("users", "replicas", "front"), [(40, 1, 0.0), (40, 1, 0.03), (40, 3, 0.03), (None, 2, 0.01)])
def test_waits_passed_at_once_are_those_of_events(
    users: int | None, replicas: int, front: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = drawn(400, 300, 60, 0.5)
    requests = requests if users else arriving(requests, 60.0, 2.0)
    rules = Scheduler(cache_tokens=9_000)  # so few that places are lost
    at_once = simulate(requests, seconds, rules, users, replicas, front=front)
    monkeypatch.setattr("slipstick.estimators.simulation.event_clock.EventClock.passes", lambda *_: False)
    by_events = simulate(requests, seconds, rules, users, replicas, front=front)
    for name in ("arrived", "placed", "first", "last", "preempted", "replica", "stretches"):
        np.testing.assert_array_equal(getattr(at_once, name), getattr(by_events, name))
