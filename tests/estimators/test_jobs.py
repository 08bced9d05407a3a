"""Jobs by event simulation meet the queues that have a closed form, recurrences to 1e-9, and laws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.simulation.input_pipeline import Checkpoint, JobRun, Pipeline
from slipstick.estimators.simulation.job import Failures, Job
from slipstick.estimators.simulation.queueing import (
    StationVisit,
    closed_network,
    seconds_with_failures,
)
from slipstick.estimators.simulation.stage import Stage


def job(*stages: Stage, steps: int = 100, **more: object) -> Job:
    resources = more.pop("resources", {})
    return Job("job", Pipeline(stages, stages[-1].name, resources), steps, **more)  # type: ignore[arg-type]


def mean_wait(run: JobRun, place: int) -> float:
    times = run.attempts[0].runs[0].times
    started = times.started[place]
    return float(np.mean(started - np.sort(times.departed[place - 1])[: len(started)]))


def erlang(servers: int, load: float) -> float:
    """Mean wait of M/M/c with services of 1 s and this load a server: Erlang's C by the recursion of his B."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = servers * load * blocked / (count + servers * load * blocked)
    return blocked / (1 - load * (1 - blocked)) / (servers - servers * load)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), pytest.param(3, 0.8, marks=pytest.mark.slow), (8, 0.9)])
def test_many_servers_meet_erlang(servers: int, load: float) -> None:
    arrivals = Stage("arrivals", 1 / (servers * load), distribution="exponential", buffer=None)
    service = Stage("service", 1.0, workers=servers, distribution="exponential", order="free")
    waits = [mean_wait(job(arrivals, service, steps=40_000).simulate(seed), 1) for seed in range(3)]
    assert np.mean(waits) == pytest.approx(erlang(servers, load), rel=0.06)


@pytest.mark.parametrize(
    ("variation", "distribution"),
    [(0.0, "log-normal"), pytest.param(0.5, "log-normal", marks=pytest.mark.slow), (2.0, "gamma")],
)
def test_one_server_meets_pollaczek_khinchine(variation: float, distribution: str) -> None:
    arrivals = Stage("arrivals", 1 / 0.7, distribution="exponential", buffer=None)
    service = Stage("service", 1.0, variation=variation, distribution=distribution)  # type: ignore[arg-type]
    waits = [mean_wait(job(arrivals, service, steps=60_000).simulate(seed), 1) for seed in range(3)]
    assert np.mean(waits) == pytest.approx(0.7 * (1 + variation**2) / (2 * (1 - 0.7)), rel=0.06)


@pytest.mark.parametrize("population", [1, 5, 20, 60])
def test_a_closed_network_meets_mean_value_analysis(population: int) -> None:
    free = {"distribution": "exponential", "buffer": None, "order": "free"}
    stages = (
        Stage("think", 10.0, workers=population, **free),  # type: ignore[arg-type]
        Stage("one", 0.5, **free),  # type: ignore[arg-type]
        Stage("three", 1.0, workers=3, **free),  # type: ignore[arg-type]
    )
    run = job(*stages, steps=20_000, population=population).simulate(1)
    exact = closed_network([StationVisit(10.0, None), StationVisit(0.5), StationVisit(1.0, 3)], population)
    ends = run.step_ends()
    rate = (len(ends) - 2_000) / (ends[-1] - ends[1_999])
    assert rate == pytest.approx(exact.rate, rel=0.02)
    assert mean_wait(run, 1) == pytest.approx(exact.seconds[1] - 0.5, rel=0.1, abs=0.01)


def test_closed_forms_meet_textbook_values() -> None:
    # Kleinrock 1975, chapter 3, the machine repairman of two with Z = s = 1:
    # p0 = 1 / (1 + 2 + 2) for two customers, think and service of 1 s: the server is busy 4 / 5 of the time
    assert closed_network([StationVisit(1.0, None), StationVisit(1.0)], 2).rate == pytest.approx(4 / 5)
    # M/M/2//2: two servers for two customers leave no queue
    assert closed_network([StationVisit(1.0, None), StationVisit(1.0, 2)], 2).seconds[1] == pytest.approx(1.0)
    # without failures in sight work costs itself and its checkpoints
    assert seconds_with_failures(1000, 100, 5, 1e12, 50) == pytest.approx(1050, rel=1e-6)
    with pytest.raises(InputError):
        closed_network([], 0)


@pytest.mark.parametrize("population", [1, 7, 240])
def test_the_closed_network_is_mean_value_analysis(population: int) -> None:
    """Reiser and Lavenberg 1980: an arrival sees the network with one customer less."""
    think, services = 2.0, (0.3, 0.01, 0.05)
    lengths, rate = [0.0] * 3, 0.0
    for customers in range(1, population + 1):
        seconds = [own * (1 + length) for own, length in zip(services, lengths, strict=True)]
        rate = customers / (think + sum(seconds))
        lengths = [rate * own for own in seconds]
    found = closed_network([StationVisit(think, None), *(StationVisit(own) for own in services)], population)
    assert found.rate == pytest.approx(rate, rel=1e-9)
    assert found.seconds[1:] == pytest.approx(seconds, rel=1e-6)


def test_failures_cost_what_daly_says() -> None:
    one = job(Stage("step", 1.0), steps=400, checkpoint=Checkpoint(50, 5.0), failures=Failures(200.0, 20.0))
    times = [one.simulate(seed).time for seed in range(400)]
    expected = seconds_with_failures(400, 50, 5, 200, 20)
    assert one.ideal() == pytest.approx(expected)
    assert abs(np.mean(times) - expected) < 4 * np.std(times) / math.sqrt(len(times))
    assert min(times) >= 400 + 8 * 5 - 1e-9


def test_failures_that_let_nothing_be_done_are_refused() -> None:
    """The exponential of a stretch over the time between failures is beyond a float: it was a traceback."""
    for checkpoint in (None, Checkpoint(50, 5.0)):
        with pytest.raises(InputError, match=r"failures 1e-09 s apart among stretches of .* s between two checkpoints"):
            job(Stage("step", 1.0), steps=400, checkpoint=checkpoint, failures=Failures(1e-9, 20.0)).ideal()
    assert seconds_with_failures(400, 50, 5, 200, 20) == pytest.approx(220 * 8 * math.expm1(55 / 200), rel=1e-12)


def test_a_barrier_is_the_sum_of_slowest_copies() -> None:
    one = job(Stage("step", 1.0, variation=0.2, together=True), steps=50, copies=7)
    run = one.simulate(3)
    service = one._service(one._rows(np.random.default_rng([3, 0])), 50, 0, np.random.default_rng([3, 1]))
    ends = np.cumsum(np.max([row[0] for row in service], axis=0))
    np.testing.assert_allclose(run.step_ends(), ends, rtol=0, atol=1e-9)


@pytest.mark.parametrize("copies", [2, 7, 64])
def test_the_longest_of_exponential_times_is_a_harmonic_number(copies: int) -> None:
    stage = Stage("step", 2.0, variation=1.0, distribution="exponential")
    assert stage.longest(copies) == pytest.approx(2.0 * sum(1 / k for k in range(1, copies + 1)), rel=0.01)
    assert Stage("step", 2.0).longest(copies) == 2.0
    slow = Stage("step", 1.0, slow_share=0.1, slow_factor=3.0)
    assert slow.longest(copies) == pytest.approx(1 + 2 * (1 - 0.9**copies), rel=0.01)


@pytest.mark.parametrize("copies", [1, 4, pytest.param(64, marks=pytest.mark.slow)])
def test_the_formula_of_copies_that_wait_for_each_other_is_their_simulation(copies: int) -> None:
    varied = Stage("step", 1.0, variation=0.2, slow_share=0.01, slow_factor=2.0, uneven=0.05)
    kinds = [
        job(replace(varied, together=True), steps=100, copies=copies),
        job(
            replace(varied, buffer=None), Stage("sum", 0.1, together=True, buffer=None),
            steps=100, copies=copies, population=1,
        ),
    ]  # fmt: skip
    for one in kinds:
        simulated = np.mean([one.simulate(seed).time for seed in range(20)])
        assert one.ideal() == pytest.approx(simulated, rel=0.03)


def test_copies_that_start_together_take_no_turns() -> None:
    stages = (Stage("step", 1.0, together=True, resource="link"),)
    with pytest.raises(InputError, match="2 copies that start together cannot take turns at the resource 'link'"):
        Job("x", Pipeline(stages, "step", {"link": 1}), 5, copies=2)


def test_one_customer_never_waits() -> None:
    one = job(Stage("a", 1.0, variation=0.5, buffer=None), Stage("b", 2.0, variation=0.5, buffer=None), population=1)
    run = one.simulate(5)
    service = one._service(one._rows(np.random.default_rng([5, 0])), 100, 0, np.random.default_rng([5, 1]))[0]
    assert run.time == pytest.approx(float(service[0][:100].sum() + service[1].sum()), abs=1e-9)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_more_room_is_never_slower(buffer: int, workers: int, seed: int) -> None:
    def time(room: int) -> float:
        first = Stage("host", 1.0, workers=workers, buffer=room, variation=0.8)
        return job(first, Stage("device", 1.0 / workers, variation=0.8), steps=40).simulate(seed).time

    assert time(buffer + 1) <= time(buffer) + 1e-9


def test_a_seed_says_everything_and_shares_add_up() -> None:
    one = job(
        Stage("decode", 3.0, workers=4, variation=0.4, resource="cores", uneven=0.1, scatter=0.1),
        Stage("step", 1.0, slow_share=0.1, slow_factor=3),
        copies=2,
        resources={"cores": 5},
    )
    assert one.simulate(1).numbers() == one.simulate(1).numbers() != one.simulate(2).numbers()
    for shares in one.simulate(1).shares().values():
        assert sum(shares.values()) == pytest.approx(1)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="steps = 0"):
        job(Stage("a", 1.0), steps=0)
    with pytest.raises(InputError, match="more than 20,000,000"):
        job(Stage("a", 1.0), steps=30_000_000)
    with pytest.raises(InputError, match="go round need gather 1"):
        job(Stage("a", 1.0, buffer=2), population=3)
    with pytest.raises(InputError, match="one failure in 0.001 s of each copy is too many"):
        job(Stage("a", 1.0), failures=Failures(1e-3)).simulate()
