"""Narrow number formats: bytes and scales as the specifications have them, who multiplies them, what stays wide."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import question
from slipstick.workloads.graph.cost import SIZE_BYTES
from slipstick.workloads.graph.footprint import resident_bytes
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import gemm
from slipstick.workloads.networks.transformer import gpt
from slipstick.workloads.transforms.narrow import computed_in, number_type

BITS = {"nvfp4": (4, 16, 8), "mxfp4": (4, 32, 8), "mxfp6": (6, 32, 8), "mxfp8": (8, 32, 8)}
"""Bits of an element, elements of a block, bits of its scale: OCP MX v1.0, table 1; NVIDIA, "Introducing NVFP4"."""
DIMS = st.integers(1, 256).map(lambda n: 32 * n)


@pytest.mark.parametrize("name", BITS)
@given(m=DIMS, n=DIMS, k=DIMS)
@settings(max_examples=20, deadline=None)
def test_bytes_are_elements_and_their_scales(name: str, m: int, n: int, k: int) -> None:
    bits, block, scale = BITS[name]
    (op,) = computed_in(Workload("one", (gemm("product", m, n, k),)), name)
    operands = m * k + k * n
    assert op.cost["read"] == operands * bits / 8 + operands / block * scale / 8
    assert op.cost["written"] == 2 * m * n  # results leave the accumulators with 16 bits
    (op,) = computed_in(Workload("one", (gemm("product", m, n, k),)), f"{name}_weights")
    assert op.cost["read"] == m * k * bits / 8 + m * k / block * scale / 8 + 2 * k * n


@given(m=DIMS, n=DIMS, k=DIMS)
@settings(max_examples=10, deadline=None)
def test_a_narrower_format_takes_no_longer(m: int, n: int, k: int) -> None:
    """The plain roofline, and tiles with the parameters of one class: no wider format is faster, in both ways."""
    from slipstick.estimators.composition.composed_estimator import ComposedEstimator
    from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
    from slipstick.estimators.schedules.sequential import Sequential

    one, on = Workload("one", (gemm("product", m, n, k),)), ss.machine("b200-sxm")
    for estimator in (ss.estimator("roofline"), ComposedEstimator(TiledRoofline(), Sequential())):
        for row in (("bfloat16", "mxfp8", "mxfp6", "nvfp4", "mxfp4"), ("bfloat16", "mxfp8_weights", "nvfp4_weights")):
            times = [estimator.estimate(computed_in(one, name), on).time for name in row]
            assert all(wide >= narrow * (1 - 1e-9) for wide, narrow in pairwise(times)), times


def test_attention_norms_and_softmax_stay_in_sixteen_bits() -> None:
    made = computed_in(gpt(purpose="inference", layers=1).bind(batch=2, seq_len=64), "nvfp4")
    for op in made:
        weights = op.kind == "gemm" and not op.name.endswith((".scores", ".mix"))
        assert op.dtype == ("nvfp4" if weights else "bfloat16"), op.name


def test_weights_in_memory() -> None:
    """Llama 3 8B in NVFP4: 6.98e9 weights of layers with 4.5 bits, head too, the embedding of 0.53e9 in 16 bits."""
    made = computed_in(ss.workload("llama-3-8b-inference").bind(batch=1, seq_len=8), "nvfp4")
    held = resident_bytes(made)
    assert held == pytest.approx((6.98e9 + 0.525e9) * 4.5 / 8 + 0.525e9 * 2, rel=0.01)


def test_a_machine_without_the_engine_keeps_weights_alone_narrow(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "llama-3-8b-decode", "--on", "h100-sxm", "--dtype", "nvfp4", "--verbose"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "weights alone in nvfp4" in words and "no engine here multiplies nvfp4" in words
    assert "of the bfloat16 peak" in words
    native = question("llama-3-8b-decode", "b200-sxm", "roofline", dtype="nvfp4").workload
    assert {name for op in native for name in op.cost if name.startswith("flop.matrix")} >= {"flop.matrix.nvfp4"}


def test_a_step_that_trains_is_refused_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "gpt2", "--on", "h100-sxm", "--dtype", "mxfp4"]) == 2
    assert "no engine of the machine multiplies mxfp4 (known: bfloat16, float16" in " ".join(
        capsys.readouterr().err.split()
    )
    assert run(["estimate", "gpt2", "--on", "b200-sxm", "--dtype", "int4"]) == 2


def test_which_machine_multiplies_which_format() -> None:
    """CDNA 4 has OCP's formats and not NVIDIA's; dense FP4 peaks of the data sheets."""
    assert ss.machine("b200-sxm").peak("matrix", "nvfp4") == pytest.approx(9.5e15, rel=0.06)
    assert ss.machine("mi355x").peak("matrix", "mxfp6") == pytest.approx(10.07e15, rel=0.01)
    assert "nvfp4" not in ss.machine("mi355x").engines["matrix"].flop_per_cycle
    with pytest.raises(InputError, match="no rate for matrix.nvfp4"):
        serving_rate(ss.machine("mi355x"), "matrix", "nvfp4")
    with pytest.raises(InputError, match="no rate for matrix.nvfp4"):
        serving_rate(ss.machine("h100-sxm"), "matrix", "nvfp4")
    plain = {"engines.matrix.flop_per_cycle": {"bfloat16": 4096, "float4": 8192}}  # a file that names FP4 alone
    assert serving_rate(ss.machine("h100-sxm").using(plain), "matrix", "mxfp4") == ("matrix", "float4")


def test_names() -> None:
    assert [number_type(text) for text in ("fp4", "FP8", "fp8_block", "int4", "bf16")] == [
        "nvfp4",
        "float8",
        "float8_block",
        "int4",
        "bfloat16",
    ]
    with pytest.raises(InputError, match="unknown data type 'nvfp3'; did you mean 'nvfp4'"):
        number_type("nvfp3")
    assert SIZE_BYTES["float8_block"] == 1 + 4 / 128**2


def test_served_models_on_machines_that_lack_their_format(capsys: pytest.CaptureFixture[str]) -> None:
    """MXFP4 of all layers of a dense model; gpt-oss, published in MXFP4, on an A100 and on an MI355X."""
    common = ["serve", "llama-3.1-8b", "--concurrency", "4", "--input-tokens", "64", "--output-tokens", "16"]
    assert run([*common, "--on", "mi355x", "--dtype", "mxfp4"]) == 0
    words = capsys.readouterr().out
    assert "of weights a device" in words and float(words.split("GB of weights")[0].split()[-1]) < 6.1
    assert "widened" not in words
    assert run([*common, "--on", "h100-sxm", "--dtype", "mxfp8"]) == 0
    assert "has no mxfp8 products: weights are widened" in " ".join(capsys.readouterr().out.split())
    assert run(["estimate", "decode:gpt-oss-20b", "--on", "a100-sxm-80gb", "--verbose"]) == 0
    assert "weights alone in mxfp4" in " ".join(capsys.readouterr().out.split())
    made = question("decode:gpt-oss-20b", "mi355x", "roofline").workload
    assert {op.dtype for op in made if op.name.startswith("experts")} == {"mxfp4"}


def test_weights_alone_in_a_narrow_type_hold_what_was_published() -> None:
    """gpt-fast's README at 0f925b5: Llama 2 7B on an A100, 104.9 tokens/s in BF16 and 155.58 with 8-bit weights."""
    tokens = {}
    for dtype in ("bfloat16", "fp8_weights", "int4"):
        sizes = {"workload.batch": 1, "workload.seq_len": 105}
        asked = question("llama-7b-decode", "a100-sxm-80gb", None, sizes, dtype)
        low, high = asked.answer().interval(0.8) or (0.0, 0.0)
        tokens[dtype] = (1 / high, 1 / low)
    assert tokens["fp8_weights"][0] < 155.58 < tokens["fp8_weights"][1]
    assert tokens["bfloat16"][0] < 104.9 < tokens["bfloat16"][1]
    assert tokens["int4"][1] > tokens["fp8_weights"][1]
