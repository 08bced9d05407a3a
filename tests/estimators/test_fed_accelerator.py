"""Any network on a board of TPUs: closed forms of padding and layout, the input pipeline, whole runs, laws."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.symbolic.formula import parameters
from slipstick.estimators.tpu.input_bound_accelerator import InputBoundAccelerator, laid_out, padding
from slipstick.estimators.tpu.tpu_step import TpuOperations
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import convolution, gemm

IDEAL = TpuOperations(compute_efficiency=1.0, memory_efficiency=1.0, exposed=0.0, overhead=0.0)
RATE = 2 * 128 * 128 * 700e6  # of one core


def ask(name: str = "resnet18", *settings_: str) -> Estimate:
    return question(name, "tpu-v2-8", None, settings_).answer()


def test_attention_is_its_two_products_padded() -> None:
    dims = {"batch": 4, "heads": 12, "kv_heads": 12, "queries": 256, "keys": 256, "head_dim": 64, "value_dim": 64}
    op = operation("a", "attention", dims)
    seconds = IDEAL.occupied([op], machine("tpu-v2-8"))[0]
    # a head of 64 fills half of the array's rows, the values half of its columns
    assert seconds == pytest.approx(4 * 12 * 2 * (256 * 256 * 128 + 128 * 256 * 256) / RATE)


def test_a_depthwise_convolution_is_no_dearer_than_the_whole_one_with_zeros() -> None:
    each = convolution("d", 8, 128, 128, (7, 1), (256, 1), groups=128)
    whole = convolution("w", 8, 128, 128, (7, 1), (256, 1))
    seconds = IDEAL.occupied([each, whole], machine("tpu-v2-8"))
    assert seconds[0] == pytest.approx(seconds[1]) == pytest.approx(2 * 128 * 8 * 256 * 7 * 128 / RATE)


def test_reshapes_cost_a_copy_and_slices_nothing() -> None:
    v2 = machine("tpu-v2-8")
    reshape = operation("r", "view", {"elements": 3e6}, attributes={"function": "reshape"})
    part = operation("s", "view", {"elements": 3e6}, attributes={"function": "slice"})
    assert IDEAL.times([reshape, part], v2) == pytest.approx([2 * 4 * 3e6 / 300e9, 0.0])


def test_tiles_of_8_by_128_are_filled_in_the_cheaper_order() -> None:
    assert padding(8, 256) == 1.0
    assert padding(8, 3) == pytest.approx(min(128 / 3, (128 / 8) * (8 / 3)))
    assert padding(128, 3) == pytest.approx(8 / 3)  # the batch lies along the lanes
    narrow = Workload("n", (convolution("c", 8, 64, 64, (3, 3), (56, 56)),))
    plain, padded = (
        each.cost["read"] + each.cost["written"] for each in (narrow.operations[0], laid_out(narrow).operations[0])
    )
    assert padded / plain == pytest.approx(2.0, rel=0.01)
    assert laid_out(Workload("g", (gemm("g", 8, 8, 8),))).operations[0].cost["read"] == 2 * 64 * 4


def test_weights_have_no_batch_to_fill_and_a_larger_batch_never_shortens_the_step() -> None:
    """One image a core is filled up to eight in 512 channels; 9 x 512 x 512 weights stay as they are."""
    one = laid_out(Workload("one", (convolution("c", 1, 512, 512, (3, 3), (7, 7)),))).operations[0]
    weights = 9 * 512 * 512 * 4
    assert one.cost["read"] == 8 * (512 * 9 * 9 * 4) + weights and one.cost["written"] == 8 * (512 * 7 * 7 * 4)
    times = [ask("resnet50", f"workload.batch={batch}").time for batch in (1, 8, 16, 24, 64, 136)]
    assert times == sorted(times)


def test_a_slow_host_sets_the_step_and_the_shares_follow() -> None:
    base = ask("resnet18", "workload.batch=256", "run.host_seconds=0")
    slow = ask("resnet18", "workload.batch=256", "run.host_seconds=40ms", "run.workers=4")
    assert slow.time == pytest.approx(256 * 0.04 / 4)
    assert slow.metrics["host"] == pytest.approx(1.0)
    assert slow.metrics["device"] * slow.time == pytest.approx(base.metrics["device"] * base.time)
    assert slow.metrics["idle"] == pytest.approx(slow.metrics["infeed"])
    assert base.metrics["idle"] < 0.01 < 0.8 < slow.metrics["idle"]
    for name, (low, high) in slow.metric_intervals.items():
        assert 0 <= low <= slow.metrics[name] <= high <= 1
    taking_turns = ask("resnet18", "workload.batch=256", "run.host_seconds=40ms", "run.workers=4", "run.prefetch=0")
    assert taking_turns.time == pytest.approx(slow.time + base.time)


def test_a_run_is_its_steps_and_what_stands_around_them() -> None:
    step, short = ask("mlp"), ask("mlp", "run.steps=1000")
    longer = ask("mlp", "run.steps=3000")
    assert longer.time - short.time == pytest.approx(2000 * step.time)
    assert short.metrics["idle"] > longer.metrics["idle"] > 0.2
    many = ask("mlp", "run.steps=1000", "run.sessions=3", "run.evaluations=2", "run.checkpoints=5")
    assert many.time > short.time
    text = " ".join(many.assumptions)
    assert "1000 steps, 3 sessions, 2 evaluations, 5 checkpoints" in text
    assert "the global batch of 1024 divided over 8 cores" in text


def test_the_start_of_the_log_it_was_read_from() -> None:
    """BERT on MRPC: 84 s until the first step, 26 s to save, in the program's own public log."""
    asked = question("tpupoint-bert-mrpc", "tpu-v2-8", None, [])
    model = asked.estimator
    assert isinstance(model, InputBoundAccelerator)
    schedule = model.schedule
    own = (
        model.lowered_graph(model.graph(asked.workload, asked.machine), asked.machine).bind_known({"batch": 32}).bound()
    )
    values = {f"parameter.{name}": value for name, (value, _) in parameters(schedule).items()}
    values |= {"run.sessions": 1.0, "run.steps": 343.0, "run.evaluations": 0.0}
    client = float(
        schedule.client_time(own).xreplace({s: values[str(s)] for s in schedule.client_time(own).free_symbols})
    )
    assert client + schedule.setup == pytest.approx(84.1, rel=0.15)


def test_compiled_and_estimated_are_the_same() -> None:
    for settings_ in ((), ("run.steps=500",)):
        asked = question("resnet18", "tpu-v2-8", None, settings_)
        free = ("workload.batch", "run.host_seconds")
        function = asked.estimator.compile(asked.workload, asked.machine, free, asked.run)
        seconds = function({"workload.batch": np.array([64.0, 250.0]), "run.host_seconds": np.array([0.0, 0.02])})
        for index, (batch, host) in enumerate(((64, 0), (250, 0.02))):
            alone = ask("resnet18", f"workload.batch={batch}", f"run.host_seconds={host}", *settings_)
            assert seconds[index] == pytest.approx(alone.time, rel=1e-9)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 600), st.floats(0, 0.02), st.integers(1, 32), st.sampled_from(["mlp", "resnet18"]))
def test_more_work_is_never_faster_and_shares_are_shares(batch: int, host: float, workers: int, name: str) -> None:
    given_ = (f"run.host_seconds={host}", f"run.workers={workers}")
    base = ask(name, f"workload.batch={batch}", *given_)
    more = ask(name, f"workload.batch={batch + 64}", *given_)
    assert more.time >= base.time * (1 - 1e-12)
    assert all(0 <= share <= 1 + 1e-9 for share in base.metrics.values())
    assert base.metrics["matrix"] <= base.metrics["mxu"] * (1 + 1e-9)


def test_what_cannot_be_is_refused_and_what_is_fixed_is_said() -> None:
    with pytest.raises(InputError, match=r"run\.host_seconds = -1"):
        ask("mlp", "run.host_seconds=-1")
    with pytest.raises(InputError, match=r"run\.workers = 0"):
        ask("mlp", "run.workers=0")
    with pytest.raises(InputError, match="host_second"):
        ask("mlp", "run.host_second=1")
    fixed = question(workload("mlp").bind(batch=64), "tpu-v2-8", "tpu", []).answer()
    assert any("no batch to divide" in text for text in fixed.assumptions)
    assert any("give run.host_seconds" in text for text in ask("mlp").assumptions)


def test_more_cores_share_the_batch_and_the_memory() -> None:
    asked = question("mlp", "tpu-v2-8", None, [])
    function = asked.estimator.compile(asked.workload, asked.machine, ("machine.cores",), asked.run)
    seconds = function({"machine.cores": np.array([4.0, 8.0])})
    half = question("mlp", "tpu-v2-8", None, ["machine.cores=4"]).answer()
    assert seconds == pytest.approx([half.time, ask("mlp").time], rel=1e-9)


def test_where_nothing_is_handed_over_nothing_starts() -> None:
    """A product by itself, and a network whose input is there, do not wait for an infeed."""
    alone = question("gemm", "tpu-v2-8", None, []).answer()
    assert alone.metrics["infeed"] == 0 and alone.time < 1e-3
    assert ask("mlp").metrics["link"] == 0
    assert ask("mlp", "run.example_bytes=4000").metrics["link"] > 0
    one, eight = ask("bert-base-inference", "workload.batch=1"), ask("bert-base-inference", "workload.batch=8")
    assert one.metrics["matrix"] == pytest.approx(eight.metrics["matrix"] / 8)  # seven cores have nothing to do
    chip = question("resnet18", "tpu-v2", None, ["workload.batch=64"]).answer()
    assert 0 < chip.metrics["matrix"] < 0.6


def test_a_run_s_rates_are_those_of_its_steps_and_it_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "mlp", "--on", "tpu-v2-8", "--set", "run.steps=100000", "--format", "json"]) == 0
    (long,) = json.loads(capsys.readouterr().out)
    assert run(["estimate", "mlp", "--on", "tpu-v2-8", "--format", "json"]) == 0
    (step,) = json.loads(capsys.readouterr().out)
    assert long["rate_per_s"] == pytest.approx(step["rate_per_s"], rel=0.2)
    assert long["rate_per_s"] < step["rate_per_s"]
    assert run(["explain", "tpupoint-dcgan-cifar10", "--on", "tpu-v3-8"]) == 0
