"""One step of a server: amounts equal the graph's, bounds of physics, laws of the time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.engines import ServingFit, engine_of, step_groups
from slipstick.estimators.engine_steps.first_token import FIRST_TOKEN_LAW, FirstParts, first_columns, first_groups
from slipstick.estimators.engine_steps.fitted_steps import serving_fit
from slipstick.estimators.engine_steps.step_amounts import Batch, Shares
from slipstick.estimators.engine_steps.step_device import PCIE_RANK_LATENCY, Device
from slipstick.estimators.engine_steps.step_law import StepSum
from slipstick.estimators.engine_steps.step_time import LayerCounts, StepParameters, StepTime
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.experiments.question.question import question as ask
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.language.language_step import language_step
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import weight_type
from slipstick.workloads.language_catalog import language_model

ALONE = Layout()
BATCH = Batch(32, 1000.0, 4096.0, 512.0, 1024.0, 2.0)


@pytest.mark.parametrize("layout", [Layout(), Layout(8), Layout(2, 1, 4, 8)], ids=Layout.text)
@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v3", "gpt-oss-120b", "qwen3.5-397b-a17b"])
def test_amounts_are_the_graphs(name: str, layout: Layout) -> None:
    model = language_model(name)
    if model.experts is None and layout.data > 1:
        pytest.skip("no experts, no data ranks")
    values = {
        "decodes": 32, "context": 1000, "prompt": 4096, "past": 512, "chunk": 1024, "finished": 2,
        "tensor": layout.tensor, "data": layout.data, "expert": layout.expert, "pipeline": 1,
    }  # fmt: skip
    step = language_step(model, "bf16").bind_known(values).bound()
    amounts = Shares(model, layout, weight_type("bf16")).amounts(BATCH)
    flop = sum(float(op.cost["flop.matrix.bfloat16"] * op.times) for op in step)
    weights = sum(
        float(op.dims["batch"] * op.dims["m"] * op.dims["k"] * 2 * op.times) for op in step if op.kind == "gemm"
    )
    cache = sum(float(op.cost["read"] * op.times) for op in step if op.kind == "attention")
    cache += sum(float(op.cost.bytes_moved * op.times) for op in step if op.name == "linear.state")
    ours = amounts.linear_flop + amounts.expert_flop + amounts.head_flop + amounts.score_flop
    assert ours == pytest.approx(flop, rel=1e-9)
    assert amounts.weight_bytes + amounts.expert_bytes == pytest.approx(weights, rel=1e-9)
    assert amounts.cache_bytes == pytest.approx(cache, rel=1e-9)


def step_on(name: str, model: str, layout: Layout = ALONE, stored: str = "bf16") -> StepTime:
    """A step with the parameters that were expected before any fit."""
    return StepTime.for_machine(
        machine(name), Shares(language_model(model), layout, weight_type(stored)), StepParameters()
    )


def test_8b_on_an_h100_stays_below_223_tokens_a_second() -> None:
    step = step_on("h100-sxm", "llama-3.1-8b")
    assert 1 / step.floor(Batch(1, 1.0)) <= 224
    assert 100 < 1 / step.seconds(Batch(1, 100.0)) < 223


def test_keys_and_values_repeat_beyond_the_heads_that_have_them() -> None:
    model = language_model("qwen3-235b-a22b")  # 4 heads of keys and values
    four, eight = (Shares(model, Layout(t), weight_type("fp8")) for t in (4, 8))
    assert four.token_cache_bytes == eight.token_cache_bytes == 192_512 / 4
    latent = Shares(language_model("deepseek-v3"), Layout(8), weight_type("fp8"))
    assert latent.token_cache_bytes == 70_272


def test_eight_ranks_are_three_times_one_never_eight() -> None:
    """70B FP8 on H200, four users: measured 20.1 to 6.3 ms (TensorRT-LLM), 21.5 to 7.9 ms (vLLM)."""
    one, eight = (step_on("h200-sxm", "llama-3.1-70b", Layout(t), "fp8").seconds(Batch(4, 1500.0)) for t in (1, 8))
    assert 2 < one / eight < 4.5


@given(
    decodes=st.integers(0, 300),
    context=st.floats(1, 50_000),
    prompt=st.integers(0, 8192),
    faster=st.floats(1.01, 4.0),
    name=st.sampled_from(["llama-3.1-8b", "gpt-oss-120b"]),
)
def test_laws_of_a_step(decodes: int, context: float, prompt: int, faster: float, name: str) -> None:
    if decodes + prompt == 0:
        decodes = 1
    batch = Batch(decodes, context, prompt, 0.0, float(max(prompt, 1)), 1.0 if prompt else 0.0)
    today = machine("h200-sxm")
    step = step_on("h200-sxm", name)
    bandwidth = today.bandwidth("HBM3e") * faster
    better = today.using({"memory.HBM3e.bandwidth": bandwidth})
    quick = StepTime.for_machine(better, step.shares, step.parameters)
    assert quick.seconds(batch) <= step.seconds(batch)
    assert step.floor(batch) <= step.seconds(batch)
    more = Batch(decodes + 8, context, prompt, 0.0, float(max(prompt, 1)), batch.finished)
    assert step.seconds(more) >= step.seconds(batch)


def test_several_ranks_need_a_link() -> None:
    said = r"no link joins 16 devices \(links: pcie of 8\).*--set machine.links.pcie.width=16"
    with pytest.raises(InputError, match=said):
        step_on("l40s", "llama-3.1-70b", Layout(16))
    assert step_on("l40s", "llama-3.1-70b", Layout(4)).device.link == 32e9  # PCI Express 4.0 x16, one way
    assert step_on("a100-pcie-80gb", "llama-3.1-70b", Layout(2)).device.link == 300e9  # the bridge of two boards
    assert step_on("a100-pcie-80gb", "llama-3.1-70b", Layout(4)).device.link == 32e9


def test_all_reduces_over_pcie_wait_for_each_tensor_rank() -> None:
    """Ranks of data have all-reduces of their own, and a switch serves all at once."""
    model, kind, batch = language_model("mixtral-8x7b"), weight_type("bf16"), Batch(1.0, 512.0)

    def of_ranks(name: str, layout: Layout) -> float:
        return StepTime.for_machine(machine(name), Shares(model, layout, kind), StepParameters()).device.rank_latency

    assert of_ranks("l40s", Layout(2)) == of_ranks("l40s", Layout(2, data=4, expert=8)) == 1.0
    assert of_ranks("l40s", Layout(4)) == of_ranks("l40s", Layout(4, data=2, expert=8)) == 1 + 2 * PCIE_RANK_LATENCY
    assert of_ranks("h100-sxm", Layout(8)) == 1.0
    step = StepTime.for_machine(machine("l40s"), Shares(model, Layout(8), kind), StepParameters())
    quick = StepTime(step.shares, replace(step.device, rank_latency=1.0), StepParameters())
    waits = 2 * model.layers * StepParameters().all_reduce * 6 * PCIE_RANK_LATENCY * step.device.fixed
    assert step.parts(batch).fixed - quick.parts(batch).fixed == pytest.approx(waits)


def test_what_ships_never_passes_the_data_sheet() -> None:
    """A fast engine, a fast chip and the low edge of the band together: still within bytes over bandwidth and flop."""
    fitted = ServingFit.of(load_fitted("serving"))
    for name, model, stored in (("b200-sxm", "llama-3.1-70b", "nvfp4"), ("h100-sxm", "gpt-oss-120b", "mxfp4")):
        groups = step_groups(machine(name), name, "trtllm", "", model, stored)
        shares = Shares(language_model(model), ALONE, weight_type(stored))
        step = StepTime.for_machine(machine(name), shares, fitted.parameters(groups)).scaled(0.2)
        for batch in (Batch(1, 100.0), Batch(256, 4000.0), Batch(0, 0, 8192.0, 0, 8192.0, 1.0), BATCH):
            assert step.seconds(batch) >= step.floor(batch)


def test_bands_of_another_maker_are_wider() -> None:
    fitted = ServingFit.of(load_fitted("serving"))
    widths = []
    for name in ("h100-sxm", "gh200", "mi300x"):
        shares = Shares(language_model("llama-3.1-8b"), ALONE, weight_type("fp8"))
        device = Device.of(machine(name), "float8")
        plain = shares.amounts(Batch(8, 1000.0))
        row = StepSum(plain, plain, device, LayerCounts.of(shares, device), 8.0)
        groups = step_groups(machine(name), name, "vllm", "0.19.0", "llama-3.1-8b", "fp8")
        widths.append(fitted.half_width(row, groups))
    assert widths[0] < widths[1] < widths[2]
    assert widths[2] > 1.5 * widths[0]


def test_engines_by_the_words_of_a_runtime() -> None:
    assert engine_of("vLLM 0.19.0") == ("vllm", "0.19.0")
    assert engine_of("TensorRT-LLM 1.0") == ("trtllm", "1.0")
    with pytest.raises(InputError, match="unknown serving engine"):
        engine_of("vlm")


def test_a_first_token_is_surer_where_it_was_measured_than_at_another_site() -> None:
    """Front ends, clients and networks differ: a question's site is none of those that were fitted."""
    made = serving_fit().first
    law, parts = FIRST_TOKEN_LAW, first_columns([FirstParts(0.05, 0.0, 0.002, 0.002, 0.1, 0.01, 4.0, decoding=1.0)])
    seen = min(made.seen("site"))
    known, other = (
        made.half_width(law, parts, first_groups({"engine": "vllm", "model": "llama-3.1-70b", "site": site}))[0]
        for site in (seen, "another site")
    )
    assert other > 1.05 * known


def test_a_model_is_known_by_what_a_step_multiplies() -> None:
    """Neither a name nor a stated number of parameters: the same operations under another name take the same time."""
    shipped = workload("llama-3-8b-decode")
    bare = Workload("mine", shipped.operations, shipped.edges, shipped.defaults)
    one, two = (ask(step, "l4", dtype="bf16", settings={"workload.batch": 4}).answer().time for step in (shipped, bare))
    assert two == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("name", ["titan-xp", "p4"])
def test_16_bits_that_run_at_a_64th_are_computed_in_float32(name: str) -> None:
    """Pascal's GP102 and GP104 (CUDA programming guide, throughput of arithmetic): libraries use float32 there."""
    settings = {"workload.batch": 4}
    half, single = (
        ask("llama-3-8b-decode", name, dtype=one, settings=settings).answer() for one in ("fp16", "float32")
    )
    assert half.time < single.time and half.least < single.least


@pytest.mark.parametrize("step", ["decode:llama-3.1-8b", "prompt:llama-3.1-8b"])
def test_tf32_is_float32_as_a_server_multiplies_it(step: str) -> None:
    """Weights of 32 bits at TF32's rate: a prompt took no more than its flop need at the peak."""
    one, two = (ask(step, "l4", dtype=name).answer().time for name in ("tf32", "float32"))
    assert one == pytest.approx(two, rel=1e-9)


@pytest.mark.parametrize("name", ["t4", "v100-sxm", "mi250x", "p100-sxm", "xeon-phi-7120p", "apple-m2"])
@pytest.mark.parametrize("step", ["decode:llama-3.2-1b", "prompt:llama-3.2-1b"])
def test_float32_weights_are_multiplied_in_float32_where_there_is_no_tf32(name: str, step: str) -> None:
    """They were refused for want of a type that nobody asked for; twice the bytes of 16 bits take no less time."""
    single, half = (ask(step, name, dtype=dtype).answer() for dtype in ("float32", "fp16"))
    assert single.time > half.time and single.least >= half.least
    under_an_engine = name not in ("xeon-phi-7120p", "apple-m2")
    assert any("no TF32" in line for line in single.assumptions) == under_an_engine


@pytest.mark.parametrize("name", ["v100-sxm", "h100-sxm"])
def test_32_bits_run_at_no_rate_of_16(name: str) -> None:
    """Matrix units of a V100 multiply 16 bits alone: 128 sequences in float32 took what their flop need at the peak."""
    answer = ask("llama-3-8b-decode", name, dtype="float32", settings={"workload.batch": 128}).answer()
    assert answer.time > 1.2 * answer.least
