"""Own accelerators: memory on the chip is used, every data type is answered, and the runtime is the compiled one."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from slipstick.common.records import FrozenDict
from slipstick.experiments.question.question import Question, question
from slipstick.hwmodels.compute import Engine
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.memory import Level
from slipstick.operations import dense, elementwise
from slipstick.workloads.graph.workload import Workload


def npu(sram: str = "48 MB", rows: int = 256, bandwidth: str = "60 GB/s") -> Machine:
    """An array of 256 x 256 cells that multiply bfloat16 at half of int8's rate, as many do."""
    rates = {"bfloat16": 65_536.0, "int8": 131_072.0}
    matrix = Engine(flop_per_cycle=FrozenDict(rates), rows=rows, columns=rows)
    vector = Engine(flop_per_cycle=FrozenDict({"float32": 4096.0}))
    made = Machine(
        name="an NPU",
        clock=1e9,
        cores=1,
        engines=FrozenDict({"matrix": matrix, "vector": vector}),
        memory=FrozenDict({"SRAM": Level(capacity=48e6, bandwidth=3e12), "DRAM": Level(capacity=32e9, bandwidth=60e9)}),
        sources=FrozenDict(),
    )
    return made.using({"memory.SRAM.capacity": sram, "memory.DRAM.bandwidth": bandwidth})


def asked(
    on: Machine, name: str = "resnet18-inference", dtype: str = "int8", estimator: str | None = None, **more: str
) -> Question:
    settings = {"workload.batch": 4, **{f"machine.runtime.{field}": value for field, value in more.items()}}
    return question(name, on, estimator, settings, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_three_types_three_sizes_and_two_runtimes_are_answered(dtype: str) -> None:
    for mode in ("eager", "compiled"):
        times = [asked(npu(sram), dtype=dtype, mode=mode).answer().time for sram in ("1 MB", "12 MB", "48 MB")]
        assert times == sorted(times, reverse=True) and math.isfinite(times[0])


def test_weights_that_stay_on_the_chip_are_warm_caches() -> None:
    """11.7 MB of weights in 48 MB, `machine.runtime.cache` warm: nothing comes from afar."""
    ours, theirs = (
        [asked(npu(sram, rows=0), estimator=name, mode="eager", **state).answer().time for sram in ("1 kB", "48 MB")]
        for name, state in ((None, {"cache": "warm"}), ("roofline", {"cache": "warm"}))
    )
    assert theirs[0] / theirs[1] > 3
    assert ours[0] / ours[1] == pytest.approx(theirs[0] / theirs[1], rel=0.1)
    array = [
        asked(npu(), estimator=name, mode="eager", **state)
        for name, state in ((None, {"cache": "warm"}), ("systolic", {"cache": "warm"}))
    ]
    assert array[0].answer().time == pytest.approx(array[1].answer().time, rel=1e-12)


@pytest.mark.parametrize("name", ["gaudi3", "trainium2", "xeon-phi-7120p"])
def test_nothing_that_no_operation_wrote_lies_on_the_chip(name: str) -> None:
    """Sums of twice as many numbers take twice as long whether or not they fit on the chip, and one more takes longer,
    whether it waits for those before (a compiler may fuse them: no less then) or not.
    """

    def seconds(size: int, count: int = 1, waits: bool = False) -> float:
        names = [f"add{at}" for at in range(count)]
        edges = tuple(pairwise(names)) if waits else ()
        return question(Workload("add", tuple(elementwise(one, size) for one in names), edges), name).answer().time

    assert [seconds(2**25, 1) / seconds(2**24, 1), seconds(2**20, 1) / seconds(2**19, 1)] == pytest.approx([2, 2], 0.02)
    alone = [seconds(2**20, count) for count in (1, 2, 4)]
    assert alone == pytest.approx([alone[0], 2 * alone[0], 4 * alone[0]])
    chain = [seconds(2**20, count, waits=True) for count in (1, 2, 4)]
    assert chain == sorted(chain) and chain[-1] < 2 * chain[0]


def test_weights_are_read_in_every_pass() -> None:
    """A word of a model of 8 billion parameters in 16 bits takes at least its weights over the main memory's rate."""
    answer = asked(npu(bandwidth="600 GB/s"), "llama-3-8b-decode", "bfloat16").answer()
    assert answer.time > 8e9 * 2 / 600e9
    assert any("weights from DRAM" in text for text in answer.assumptions)


def test_equal_layers_take_their_number_times_one() -> None:
    """Whether their weights together fit into Trainium2's 224 MiB of SBUF: 24 MiB of float32 a network."""
    layers = [dense(f"d{i}", 16, 1024, 1024) for i in range(6 * 16)]
    few, many = (question(Workload("layers", tuple(layers[:n])), "trainium2").answer().time for n in (6, 96))
    assert many == pytest.approx(16 * few, rel=1e-9)


def test_half_the_rate_takes_twice_the_cycles() -> None:
    at_full, at_half = (
        question(
            "gemm",
            npu("48 MB", bandwidth="2 TB/s"),
            "systolic",
            {"workload.m": 4096, "workload.n": 4096, "workload.k": 4096},
            dtype,
        )
        for dtype in ("int8", "bfloat16")
    )
    assert at_half.answer().time == pytest.approx(2 * at_full.answer().time, rel=1e-6)


def test_the_runtime_is_compiled_unless_eager_is_asked_for() -> None:
    assert asked(npu()).machine.runtime.mode == "compiled"
    assert asked(npu(), mode="eager").machine.runtime.mode == "eager"
    assert asked(npu().using({"runtime.mode": "eager"})).machine.runtime.mode == "eager"


def test_depthwise_convolutions_run_on_the_faster_engine() -> None:
    on = npu(bandwidth="2 TB/s")
    few = on.using({"engines.vector.flop_per_cycle.float32": 16})
    fast, slow = (asked(one, "imported/mobilenetv2_w1", estimator="systolic").answer().time for one in (on, few))
    assert fast < slow / 2
