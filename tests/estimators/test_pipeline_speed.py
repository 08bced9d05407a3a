"""Speed that other parts rely on: the recurrence, the simulation beside a bare SimPy model, a large graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import simpy

from slipstick.estimators.schedules.max_plus import PrecedenceGraph
from slipstick.estimators.simulation.input_pipeline import Pipeline
from slipstick.estimators.simulation.stage import Stage


def bare(pipeline: Pipeline, steps: int) -> float:
    """The same pipeline as one would write it in SimPy: no times kept, no order among workers."""
    environment = simpy.Environment()
    draws = [draw.tolist() for draw in pipeline.draws(steps, 0)]
    buffers = [simpy.Store(environment, stage.buffer) for stage in pipeline.stages[:-1]]
    done = environment.event()
    last = len(pipeline.stages) - 1

    def work(position: int, times: Iterator[float]) -> Iterator[Any]:
        for duration in times:
            if position:
                yield buffers[position - 1].get()
            yield environment.timeout(duration)
            if position < last:
                yield buffers[position].put(1)
        if position == last:
            done.succeed()

    for position, stage in enumerate(pipeline.stages):
        times = iter(draws[position])
        for _ in range(stage.workers):
            environment.process(work(position, times))
    environment.run(until=done)
    return float(environment.now)


def cpu(call: Any) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began


def fed() -> Pipeline:
    decode = Stage("decode", 0.4, workers=4, buffer=3, variation=0.3)
    stages = Stage("storage", 0.1, buffer=2, variation=0.3), decode, Stage("infeed", 0.5, buffer=2, variation=0.3)
    return Pipeline((*stages, Stage("device", 1.0), Stage("outfeed", 0.0)), device="device")


@pytest.mark.timed
def test_the_simulation_costs_no_more_than_a_bare_one() -> None:
    pipeline = fed()
    ratios = [cpu(lambda: pipeline.simulate(3000)) / cpu(lambda: bare(pipeline, 3000)) for _ in range(3)]
    assert min(ratios) <= 1.1  # 0.4 on a quiet core


@pytest.mark.timed
def test_the_simulation_makes_a_hundred_thousand_events_a_second() -> None:
    pipeline = fed()
    rates = [5 * 4000 / cpu(lambda: pipeline.simulate(4000)) for _ in range(4)]  # each service is one event
    assert max(rates) >= 1e5


@pytest.mark.timed
def test_the_recurrence_makes_a_hundred_thousand_steps_a_second() -> None:
    pipeline = fed()
    rates = [20_000 / cpu(lambda: pipeline.run(20_000)) for _ in range(4)]
    assert max(rates) >= 5e4  # 1.7e5 on a quiet core; half of the goal leaves room for a crowded one


@pytest.mark.timed
def test_a_graph_of_a_hundred_thousand_operations_takes_a_fraction_of_a_second() -> None:
    nodes = 100_000
    edges = np.array([(i - 1, i) for i in range(1, nodes)] + [(i - 7, i) for i in range(7, nodes)])
    graph = PrecedenceGraph.from_edges(nodes, edges)
    service = np.random.default_rng(0).random(nodes)
    assert min(cpu(lambda: graph.completion(service)) for _ in range(3)) < 0.5
