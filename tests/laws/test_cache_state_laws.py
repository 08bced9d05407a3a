"""What must hold of cold, warm and hot caches in every roofline, on any machine and operation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.core.operation_model import FormulaModel
from slipstick.estimators.operation.cpu.cpu_roofline import CpuRoofline
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.operation.roofline import Roofline
from slipstick.estimators.schedule.sequential import Sequential
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.layers.single import elementwise, gemm

MODELS: dict[str, FormulaModel] = {"plain": Roofline(), "tiled": TiledRoofline(), "cpu": CpuRoofline()}
STATES = ("cold", "warm", "hot")
MACHINES = ("a100-sxm-80gb", "vega-fe", "xeon-gold-6148", "epyc-7451")
kinds: dict[str, Callable[[int], Op]] = {
    "stream": lambda size: elementwise("o", size, inputs=2),
    "product": lambda size: gemm("o", 64, max(1, size // 4096), 64),
    "rows": lambda size: operation("o", "softmax", {"rows": max(1, size // 512), "columns": 512}),
}
models, machines = st.sampled_from(sorted(MODELS)), st.sampled_from(MACHINES)
operations = st.builds(lambda kind, size: kinds[kind](size), st.sampled_from(sorted(kinds)), st.integers(1000, 10**8))


def times(model: str, op: Op, on: Machine) -> dict[str, float]:
    """Seconds by the state of the caches, launches apart."""
    on = on.using({"runtime.launch_overhead": 0.0})
    return {s: float(MODELS[model].times([op], on.using({"runtime.cache": s}))[0]) for s in STATES}


def caches(on: Machine) -> list[str]:
    return list(on.memory)[:-1]


@settings(max_examples=15, deadline=None)
@given(models, operations, machines, st.floats(0.01, 3.0))
def test_warmer_is_never_slower(model: str, op: Op, name: str, share: float) -> None:
    """Also where a what-if makes the cache slower than main memory."""
    on = machine(name)
    last = f"memory.{caches(on)[-1]}.bytes_per_cycle"
    found = times(model, op, on.using({last: float(on.get(last)) * share}))
    assert found["hot"] <= found["warm"] * (1 + 1e-12)
    assert found["warm"] <= found["cold"] * (1 + 1e-12)


@settings(max_examples=8, deadline=None)
@given(models, operations, machines)
def test_a_cache_of_no_capacity_keeps_nothing(model: str, op: Op, name: str) -> None:
    on = machine(name)
    found = times(model, op, on.using({f"memory.{caches(on)[-1]}.capacity": 0}))
    assert found["warm"] == pytest.approx(found["cold"], rel=1e-12)
    none = times(model, op, on.using({f"memory.{level}.capacity": 0 for level in caches(on)}))
    assert none["hot"] == pytest.approx(none["cold"], rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(models, operations, machines, st.sampled_from(STATES), st.floats(1.0, 50.0))
def test_more_capacity_is_never_slower(model: str, op: Op, name: str, state: str, factor: float) -> None:
    on = machine(name).using({"runtime.cache": state})
    for level in caches(on):
        path = f"memory.{level}.capacity"
        more = MODELS[model].times([op], on.using({path: float(on.get(path)) * factor}))
        assert more <= MODELS[model].times([op], on) * (1 + 1e-12)


@settings(max_examples=15, deadline=None)
@given(models, st.integers(1000, 10**8), machines)
def test_never_faster_than_the_bandwidth_of_the_level(model: str, size: int, name: str) -> None:
    """Warm data come at the last cache's rate at best, cold ones at main memory's; a CPU's may not reach either."""
    on = machine(name)
    op = kinds["stream"](size)
    found = times(model, op, on)
    reach = 1.0 if model != "tiled" else 0.87
    cold = float(op.cost.bytes_moved) / on.bandwidth(on.main_memory)
    assert found["cold"] >= cold * (1 - 1e-12)
    assert found["warm"] >= float(op.cost.bytes_moved) / on.bandwidth(caches(on)[-1]) * (1 - 1e-12)
    assert model == "cpu" or found["cold"] == pytest.approx(cold / reach, rel=0.35)


def test_what_fits_is_read_at_the_bandwidth_of_its_cache() -> None:
    """24 MB on an A100's 40 MiB of L2 (5120 bytes a cycle); 432 KB on twenty times 32 KiB of L1."""
    a100 = machine("a100-sxm-80gb").using({"runtime.launch_overhead": 0.0})
    op = elementwise("o", 2_000_000, inputs=2)
    assert times("plain", op, a100)["warm"] == pytest.approx(24e6 / (47.4074 * 108 * 1.41e9))
    assert times("plain", op, a100)["cold"] == pytest.approx(24e6 / 2039e9)
    socket = machine("xeon-gold-6148")
    small = elementwise("o", 18_000, inputs=2, dtype="float64")
    found = times("plain", small, socket)
    assert found["hot"] == pytest.approx(432e3 / socket.bandwidth("L1"), rel=1e-9)
    assert found["warm"] == pytest.approx(432e3 / socket.bandwidth("L3"), rel=1e-9)


def test_where_nothing_is_said_each_model_says_what_it_takes() -> None:
    on, net = machine("a100-sxm-80gb"), Workload("net", (elementwise("o", 1000),))

    def said(model: str, on: Machine) -> str:
        return next(
            text for text in Composite(MODELS[model], Sequential()).estimate(net, on).assumptions if "cach" in text
        )

    assert said("plain", on) == "cold caches"
    assert said("tiled", on) == "caches as repeated runs leave them"
    held = "operations of at most 41.9 MB find their data in L2, larger ones in HBM2e"
    assert said("cpu", on) == f"hot caches: {held}"
    assert {said(model, on.using({"runtime.cache": "warm"})) for model in MODELS} == {"warm caches"}


def test_one_point_and_an_array_agree_down_to_no_cache() -> None:
    """A capacity that is left free reaches 0 without a warning."""
    net = Workload("net", (elementwise("a", 10**6), gemm("b", 128, 300, 96)))
    path = "memory.L2.capacity"
    for model in MODELS.values():
        on = machine("a100-sxm-80gb").using({"runtime.cache": "warm"})
        whole = Composite(model, Sequential())
        values = np.array([0.0, 1e6, 1e7, 4e7])
        found = whole.compile(net, on, (f"machine.{path}",))({f"machine.{path}": values})
        single = [whole.estimate(net, on.using({path: value})).time for value in values]
        assert found == pytest.approx(single, rel=1e-12)


def test_main_memory_alone_has_no_state() -> None:
    on, op = machine("tpu-v3"), kinds["stream"](10**5)
    assert len(set(times("plain", op, on).values())) == 1


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(("h100-sxm", "rtx-4090", "l40s", "a100-sxm-80gb")), st.integers(2, 24), st.integers(9, 13))
def test_weights_of_a_program_that_overflow_the_cache_come_from_memory(name: str, layers: int, octave: int) -> None:
    """Whatever a cache keeps from one pass to the next, the rest of the weights passes main memory each time."""
    on, width = machine(name), float(2**octave)
    made = tuple(gemm(f"layer {i}", width, 8, width, dtype="bfloat16") for i in range(layers))
    held = sum(on.memory[level].capacity * on.instances(level) for level in caches(on))
    weights = layers * width * width * 2
    whole = Workload("layers", made, defaults=Table(), metadata=Table(parameters=layers * width * width))
    busy = sum(part.time for part in question(whole, name).answer().parts if part.kind == "gemm")
    assert busy >= 0.99 * (weights - held) / on.memory[on.main_memory].bandwidth
