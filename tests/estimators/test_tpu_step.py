"""The TPU step model: closed forms of one product, what-ifs that must go one way, the published measurements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.schedules.infeed import InfeedOverlap
from slipstick.estimators.symbolic.formula import parameters, with_parameters
from slipstick.estimators.tpu.tpu_step import TpuOperations
from slipstick.experiments.scoreboards.tpu.tpu_board import Lane
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import convolution, gemm
from slipstick.workloads.networks.data_parallel import SYMBOLS, data_parallel_mlp
from slipstick.workloads.transforms.dtype import in_dtype


def step(**run: float) -> ComposedEstimator:
    return ComposedEstimator(TpuOperations(), InfeedOverlap())


def test_a_product_is_padded_to_the_array() -> None:
    ideal = TpuOperations(compute_efficiency=1.0, memory_efficiency=1.0, exposed=0.0, overhead=0.0)
    v2 = machine("tpu-v2-8")
    small, whole, more = ideal.times([gemm("a", 1, 1, 1), gemm("b", 128, 128, 128), gemm("c", 129, 128, 128)], v2)
    rate = 2 * 128 * 128 * 700e6  # one core
    assert whole == pytest.approx(max(2 * 128**3 / rate, 3 * 128**2 * 4 / 300e9))
    assert more >= whole
    large = ideal.times([gemm("d", 4096, 4096, 4096), gemm("e", 4097, 4096, 4096)], v2)
    assert large[0] == pytest.approx(2 * 4096**3 / rate)
    assert large[1] / large[0] == pytest.approx(33 / 32)
    assert small < whole


@pytest.mark.parametrize(("name", "teraflops"), [("tpu-v5e", 393), ("tpu-v6e", 1836)])
def test_bytes_run_at_their_rate_where_the_data_sheet_states_one(name: str, teraflops: float) -> None:
    product, v = Workload("product", (gemm("a", 8192, 8192, 8192),)), machine(name)
    ideal = TpuOperations(compute_efficiency=1.0, memory_efficiency=1.0, exposed=0.0, overhead=0.0)
    int8, bf16, fp32 = (
        float(ideal.times(in_dtype(product, dtype).operations, v)[0]) for dtype in ("int8", "bfloat16", "float32")
    )
    assert int8 == pytest.approx(2 * 8192**3 / (teraflops * 1e12), rel=0.01)
    assert bf16 == pytest.approx(2 * int8, rel=0.01)
    assert fp32 == bf16  # the matrix unit rounds it


def test_a_convolution_is_the_product_of_its_windows() -> None:
    model, v2 = TpuOperations(memory_efficiency=1.0, exposed=0.0), machine("tpu-v2-8")
    conv = convolution("c", 8, 512, 256, (3, 3), (14, 14))
    product = gemm("p", 256, 8 * 14 * 14, 512 * 9)
    grouped = convolution("g", 8, 512, 256, (3, 3), (14, 14), groups=4)
    times = model.times([conv, product, grouped], v2)
    assert times[0] == pytest.approx(times[1])  # bound by compute, where the product reads each window again
    # four groups of 64 outputs, each padded to 128, of a quarter of the inputs
    rate = 0.97 * 2 * 128 * 128 * 700e6
    assert times[2] == pytest.approx(4 * 2 * 128 * 1664 * 1152 / rate + 4.58e-6)


def test_the_sum_over_the_cores_is_a_ring() -> None:
    alone = TpuOperations(link_efficiency=0.5, overhead=0.0)
    step_ = data_parallel_mlp().bind(layers=2, width=128, inputs=128, outputs=128, batch=1024)
    ring = next(op for op in step_ if op.name == "hidden.all_reduce")
    sent = 2 * 7 / 8 * 128 * 128 * 4
    assert alone.times([ring], machine("tpu-v2-8"))[0] == pytest.approx(sent / (0.5 * 124e9))


def test_parameters_of_the_network_are_those_of_its_matrices() -> None:
    bound = data_parallel_mlp().bind(layers=4, width=512, inputs=2000, outputs=1000, batch=64)
    updated = sum(op.dims["elements"] * op.times for op in bound if op.kind == "optimizer")
    assert updated == 2000 * 512 + 3 * 512**2 + 512 * 1000


def test_estimate_and_compile_agree_and_shares_are_shares() -> None:
    model, on, workload = step(), machine("tpu-v2-8"), data_parallel_mlp()
    run = {"layers": 8.0, "width": 2048.0, "inputs": 2000.0, "outputs": 1000.0, "batch": 8192.0}
    answer = model.estimate(workload, on, run)
    function = model.compile(workload, on, tuple(f"workload.{name}" for name in SYMBOLS))
    assert float(function({f"workload.{name}": np.array(value) for name, value in run.items()})) == pytest.approx(
        answer.time
    )
    assert all(0 <= share <= 1 for share in answer.metrics.values())
    sides = [
        ComposedEstimator(TpuOperations(), Lane(name)).estimate(workload, on, run).time for name in ("device", "infeed")
    ]
    sides[1] += parameters(model)["schedule.start"][0]
    assert answer.time == pytest.approx(max(sides) + parameters(model)["schedule.exposed"][0] * min(sides))


@settings(max_examples=5, deadline=None)
@given(st.integers(2, 64), st.sampled_from([64, 512, 2048]), st.sampled_from([64, 1024, 16384]))
def test_more_work_is_never_faster_and_a_faster_host_never_slower(layers: int, width: int, batch: int) -> None:
    model, on, workload = step(), machine("tpu-v2-8"), data_parallel_mlp()
    run = {"layers": layers, "width": width, "inputs": 2000, "outputs": 1000, "batch": batch}
    base = model.estimate(workload, on, run)
    for change in ({"layers": layers + 1}, {"width": width + 128}, {"batch": 2 * batch}, {"inputs": 4000}):
        assert model.estimate(workload, on, {**run, **change}).time >= base.time
    faster = with_parameters(model, {"operation.feature_bandwidth": 1e11, "operation.label_bandwidth": 1e11})
    other = faster.estimate(workload, on, run)
    assert other.time <= base.time
    assert other.metrics["infeed"] <= base.metrics["infeed"] + 1e-12
    assert model.estimate(workload, machine("tpu-v3-8"), run).metrics["infeed"] >= base.metrics["infeed"] - 1e-12


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="compute_efficiency"):
        TpuOperations(compute_efficiency=1.1)
    with pytest.raises(InputError, match="cores = 0"):
        data_parallel_mlp(0)
    with pytest.raises(InputError, match="engine"):
        TpuOperations().times([gemm("a", 8, 8, 8)], machine("xeon-phi-7120p"))
