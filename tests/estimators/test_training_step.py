"""The step of training: 1F1B against a simulation of it, bounds, layouts that cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.training.layout_step_time import TrainingLinks, TrainingStep
from slipstick.estimators.training.time_breakdown import PARTS, TrainingTerms, layer_parts
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import TrainingLayout
from slipstick.workloads.language_catalog import language_model

# the head is as good as nothing, so that stages are alike
EVEN = LanguageModel("even", 48, 4096, 32, 32, 128, 16384, 1)
FREE = TrainingTerms(stragglers=0.0, handed=0.01)


def one_forward_one_backward(stages: int, rounds: int, forward: float, backward: float) -> float:
    """End of a schedule: each stage runs up to p - i forwards ahead, then one of each in turn."""
    ends: dict[tuple[str, int, int], float] = {}
    orders = []
    for stage in range(stages):
        ahead = min(stages - stage, rounds)
        order = [("f", n) for n in range(ahead)]
        for n in range(rounds):
            order.append(("b", n))
            if ahead + n < rounds:
                order.append(("f", ahead + n))
        orders.append(order)
    free, place = [0.0] * stages, [0] * stages
    while any(place[i] < len(orders[i]) for i in range(stages)):
        for i in range(stages):
            while place[i] < len(orders[i]):
                kind, n = orders[i][place[i]]
                if kind == "f":
                    needs = ("f", i - 1, n) if i else None
                else:
                    needs = ("b", i + 1, n) if i + 1 < stages else ("f", i, n)
                if needs is not None and needs not in ends:
                    break
                free[i] = max(free[i], ends[needs] if needs else 0.0) + (forward if kind == "f" else backward)
                ends[(kind, i, n)] = free[i]
                place[i] += 1
    return max(free)


@given(st.integers(1, 8), st.integers(1, 16), st.floats(0.1, 10), st.floats(0.1, 10))
def test_closed_form_of_1f1b_is_its_simulation(stages: int, rounds: int, forward: float, backward: float) -> None:
    closed = (rounds + stages - 1) * (forward + backward)
    assert one_forward_one_backward(stages, rounds, forward, backward) == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize(("stages", "chunks", "rounds"), [(4, 1, 8), (8, 2, 16), (4, 4, 4), (1, 1, 5)])
def test_bubble_of_a_step(stages: int, chunks: int, rounds: int) -> None:
    """Narayanan et al. 2021, section 2.2: bubble over ideal time is (p - 1) / (v m)."""
    step = TrainingStep(EVEN, machine("h100-dgx"), 4096, devices=64, terms=FREE)
    parts = step.step(TrainingLayout(pipeline=stages, chunks=chunks), rounds).parts
    micro = sum(parts[name] for name in PARTS if name not in ("bubble", "data", "optimizer", "stragglers"))
    assert parts["bubble"] == pytest.approx(micro * (stages - 1) / (chunks * rounds), rel=1e-5)


@given(
    st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2]),
    st.sampled_from([1, 2]), st.sampled_from([0, 1, 3]), st.sampled_from(["bf16", "fp8"]),
)  # fmt: skip
def test_no_layout_is_below_the_bound_and_parts_add_up(
    tensor: int, pipeline: int, data: int, context: int, micro: int, shard: int, precision: str
) -> None:
    step = TrainingStep(language_model("llama-3.1-8b"), machine("h100-dgx"), 8192, precision, 2048)
    layout = TrainingLayout(tensor, pipeline, data, context, micro=micro, shard=shard)
    time = step.step(layout, 64)
    assert time.seconds == pytest.approx(sum(time.parts.values()))
    assert time.seconds > step.bound(layout.devices, 64)
    assert step.bound(layout.devices + 1, 64) < step.bound(layout.devices, 64)


@given(st.floats(1e-3, 1e4))
def test_a_step_is_never_faster_than_its_input(loading: float) -> None:
    """Loading overlaps with the step: the longer of the two counts, and the parts still add up."""
    time = TrainingStep(language_model("llama-3.1-8b"), machine("h100-dgx"), 8192).step(TrainingLayout(), 4)
    assert time.with_loading(loading).seconds == pytest.approx(max(time.seconds, loading))
    assert (time.with_loading(loading).bound == "input") == (loading > time.seconds)


def layer_of(step: TrainingStep, layout: TrainingLayout) -> dict[str, float]:
    """Seconds of a layer for one microbatch."""
    return layer_parts(step.amounts(layout, layout.data), step.terms)


def test_full_recomputation_costs_a_forward_pass() -> None:
    step = TrainingStep(language_model("llama-3.1-8b"), machine("h100-dgx"), 8192)
    kept, again = layer_of(step, TrainingLayout()), layer_of(step, TrainingLayout(recompute="full"))
    assert again["products"] / kept["products"] == pytest.approx(4 / 3)


def test_experts_over_two_nodes_cost_more_than_over_one() -> None:
    step = TrainingStep(language_model("qwen3-235b-a22b"), machine("h100-dgx"), 4096, devices=64)
    near, far = (layer_of(step, TrainingLayout(data=32, expert=n))["expert"] for n in (8, 32))
    assert far > 2 * near


def test_rings_of_eight_ports_are_faster_than_of_one() -> None:
    """Eight ranks of a node pass a ring's data over eight ports; a rank that is alone in its node over one."""
    net = TrainingLinks.of(machine("h100-dgx"), 2048)
    assert net.ring(8e9, 64, 8) > 6 * net.ring(8e9, 64, 1)
    assert net.ring(1e9, 1, 1) == 0.0


def test_what_cannot_be_is_refused() -> None:
    model = language_model("llama-3.1-8b")
    with pytest.raises(InputError, match="joins 8 devices, not 64"):
        TrainingStep(model, machine("h100-sxm"), 8192, devices=64).step(TrainingLayout(data=64), 64)
    with pytest.raises(InputError, match="float8"):
        TrainingStep(model, machine("a100-80-dgx"), 8192, "fp8")
    with pytest.raises(InputError, match="precision of training"):
        TrainingStep(model, machine("h100-dgx"), 8192, "fp7")
    with pytest.raises(InputError, match="want at most 8"):
        TrainingStep(model, machine("h100-dgx"), 8192, devices=8).step(TrainingLayout(data=16), 64)
