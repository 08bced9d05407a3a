"""The simulation of Figure 4: equal to the closed form where threads divide the work, else off by the imbalance."""

import math
import time

import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.cpu import xeon_phi_study as xeon_phi
from slipstick.estimators.schedules.thread_contention import Contention
from slipstick.estimators.simulation.thread_simulation import SharedMemory, simulate_round
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.networks.phi_cnn import phi_cnn, phi_network


def without_contention(strategy: str):
    base = xeon_phi.estimator(strategy)
    from dataclasses import replace

    nothing = FrozenDict({size: Contention(0.0, 0.0) for size in xeon_phi.SIZES})
    return replace(base, schedule=replace(base.schedule, contention=nothing))


@pytest.mark.parametrize("contention", ["none", "as measured"])
@pytest.mark.parametrize("size", xeon_phi.SIZES)
@pytest.mark.parametrize("threads", [1, 16, 80, 200, 250, 400])
def test_equal_to_the_closed_form_where_threads_divide_the_images(size: str, threads: int, contention: str) -> None:
    make = xeon_phi.estimator if contention == "as measured" else without_contention
    run, workload = {"threads": threads}, phi_cnn(size)
    formula = make("a").estimate(workload, machine("xeon-phi-7120p"), run).time
    simulated = make("simulated").estimate(workload, machine("xeon-phi-7120p"), run)
    assert simulated.time == pytest.approx(formula, rel=1e-9)
    assert simulated.metrics["utilisation"] == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("size", xeon_phi.SIZES)
@pytest.mark.parametrize("threads", [15, 60, 240, 3840])
def test_elsewhere_the_difference_is_the_imbalance_by_hand(size: str, threads: int) -> None:
    phi, workload, network = machine("xeon-phi-7120p"), phi_cnn(size), phi_network(size)
    formula = xeon_phi.estimator("a").estimate(workload, phi, {"threads": threads}).time
    simulated = xeon_phi.estimator("simulated").estimate(workload, phi, {"threads": threads}).time
    on_a_core = math.ceil(threads / 61)
    cpi = {1: 1.0, 2: 1.0, 3: 1.5}.get(on_a_core, 2.0)
    instruction = 15 / 1.238e9 * cpi
    entry = xeon_phi.contention()[size]
    wait = dict(entry.measured).get(threads, entry.intercept + entry.slope * threads)
    excess = [math.ceil(n / threads) - n / threads for n in (60_000, 10_000)]
    train = (network.forward_instructions + network.backward_instructions) * instruction + wait
    look = network.forward_instructions * instruction
    by_hand = network.epochs * (excess[0] * (train + look) + excess[1] * look)
    assert simulated - formula == pytest.approx(by_hand, rel=1e-6, abs=1e-9 * formula)


@pytest.mark.timed
def test_3840_threads_simulate_in_seconds() -> None:
    start = time.process_time()
    answer = xeon_phi.estimator("simulated").estimate(phi_cnn("small"), machine("xeon-phi-7120p"), {"threads": 3840})
    assert len(answer.trace) > 0
    assert time.process_time() - start < 10


def test_a_queue_of_one_server_without_thinking_is_the_sum() -> None:
    result = simulate_round([("ask", 40, 0.0, True)], threads=4, memory=SharedMemory(0.5, 1))
    assert result.makespan == pytest.approx(40 * 0.5)
    assert sum(result.busy) == pytest.approx(20.0)


def test_the_queue_with_as_many_servers_as_threads_never_waits() -> None:
    result = simulate_round([("ask", 40, 0.25, True)], threads=4, memory=SharedMemory(0.5, 4))
    assert result.makespan == pytest.approx(10 * 0.75)
    assert sum(result.waiting) == 0


def test_fit_of_the_queue_is_the_closed_form_of_its_own_simulation() -> None:
    for size in xeon_phi.SIZES:
        queue, _ = xeon_phi.fit_queue(size)
        for threads in (1, 15, 60):
            images = 20 * threads
            result = simulate_round([("ask", images, 0.0, True)], threads, queue)
            expected = queue.alone if threads == 1 else queue.service * threads
            assert result.makespan / 20 == pytest.approx(expected, rel=0.05)


def test_one_queue_explains_table_iv_from_one_thread_to_240() -> None:
    assert max(max(abs(xeon_phi.fit_queue(size)[1])) for size in xeon_phi.SIZES) < 0.2


def test_threads_and_rounds_are_whole(phi) -> None:
    simulated = xeon_phi.estimator("simulated")
    with pytest.raises(InputError, match="run.threads = 2.5: want a whole number of at least 1"):
        simulated.estimate(phi_cnn("small"), phi, {"threads": 2.5})
    with pytest.raises(InputError, match=r"SharedMemory.servers = 0: want at least 1"):
        SharedMemory(1e-3, 0)
