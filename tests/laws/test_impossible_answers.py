"""Answers that cannot be are refused where estimates are made: 0 s, not finite, faster than the machine's physics."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Estimate, Spread
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.experiments.question.question import question
from slipstick.experiments.studies.sweep import sweep, task
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf])
def test_no_time_is_an_answer(time: float) -> None:
    with pytest.raises(InputError, match="want a finite time > 0"):
        Estimate(time)


@pytest.mark.parametrize("energy", [-1.0, math.nan, math.inf])
def test_no_energy_is_an_answer(energy: float) -> None:
    with pytest.raises(InputError, match="want a finite energy >= 0"):
        Estimate(1.0, energy=energy)


@pytest.mark.parametrize("spread", [Spread(parameter=-0.1), Spread(residual=math.nan), Spread(residual=1e9)])
def test_a_spread_that_says_nothing_is_refused(spread: Spread) -> None:
    with pytest.raises(InputError, match="spread of the estimate"):
        replace(Estimate(1.0), spread=spread)


@given(st.sampled_from(["h100-sxm", "xeon-phi-7120p", "tpu-v3"]), st.integers(64, 8192), st.integers(64, 8192))
def test_a_product_is_bounded_by_arithmetic_or_by_what_no_cache_holds(name: str, m: int, k: int) -> None:
    """By hand: 2 m k n flop at the peak; 4 (m k + k n + m n) bytes less all caches at the bandwidth of main memory."""
    on = machine(name)
    op = workload("gemm").bind(m=m, n=512, k=k).bound().operations[0]
    least, _ = PhysicalBound(on).least(op)
    caches = sum(on.memory[level].capacity * on.instances(level) for level in list(on.memory)[:-1])
    moved = max(0.0, 4 * (m * k + k * 512 + m * 512) - caches) / on.bandwidth(on.main_memory)
    engine = on.engines.get("matrix")
    unit = "matrix" if engine and "float32" in engine.flop_per_cycle else "vector"
    assert least == pytest.approx(max(moved, 2 * m * k * 512 / on.peak(unit, "float32")))


def test_an_estimator_that_beats_the_machine_is_refused() -> None:
    op = workload("gemm").bind(m=4096, n=4096, k=4096).bound().operations[0]
    bound = PhysicalBound(machine("h100-sxm"))
    least, name = bound.least(op)
    assert name == "arithmetic"
    bound.check([op], np.array([least * 0.995]))  # clocks and timers are no better than a hundredth
    for time in (least * 0.98, 0.0):
        with pytest.raises(InputError, match=r"operation 'product' .* the arithmetic of H100.* needs at least"):
            bound.check([op], np.array([time]))
    with pytest.raises(InputError, match="want a finite time"):
        bound.check([op], np.array([math.nan]))


@pytest.mark.parametrize("name", ["gemm", "resnet18", "gpt2"])
@pytest.mark.parametrize("on", ["h100-sxm", "a64fx"])
def test_rooflines_stay_within_the_bounds(name: str, on: str) -> None:
    assert question(name, on, "roofline", []).answer().time > 0


ACCELERATORS = ["tpu-v3-8", "tpu-v5e", "tpu-v7", "gaudi3", "trainium2", "ascend-910b2"]


@pytest.mark.parametrize("on", ["rtx-4090", "h100-sxm", "mi300x", *ACCELERATORS])
def test_no_band_of_a_product_passes_the_peak(on: str) -> None:
    sizes = {f"workload.{name}": 8192 for name in "mnk"}
    answer = question("gemm", on, settings=sizes, dtype="bfloat16").answer()
    low, high = answer.interval() or (0.0, 0.0)
    peak = machine(on).clock * machine(on).cores * machine(on).engines["matrix"].flop_per_cycle["bfloat16"]
    least = 2 * 8192**3 / peak
    assert least * (1 - 1e-9) <= low <= answer.time < high
    assert answer.quantities["time"].low == low
    assert (answer.interval(0.999) or (0.0, 0.0))[0] == pytest.approx(least, rel=1e-9)
    fixed = {"workload.m": 8192, "workload.n": 8192}
    asked = question("gemm", on, settings=fixed, dtype="bfloat16", vary={"workload.k": [4096, 8192]})
    assert sweep(task(asked))["low_s"].to_numpy()[-1] == pytest.approx(low, rel=1e-6)


@pytest.mark.parametrize("on", ["rtx-4090", *ACCELERATORS])
def test_no_band_of_a_decoding_step_reads_its_weights_faster_than_main_memory(on: str) -> None:
    """By hand: 7.5e9 weights of two bytes over the data sheet's bandwidth, what on-chip memory holds apart."""
    answer = question("llama-3-8b-decode", on, dtype="bfloat16").answer()
    low, _ = answer.interval() or (0.0, 0.0)
    held = sum(level.capacity for name, level in machine(on).memory.items() if name != machine(on).main_memory)
    assert low >= (7.5e9 * 2 - held) / machine(on).bandwidth(machine(on).main_memory) * 0.99


POINTS = {
    "machine.clock": (1.2e9, 1.98e9, 1.5e9),
    "machine.cores": (66.0, 132.0, 99.0),
    "machine.memory.L2.capacity": (0.0, 5e7, 1e8),
    "workload.batch": (1.0, 2.0, 1.0),
    "machine.power.cap": (300.0, 700.0, 500.0),
}


@pytest.mark.parametrize(("name", "names"), [("gpt2", list(POINTS)), ("gpt2", ["machine.clock", "machine.cores"]),
                                             ("gemm", ["machine.clock", "machine.memory.L2.capacity"])])  # fmt: skip
def test_what_physics_needs_at_many_points_is_what_each_answer_says(name: str, names: list[str]) -> None:
    asked = question(name, "h100-sxm")
    free = {each: np.array(POINTS[each]) for each in names}
    model = asked.estimator
    points = [{each: values[index] for each, values in POINTS.items() if each in names} for index in range(3)]
    each = [model.estimate_at(asked.workload, asked.machine, asked.run, point).least for point in points]
    assert model.least_at(asked.workload, asked.machine, asked.run, free).tolist() == each


def test_the_way_back_finds_the_weights_that_the_way_there_read() -> None:
    """ResNet-50's step of one image was refused: a gradient of 8.4 MB waits in 72 MiB of cache, as do last weights."""
    on = machine("rtx-4090")
    bound = workload("resnet-50").bind(batch=1).bound()
    after = PhysicalBound(on.after_weights(100e6))
    by_name = {op.name: op for op in bound.operations}
    name = "stage4.0.shortcut"
    parts = (name, f"{name}.backward_weight", f"{name}.backward_data")
    there, *back = (float(after.bounds((by_name[part],))["main memory"][0]) for part in parts)
    assert 0 < there <= 1024 * 2048 * 4 / on.bandwidth(on.main_memory)
    assert back == [0, 0]
    assert question("resnet-50", on, None, {"workload.batch": 1}).answer().time > 0
