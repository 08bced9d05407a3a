"""Transformers on many devices: counts against published closed forms, and the data-parallel transform."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression, symbol
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.networks.megatron.layout import (
    FULL,
    NONE,
    OFF,
    ON,
    SELECTIVE,
    STATE_BYTES,
    state_bytes,
)
from slipstick.workloads.networks.megatron.step import SIZES, megatron, parallel_gpt
from slipstick.workloads.networks.mlp import mlp
from slipstick.workloads.networks.transformer import gpt
from slipstick.workloads.transforms.parallel import data_parallel

PAPER = ("megatron-22b", "megatron-175b", "megatron-530b", "megatron-1t")
UTILISATION = {"megatron-22b": (1.10, 0.415), "megatron-175b": (13.75, 0.514)}
UTILISATION |= {"megatron-530b": (37.83, 0.560), "megatron-1t": (71.49, 0.563)}
"""Korthikanti et al., arXiv 2205.05198, Table 5: seconds of an iteration and model flop utilisation."""
A100_PEAK = 312e12


def products(name: str, **run: float) -> float:
    """flop of the matrix products of one device."""
    bound = megatron(name).bind_known({"recompute": NONE, **run}).bound()
    return float(sum(op.cost.flop * op.times for op in bound if op.kind == "gemm"))


def sizes(name: str) -> tuple[int, int, int, int, int, float]:
    asked = megatron(name)
    own = SIZES[name]
    devices = asked.defaults["tensor_parallel"] * asked.defaults["pipeline_parallel"]
    return own["layers"], own["width"], 2048, 51_200, int(asked.defaults["batch"]), devices


@pytest.mark.parametrize("name", PAPER)
def test_products_are_the_papers_model_flop(name: str) -> None:
    """Eq. 7: 72 B L s h^2 (1 + s / 6h + V / 12hL), of which one device has its part and an end the words."""
    layers, h, s, words, batch, devices = sizes(name)
    own = 72 * batch * layers * s * h**2 * (1 + s / (6 * h)) / devices
    end = 6 * batch * s * h * words / 8
    assert products(name) == pytest.approx(own + end, rel=1e-9)


@pytest.mark.parametrize("name", PAPER)
def test_the_published_utilisation_and_time_name_the_same_flop(name: str) -> None:
    """What we take for the published run (sizes, batch, devices) is what the paper computed its utilisation from."""
    layers, h, s, words, batch, devices = sizes(name)
    flop = 72 * batch * layers * s * h**2 * (1 + s / (6 * h) + words / (12 * h * layers))
    seconds, utilisation = UTILISATION[name]
    assert flop / devices / A100_PEAK / seconds == pytest.approx(utilisation, rel=0.005)


@pytest.mark.parametrize("name", PAPER)
def test_recomputing_everything_repeats_the_forward_pass(name: str) -> None:
    layers, h, s, _, batch, devices = sizes(name)
    forward = 24 * batch * layers * s * h**2 * (1 + s / (6 * h)) / devices
    assert products(name, recompute=FULL) - products(name) == pytest.approx(forward, rel=1e-9)
    core = 4 * batch * layers * s**2 * h / devices
    assert products(name, recompute=SELECTIVE) - products(name) == pytest.approx(core, rel=1e-9)


@pytest.mark.parametrize(("name", "billions"), [("22b", 22), ("175b", 175), ("530b", 530), ("1t", 1008)])
def test_parameters_are_what_the_names_say(name: str, billions: float) -> None:
    assert megatron(f"megatron-{name}").metadata["parameters"] == pytest.approx(billions * 1e9, rel=0.012)


def activations(run: dict[str, float]) -> float:
    asked = parallel_gpt("one layer", layers=1, width=6144, heads=64, vocabulary=8)
    need = parse_expression(str(asked.metadata["device_memory"]))
    state = STATE_BYTES * (12 * 6144**2 + 7 * 6144 + 6144 * 6 * run["tensor_parallel"] + 8 * 6144)
    whole = float(evaluate(need, {**asked.defaults, **run}))
    return whole - state / run["tensor_parallel"]


@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_activations_are_the_papers(t: int) -> None:
    """Korthikanti et al., eqs. 1-4 and Table 2: bytes of a layer and microbatch."""
    s, b, h, a = 2048, 4, 6144, 64
    run = {"tensor_parallel": t, "microbatch": b, "batch": b}
    tensor = activations({**run, "recompute": NONE, "sequence_parallel": OFF})
    assert tensor == pytest.approx(s * b * h * (10 + 24 / t + 5 * a * s / (h * t)), rel=1e-6)
    both = activations({**run, "recompute": NONE, "sequence_parallel": ON})
    assert both == pytest.approx(s * b * h / t * (34 + 5 * a * s / h), rel=1e-6)
    selective = activations({**run, "recompute": SELECTIVE, "sequence_parallel": ON})
    assert selective == pytest.approx(34 * s * b * h / t, rel=1e-6)


def test_an_unknown_size_or_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown Megatron size 'megatron-7b' \(known: megatron-22b"):
        megatron("megatron-7b")
    with pytest.raises(InputError, match="5 heads do not divide a width of 64"):
        parallel_gpt("odd", layers=1, width=64, heads=5)


def collectives(of: Workload) -> list[str]:
    return [op.name for op in of if op.kind == "collective"]


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 16), st.floats(1e3, 1e9))
def test_data_parallel_sums_every_gradient_once_and_divides_the_batch(devices: int, bucket: float) -> None:
    step = gpt("training", layers=2, width=64, heads=2, vocabulary=128)
    made = data_parallel(step, bucket)
    summed = sum(op.dims["elements"] for op in made if op.attributes.get("function") == "all_reduce")
    assert summed == sum(op.dims["elements"] for op in step if op.kind == "optimizer")
    bound = made.bind(data_parallel=devices, batch=16 * devices).bound()
    alone = step.bind(batch=16).bound()
    assert sum(op.cost.flop * op.times for op in bound if op.kind == "gemm") == sum(
        op.cost.flop * op.times for op in alone if op.kind == "gemm"
    )
    before = {
        name: set(made.structure.predecessors(name)) for name in (op.name for op in made if op.kind == "optimizer")
    }
    assert all(any(first in collectives(made) for first in firsts) for firsts in before.values())
    place = {op.name: index for index, op in enumerate(made)}
    assert all(place[first] < place[second] for first, second in made.edges)


@pytest.mark.parametrize(("shard", "gigabytes"), [(1, 120), (2, 31.4), (3, 16.6), (4, 1.9)])
def test_states_of_replicas_are_the_zero_papers(shard: int, gigabytes: float) -> None:
    """Rajbhandari et al., SC 2020, Figure 1: 7.5 billion parameters on 64 devices, gradients in half precision."""
    assert float(state_bytes(7.5e9, 64, shard, gradient_bytes=2)) / 1e9 == pytest.approx(gigabytes, rel=0.015)


@pytest.mark.parametrize(("shard", "volume"), [(1, 2), (2, 2), (3, 2), (4, 3)])
def test_replicas_say_as_much_as_the_zero_paper_says(shard: int, volume: float) -> None:
    """Rajbhandari et al., section 7: twice the parameters, three times where parameters are shared out."""
    asked = parallel_gpt("small", layers=2, width=64, heads=2, vocabulary=128)
    bound = asked.bind_known({"data_parallel": 8, "batch": 8, "shard": shard}).bound()
    spoken = [op for op in bound if op.name.startswith(("gradients", "weights"))]
    passes = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
    moved = sum(float(op.times * op.dims["elements"]) * passes[str(op.attributes["function"])] for op in spoken)
    assert moved == pytest.approx(volume * float(spoken[0].dims["elements"]))


def test_any_training_step_shares_out_its_optimizer() -> None:
    made = data_parallel(gpt("training", layers=2, width=64, heads=2, vocabulary=128))
    run = {"data_parallel": 4, "batch": 8}
    whole, shared = (made.bind_known({**run, "shard": shard}).bound() for shard in (1, 2))

    def updated(step: Workload) -> float:
        return sum(float(op.dims["elements"]) for op in step if op.kind == "optimizer")

    assert updated(shared) == pytest.approx(updated(whole) / 4)
    functions = {str(op.attributes["function"]) for op in shared if op.kind == "collective" and op.times}
    assert functions == {"reduce_scatter", "all_gather"}
    states = parse_expression(str(made.metadata["device_states"]))
    four = [float(evaluate(states, {"data_parallel": 4, "shard": shard})) / updated(whole) for shard in (1, 2, 3)]
    assert four == pytest.approx([16, 8 + 8 / 4, 4 + 12 / 4]), "AdamW in float32: weight, gradient, two moments"


def test_data_parallel_wants_a_training_step_with_a_batch() -> None:
    with pytest.raises(InputError, match="updates no parameters"):
        data_parallel(mlp("inference"))
    with pytest.raises(InputError, match="no symbol 'batch'"):
        data_parallel(mlp("training").bound())
    with pytest.raises(InputError, match="bucket_bytes = 0"):
        data_parallel(mlp("training"), 0)


@pytest.mark.parametrize("name", ["bert-base-data-parallel", "gpt2-data-parallel", "megatron-gpt2-xl"])
def test_parallel_transformers_are_in_the_catalogue(name: str) -> None:
    asked = workload(name)
    assert "data_parallel" in asked.symbols
    assert symbol("data_parallel") in {
        s for op in asked for s in getattr(op.dims.get("participants"), "free_symbols", ())
    }
