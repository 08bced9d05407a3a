"""Prefill and decode on workers of their own: closed forms, bounds and laws of queues."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.batching.server import PrefillWorkers, simulate
from slipstick.workloads.runs.requests import Request, arriving, drawn

RULES = Scheduler(cache_tokens=2_000_000)


def seconds(batch: Batch) -> float:
    """A worker of 8 GB of weights at 4 TB/s and 100 us of kernels, 15 GFLOP a token at 500 TFLOP/s."""
    memory = (8e9 + 131_072 * batch.decodes * batch.context) / 4e12
    return 1e-4 + memory + 15e9 * batch.tokens / 5e14


def at_once(tokens: int) -> float:
    """A link of any bandwidth."""
    return 0.0


def sent(tokens: int) -> float:
    """50 GB/s and 10 us."""
    return 1e-5 + 131_072 * tokens / 50e9


def workers(count: int = 1, transfer=at_once, rules: Scheduler = RULES) -> PrefillWorkers:  # type: ignore[no-untyped-def]
    return PrefillWorkers(seconds, rules, count, 1, transfer)


@pytest.mark.parametrize("transfer", [at_once, sent])
def test_one_request_takes_its_prompt_its_transfer_and_decode_steps_alone(transfer) -> None:  # type: ignore[no-untyped-def]
    served = simulate((Request(1000, 51),), seconds, RULES, 1, prefill=workers(1, transfer))
    read = seconds(Batch(prompt=1000, chunk=1000, finished=1))
    assert served.ttft[0] == pytest.approx(read + transfer(1000), rel=1e-9)
    steps = [seconds(Batch(1, 1001.0 + i)) for i in range(50)]
    assert served.tpot[0] == pytest.approx(np.mean(steps), rel=1e-9)


def test_decoding_waits_for_no_prompt() -> None:
    """The mean time of a further token is that of decode steps, whatever prompts come; beside prompts it is longer."""
    requests = arriving(drawn(400, 2000, 100, 0.2), 8.0)
    apart = simulate(requests, seconds, RULES, prefill=workers())
    steps = apart.of_workers(read=False).stretches
    assert not steps[:, 5].any() and not apart.of_workers(read=True).stretches[:, 4].any()
    alone = np.array([seconds(Batch(n, 2000.0)) for n in steps[:, 4]])
    assert apart.tpot.max() <= alone.max() * 1.02
    together = simulate(requests, seconds, RULES, replicas=2)
    assert np.quantile(apart.tpot, 0.9) < np.quantile(together.tpot, 0.9)


@given(
    lengths=st.lists(st.tuples(st.integers(1, 400), st.integers(1, 120)), min_size=1, max_size=40),
    users=st.integers(1, 20),
    cache=st.integers(33, 400),
    budget=st.integers(60, 600),
    preemption=st.sampled_from(["cached", "recompute", "swap"]),
    readers=st.integers(1, 3),
    replicas=st.integers(1, 3),
    pace=st.sampled_from([0.0, 1.0, 100.0]),
)
def test_conservation(lengths, users, cache, budget, preemption, readers, replicas, pace) -> None:  # type: ignore[no-untyped-def]
    """Every request ends once, in order; each token is made once; prompts are read once and sent before they go on."""
    requests = tuple(Request(a, b, cached_tokens=min(a - 1, a // 3)) for a, b in lengths)
    rules = Scheduler(budget, 30, 16, cache * 16, "mixed", preemption, 1e-6)
    pool = PrefillWorkers(seconds, rules, readers, 1, lambda tokens: pace * sent(tokens))
    served = simulate(requests, seconds, rules, users, replicas, prefill=pool)
    assert np.isfinite(served.last).all()
    for before, after in itertools.pairwise((served.arrived, served.placed, served.read, served.first, served.last)):
        assert (before <= after).all()
    on = served.output_tokens > 1
    assert (served.first - served.read)[on] == pytest.approx(
        np.maximum((served.first - served.read)[on], [pace * sent(int(n)) for n in served.input_tokens[on]]), rel=1e-6
    )
    made = served.of_workers(read=False).stretches
    tokens = (made[:, 3] * made[:, 4]).sum()
    wanted = sum(r.output_tokens - 1 for r in requests)
    assert tokens <= wanted <= tokens + served.preempted.sum()  # a sequence read again makes one as its prompt ends
    prompts = served.of_workers(read=True).stretches
    assert (prompts[:, 3] * prompts[:, 5]).sum() == sum(r.input_tokens - r.cached_tokens for r in requests)
    assert served.cache_peak <= 1


@pytest.mark.parametrize(("readers", "replicas"), [(1, 1), (1, 3), (3, 1)])
def test_the_slower_side_bounds_the_rate(readers: int, replicas: int) -> None:
    users, tokens, made = 64, 1000, 100
    served = simulate(drawn(2000, tokens, made), seconds, RULES, users, replicas, prefill=workers(readers, sent))
    full = RULES.token_budget // tokens
    reading = readers * full / seconds(Batch(prompt=full * tokens, chunk=tokens, finished=full))
    decoding = users / (made - 1) / seconds(Batch(users / replicas, tokens))
    linked = min(readers, replicas) / sent(tokens)
    rate = len(served.last) / served.span
    assert rate <= 1.001 * min(reading, decoding, linked)
    if readers == 1:  # its prompts are the neck: the prefill worker is never idle for long
        assert rate > 0.9 * reading


def test_a_slow_link_is_the_neck() -> None:
    served = simulate(drawn(500, 1000, 20), seconds, RULES, 32, prefill=workers(4, lambda tokens: 0.05))
    first = np.sort(served.first)[32:]
    assert np.diff(first).mean() == pytest.approx(0.05, rel=1e-3)


def test_littles_law() -> None:
    """Users of a closed loop are its rate times the time that a request stays (Little, 1961)."""
    users = 48
    served = simulate(drawn(4000, 800, 200, 0.4), seconds, RULES, users, 2, prefill=workers(2, sent))
    late = slice(10 * users, -5 * users)
    rate = len(served.last[late]) / (served.arrived[late].max() - served.arrived[late].min())
    assert rate * served.latency[late].mean() == pytest.approx(users, rel=0.02)


def test_prefill_is_a_queue_with_fixed_service() -> None:
    """M/D/1: the mean wait is rho S / (2 (1 - rho)) (Kleinrock, Queueing Systems I, 1975, section 5.6)."""
    service, load = seconds(Batch(prompt=500, chunk=500, finished=1)), 0.7
    requests = arriving(drawn(40_000, 500, 2), load / service, seed=3)
    pool = workers(1, at_once, Scheduler(max_num_seqs=1))
    served = simulate(requests, seconds, RULES, prefill=pool)
    assert (served.placed - served.arrived).mean() == pytest.approx(load * service / (2 * (1 - load)), rel=0.05)


def test_a_prompt_holds_its_worker_until_it_is_sent() -> None:
    """Where the cache has room for one prompt, the next is read after the last byte of the one before is gone."""
    read, gone = seconds(Batch(prompt=1000, chunk=1000, finished=1)), 2.0
    small = workers(1, lambda tokens: gone, Scheduler(cache_tokens=1024))
    served = simulate(arriving(drawn(4, 1000, 2), 1e6, seed=0), seconds, RULES, prefill=small)
    assert np.diff(np.sort(served.placed)) == pytest.approx([read + gone] * 3, rel=1e-3)
    roomy = simulate(arriving(drawn(4, 1000, 2), 1e6, seed=0), seconds, RULES, prefill=workers(1, lambda tokens: gone))
    assert np.ptp(roomy.placed) < 4 * read


@pytest.mark.parametrize("rate", [5.0, 20.0, 60.0])
def test_more_prefill_workers_never_delay_first_tokens(rate: float) -> None:
    requests = arriving(drawn(600, 1500, 60, 0.5), rate)
    times = [
        simulate(requests, seconds, RULES, replicas=8, prefill=workers(n, sent)).ttft.mean() for n in (1, 2, 4, 8, 16)
    ]
    assert all(after <= before * (1 + 1e-3) for before, after in itertools.pairwise(times))
    assert times[-1] < times[0]


def test_a_request_that_no_prefill_worker_holds_is_refused() -> None:
    with pytest.raises(InputError, match="request of 1,001 tokens does not fit the cache of 160 tokens"):
        simulate((Request(1000, 5),), seconds, RULES, 1, prefill=workers(rules=Scheduler(cache_tokens=160)))
    with pytest.raises(InputError, match="0 prefill workers"):
        workers(0)
