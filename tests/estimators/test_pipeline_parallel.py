"""Pipelines of microbatches: recurrence against closed forms, the schedule's account, and what it refuses."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.roofline.measured_table import MeasuredTimes, measured_key
from slipstick.estimators.training.graph_on_devices import LANES, PipelineParallel
from slipstick.experiments.explain.explanation import crossover_rows
from slipstick.experiments.question import registry
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.networks.megatron.layout import FULL, OFF, ON, SELECTIVE
from slipstick.workloads.networks.megatron.step import parallel_gpt

seconds = st.floats(0.01, 10.0)


def _lanes(times: dict[str, float], run: dict[str, float]) -> Estimate:
    """One operation a lane with a given time."""
    operations = tuple(
        Op(lane, "measured", dims=FrozenDict(number=place), attributes=FrozenDict(lane=lane))
        for place, lane in enumerate(LANES)
    )
    on = machine("a100-80-dgx")
    known = FrozenDict({measured_key(op): times.get(op.name, 0.0) for op in operations})
    model = ComposedEstimator(MeasuredTimes(known, on.fingerprint), PipelineParallel())
    whole = {"interleave": 1.0, "batch": 1.0, "microbatch": 1.0, "data_parallel": 1.0, "overlap_gradients": 1.0}
    return model.estimate(Workload("lanes", operations), on, {"pipeline_parallel": 1.0, **whole, **run})


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), seconds)
def test_equal_stages_leave_a_bubble_of_p_less_one_over_v(p: int, groups: int, v: int, each: float) -> None:
    """Narayanan et al., SC 2021, section 2.2: m (f + b) + (p - 1) (f + b) / v."""
    m = p * groups
    run = {"pipeline_parallel": float(p), "interleave": float(v), "batch": float(m)}
    assert _lanes({"layer": m * each}, run).time == pytest.approx((m + (p - 1) / v) * each, rel=1e-9)


def span(forward: list[float], backward: list[float], microbatches: int) -> float:
    """Seconds of 1F1B by its recurrence: a stage runs as many forwards ahead as stages follow it."""
    stages = len(forward)
    done: dict[tuple[str, int, int], float] = {}
    free = [0.0] * stages
    orders = []
    for stage in range(stages):
        ahead = min(stages - stage - 1, microbatches)
        order = [("f", micro) for micro in range(ahead)]
        for micro in range(microbatches - ahead):
            order += [("f", ahead + micro), ("b", micro)]
        orders.append(order + [("b", micro) for micro in range(microbatches - ahead, microbatches)])
    while any(orders):
        for stage, order in enumerate(orders):
            while order:
                kind, micro = order[0]
                before = ("f", stage - 1, micro) if kind == "f" else ("b", stage + 1, micro)
                before = ("f", stage, micro) if before[1] == stages else before
                if before[1] >= 0 and before not in done:
                    break
                free[stage] = max(free[stage], done.get(before, 0.0)) + (forward if kind == "f" else backward)[stage]
                done[kind, stage, order.pop(0)[1]] = free[stage]
    return max(free)


@settings(deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), seconds, st.floats(0.0, 5.0))
def test_a_slower_last_stage_sets_the_pace(p: int, groups: int, each: float, head: float) -> None:
    m = p * groups
    expected = span([each / 2] * (p - 1) + [each / 2 + head], [each / 2] * p, m)
    run = {"pipeline_parallel": float(p), "batch": float(m)}
    assert _lanes({"layer": m * each, "head": m * head}, run).time == pytest.approx(expected, rel=1e-9)


@settings(deadline=None)
@given(seconds, seconds, seconds)
def test_collectives_beside_gradients_hide_or_stick_out(layer: float, gradient: float, beside: float) -> None:
    times = {"layer": layer, "weight_gradient": gradient, "beside_weight": beside}
    assert _lanes(times, {}).time == pytest.approx(layer + max(gradient, beside), rel=1e-9)


@settings(deadline=None)
@given(seconds, seconds)
def test_sums_of_gradients_hide_behind_the_last_backward_where_they_may(gradient: float, data: float) -> None:
    times = {"weight_gradient": gradient, "data": data}
    assert _lanes(times, {"overlap_gradients": 2.0}).time == pytest.approx(max(gradient, data), rel=1e-9)
    assert _lanes(times, {"overlap_gradients": 1.0}).time == pytest.approx(gradient + data, rel=1e-9)


@settings(deadline=None)
@given(seconds, seconds, seconds)
def test_what_replicas_share_out_hides_behind_every_microbatch(layer: float, gradient: float, said: float) -> None:
    times = {"layer": layer, "weight_gradient": gradient}
    run = {"batch": 4.0, "overlap_gradients": 2.0}
    assert _lanes({**times, "data_each": said}, run).time == pytest.approx(layer + max(gradient, said), rel=1e-9)
    assert _lanes({**times, "weights_each": said}, run).time == pytest.approx(max(layer + gradient, said), rel=1e-9)
    assert _lanes({**times, "gathered": said}, run).time == pytest.approx(layer + gradient + said, rel=1e-9)


@cache
def small() -> Workload:
    return parallel_gpt("small", layers=8, width=1024, heads=16, vocabulary=1024, seq_len=1024)


@cache
def _small(**run: float) -> Estimate:
    model = registry.estimator("parallel-training")
    answer: Estimate = model.estimate(small(), machine("a100-80-dgx"), {"batch": 16.0, **run})
    return answer


def test_the_account_adds_up_and_names_what_grows() -> None:
    alone, tensor, stages = (_small(**run) for run in ({}, {"tensor_parallel": 4.0}, {"pipeline_parallel": 4.0}))
    parts = [name for name in alone.metrics if name != "memory_share"]
    for answer in (alone, tensor, stages):
        assert sum(answer.metrics[name] for name in parts) == pytest.approx(1.0)
        assert answer.interval() is not None
    assert alone.metrics["tensor_parallel"] == alone.metrics["pipeline_bubble"] == 0.0
    assert tensor.metrics["tensor_parallel"] > 0.05 and tensor.time < alone.time
    assert stages.metrics["pipeline_bubble"] == pytest.approx(3 / 16 / (1 + 3 / 16), abs=0.06)


def test_energy_is_that_of_all_devices_together() -> None:
    alone, four = _small(), _small(data_parallel=4.0, batch=64.0)
    assert alone.energy is not None and four.energy is not None
    assert four.energy / four.time == pytest.approx(4 * alone.energy / alone.time, rel=0.05), "four draw four times"
    assert any("all devices together" in text for text in four.assumptions)


def test_sharing_out_states_spares_memory_and_parameters_want_one_stage() -> None:
    run = {"data_parallel": 4.0, "batch": 64.0}
    answers = [_small(**run, shard=float(shard)) for shard in (1, 2, 3, 4)]
    memory = [answer.metrics["memory_share"] for answer in answers]
    assert memory == sorted(memory, reverse=True) and memory[0] > 1.2 * memory[2]
    assert answers[1].metrics["update"] < 0.5 * answers[0].metrics["update"]
    with pytest.raises(InputError, match=r"run.shard = 3 with run.pipeline_parallel = 2: .* run.shard=optimizer"):
        _small(shard=3.0, pipeline_parallel=2.0)
    said = _small(batch=4096.0, microbatch=512.0).assumptions
    assert any("GB a device: DOES NOT FIT" in text for text in said)


def test_recomputing_costs_time_and_spares_memory() -> None:
    none, some, full = (_small(recompute=float(level), sequence_parallel=float(OFF)) for level in (1, SELECTIVE, FULL))
    assert none.time < some.time < full.time
    assert none.metrics["memory_share"] > some.metrics["memory_share"] > full.metrics["memory_share"]
    # A third of forward and backward is forward: full recomputation adds that much of the layers.
    assert full.time / none.time == pytest.approx(4 / 3, abs=0.06)


def test_points_and_arrays_are_the_same_code() -> None:
    model = registry.estimator("parallel-training")
    asked, on = small(), machine("a100-80-dgx")
    run = {"batch": 16.0, "sequence_parallel": float(ON)}
    free = ("run.tensor_parallel", "run.pipeline_parallel", "run.recompute")
    tensor, stages, level = np.meshgrid([1.0, 8.0], [4.0], [1.0, 3.0], indexing="ij")
    times = model.compile(asked, on, free, run)(dict(zip(free, (tensor, stages, level), strict=True)))
    for place in np.ndindex(times.shape):
        values = {"tensor_parallel": tensor[place], "pipeline_parallel": stages[place], "recompute": level[place]}
        assert times[place] == pytest.approx(model.estimate(asked, on, {**run, **values}).time, rel=1e-9)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"pipeline_parallel": 16.0}, "more than the 8 layers"),
        ({"tensor_parallel": 1.5}, r"run.tensor_parallel = 1.5: want a whole number >= 1"),
        ({"recompute": 4.0}, "run.recompute = 4: want a whole number from 1 to 3"),
    ],
)
def test_what_cannot_be_is_refused(run: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        _small(**run)


def test_what_does_not_fit_is_said() -> None:
    model = registry.estimator("parallel-training")
    asked = parallel_gpt("large", layers=48, width=6144, heads=64)
    answer = model.estimate(asked, machine("a100-80-dgx"), {"tensor_parallel": 2.0})
    assert any("DOES NOT FIT" in text for text in answer.assumptions)


def test_what_bounds_each_kernel_turns_somewhere() -> None:
    """The terms of a kernel name bytes that its time counts by tiles; crossovers know them all the same."""
    asked = parallel_gpt("small", layers=8, width=1024, heads=16, vocabulary=1024, seq_len=1024)
    rows = crossover_rows(
        question(asked, "a100-80-dgx", "parallel-training", ["run.recompute=none"]), ["machine.clock"]
    )
    turning = {str(row["operation"]) for row in rows}
    assert any(name.startswith("layer.forward.scores") for name in turning)  # equal layers are one row


def test_quantities_of_a_parallel_step_are_what_its_time_says() -> None:
    """MFU as the line of the plain answer has it."""
    from slipstick.experiments.question.facts import facts

    plain = question("megatron-175b", "a100-80gb")
    answer, known = plain.answer(), facts(plain, plain.answer())
    told = question("megatron-175b", "a100-80gb", quantity="mfu").answer()
    values = {one.name: one.value for one in told.quantities.values()}
    assert values["mfu"] == known.mfu and told.head == "mfu" and values["time"] == answer.time
    assert values["tokens"] == 64 * 2048 / answer.time and told.devices == 64
    assert values["power"] * answer.time == pytest.approx(answer.energy)
    assert values["memory"] == answer.metrics["memory_share"] * 80e9
    low, high = told.quantities["mfu"].band or (0.0, 0.0)
    slow, fast = (values["mfu"] * answer.time / end for end in reversed(answer.interval() or (1.0, 1.0)))
    assert (low, high) == pytest.approx((slow, fast))


def test_a_sweep_of_layouts_begins_with_the_quantity_that_is_wanted() -> None:
    import slipstick as ss

    layouts = {"run.tensor_parallel": [1, 2, 4, 8]}
    frame = ss.whatif("megatron-175b", "a100-80gb", layouts, quantity="mfu").to_frame()
    plain = ss.whatif("megatron-175b", "a100-80gb", layouts).to_frame()
    assert frame["time_s"].tolist() == pytest.approx(plain["time_s"].tolist(), rel=1e-12)
    assert frame["mfu"].is_monotonic_decreasing and frame["tokens_per_s"].is_monotonic_increasing


def test_a_memory_that_is_counted_is_not_called_uncalibrated() -> None:
    """Its time has a band: what has none is the count of bytes."""
    from slipstick.experiments.report.summary import headline

    for name, words in (("memory", "; no band"), ("time", " s ")):
        asked = question("megatron-175b", "a100-80gb", quantity=name)
        line = headline(asked, asked.answer())
        assert "not calibrated" not in line and words in line
