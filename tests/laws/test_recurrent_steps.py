"""Recurrent layers of PyTorch on GPUs: the rule by which cuDNN's algorithm is chosen, closed forms, and laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.gpu.kernels.kernel_classes import KERNELS
from slipstick.estimators.gpu.kernels.recurrent_law import recurrent_kernels
from slipstick.estimators.gpu.kernels.recurrent_steps import algorithm
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.importers.torch.importer import import_torch

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def step(
    cell: str = "lstm", dtype: str = "float16", *, batch: int = 64, hidden: int = 512, inputs: int = 512,
    layers: int = 1, directions: int = 1, length: int = 100, way: str = "forward",
) -> Op:  # fmt: skip
    dims = {"batch": batch, "hidden": hidden, "gates": GATES[cell], "outputs": hidden}
    stack = {"layers": layers, "directions": directions, "inputs": inputs, "length": length}
    return operation("step", "recurrent", {**dims, **stack}, dtype, {"function": cell, "pass": way})


def seconds(op: Op, name: str) -> float:
    on = machine(name)
    return float(TiledRoofline(KERNELS.using(recurrent=recurrent_kernels(on).kernels)).times((op,), on)[0])


@pytest.mark.parametrize(
    ("op", "name", "expected"),
    [
        (step(), "v100-sxm", "volta"),
        (step(), "h100-sxm", "later"),
        (step(), "rtx-4090", "later"),
        (step("rnn"), "a100-sxm-80gb", "later"),
        (step("gru"), "a100-sxm-80gb", "standard"),  # excluded: "flakier than other RNN types"
        (step(), "rtx-3090", "standard"),  # compute capability 8.6
        (step(), "a30", "standard"),  # 56 multiprocessors, want 98
        (step(), "t4", "standard"),  # compute capability 7.5
        (step(), "p100-pcie", "standard"),
        (step(dtype="bfloat16"), "h100-sxm", "standard"),
        (step(dtype="float32"), "h100-sxm", "standard"),
        (step(layers=2), "h100-sxm", "standard"),
        (step(directions=2), "h100-sxm", "standard"),
        (step(hidden=1152), "h100-sxm", "standard"),
        (step(inputs=500), "h100-sxm", "standard"),
        (step(hidden=192, inputs=7, dtype="float32", layers=3), "h100-sxm", "small"),
        (step(hidden=200, dtype="float32"), "h100-sxm", "standard"),
        (step("rnn", hidden=384, dtype="float32"), "t4", "small"),
        (step("rnn", hidden=384, dtype="float32", way="backward"), "t4", "standard"),
        (step(hidden=64, dtype="float32"), "m40", "standard"),  # compute capability 5.2
        (step(hidden=64, dtype="float64"), "h100-sxm", "standard"),
        (step(hidden=64), "mi300x", "standard"),
    ],
)
def test_the_rule_of_pytorch(op: Op, name: str, expected: str) -> None:
    """pytorch/pytorch, aten/src/ATen/native/cudnn/RNN.cpp: get_algo."""
    assert algorithm(op, machine(name)) == expected


@pytest.mark.parametrize(
    ("name", "batch", "length", "persistent"),
    [
        ("v100-sxm", 64, 100, True), ("v100-sxm", 80, 100, False), ("v100-sxm", 8, 100, True),
        ("v100-sxm", 24, 100, False), ("v100-sxm", 64, 10, False), ("v100-sxm", 32, 10, True),
        ("v100-sxm", 128, 39, False), ("v100-sxm", 128, 40, True), ("v100-sxm", 144, 100, False),
        ("h100-sxm", 24, 1, True), ("h100-sxm", 20, 100, False), ("h100-sxm", 136, 100, False),
    ],
)  # fmt: skip
def test_batches_and_lengths_of_the_rule(name: str, batch: int, length: int, persistent: bool) -> None:
    """The same function's conditions on batch and length; with its weights in registers a step of FP16 is four times as
    fast as one of FP32, without them twice to three times."""
    half, single = (seconds(step(dtype=dtype, batch=batch, length=length), name) for dtype in ("float16", "float32"))
    assert (half < 0.25 * single) is persistent


def test_a_titan_x_reaches_what_persistent_rnns_reported() -> None:
    """Diamos et al., ICML 2016: 2.8 TFLOP/s at a batch of 4 and 1,152 units; the formula is the one of small layers."""
    on = machine("titan-x-maxwell")
    flop, state = 2 * 1152**2 * 4, 4 * 1152 * 4
    closed = 2000 / on.clock + max(flop / on.peak("vector", "float32"), 24 * state / on.bandwidth("L2"))
    assert flop / closed == pytest.approx(2.8e12, rel=0.15)


@given(
    st.sampled_from(["v100-sxm", "h100-sxm", "rtx-4090", "mi300x"]), st.sampled_from(list(GATES)),
    st.integers(1, 256), st.integers(16, 4096), st.integers(1, 200), st.integers(1, 6),
)  # fmt: skip
def test_laws_of_standard_steps(name: str, cell: str, batch: int, hidden: int, length: int, layers: int) -> None:
    """A step takes its start and its arithmetic, twice the batch no less; beside other layers it becomes dearer by no
    more than reading its weights from memory, since those of the others may take their place in the cache."""
    on = machine(name)
    one = step(cell, "float32", batch=batch, hidden=hidden, inputs=100, length=length)
    stacked = step(cell, "float32", batch=batch, hidden=hidden, inputs=100, length=length, layers=layers)
    twice = step(cell, "float32", batch=2 * batch, hidden=hidden, inputs=100, length=length)
    taken = seconds(one, name)
    assert taken >= 2 * GATES[cell] * hidden**2 * batch / on.peak("vector", "float32")
    assert seconds(twice, name) >= taken * (1 - 1e-9)
    if algorithm(one, on) == "standard":
        assert taken >= recurrent_kernels(on).kernels.overhead
        weights = 4 * GATES[cell] * hidden**2 / on.bandwidth(on.main_memory)
        assert seconds(stacked, name) <= taken * 1.05 + 2 * weights


def test_a_strangers_lstm() -> None:
    torch = pytest.importorskip("torch")

    def lstm(hidden: int, batch: int, dtype: object) -> Workload:
        layer = torch.nn.LSTM(hidden, hidden).to(dtype)
        return import_torch(layer, (torch.zeros(100, batch, hidden, dtype=dtype),))

    nets = {
        "single": lstm(512, 64, torch.float32),
        "half": lstm(512, 64, torch.float16),
        "little": lstm(256, 1, torch.float32),
    }
    took = {
        (net, name): question(graph, name).answer().time
        for net, graph in nets.items()
        for name in ("v100-sxm", "h100-sxm", "epyc-9654")
    }
    flop = 2 * 2 * 4 * 512**2 * 64 * 100  # inputs and states
    for name in ("v100-sxm", "h100-sxm"):
        assert took["half", name] < 0.4 * took["single", name]  # persistent
        assert flop / machine(name).peak("vector", "float32") < took["single", name]
        # one sequence: a hundred starts, of 5 to 20 us each (KernelBench: 5.5 to 10 us a step on 14 GPUs)
        assert 3e-6 < took["little", name] / 100 < 2.5e-5
    assert took["single", "h100-sxm"] < took["single", "v100-sxm"] < took["single", "epyc-9654"]
    # on a CPU no operator starts a step: 8 us with one thread of a smaller machine (64 units, 16 sequences)
    assert 5e-6 < took["little", "epyc-9654"] / 100 < 5e-5


@pytest.mark.parametrize(("hidden", "expected"), [(512, "latency"), (8192, "memory")])
def test_what_bounds_a_step_is_what_changes_its_time(hidden: int, expected: str) -> None:
    """Weights of a small layer stay in the cache between steps: twice the main memory's rate is no help."""
    op, today = step(dtype="float32", batch=4, hidden=hidden), machine("h100-sxm")
    model = TiledRoofline(KERNELS.using(recurrent=recurrent_kernels(today).kernels))
    ahead = today.using({"memory.HBM3.bandwidth": 2 * float(today.memory["HBM3"].bandwidth)})
    ratio = float(model.times((op,), ahead)[0] / model.times([op], today)[0])
    assert model.bounds([op], today) == [expected]
    assert (ratio > 0.95) == (expected == "latency")
