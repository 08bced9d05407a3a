"""Built-in networks against the published counts of others."""

from __future__ import annotations

import pytest
import sympy as sp

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape
from slipstick.workloads.networks.mlp import mlp
from slipstick.workloads.networks.transformer import bert


def matrix_flop(graph: Workload, phase: str) -> sp.Expr:
    total: sp.Expr = sp.Integer(0)
    for op in graph:
        if op.attributes.get("phase", "forward") == phase:
            total += op.cost[f"flop.matrix.{op.dtype}"] * op.times
    return sp.expand(total)


def gemms(graph: Workload, name: str) -> set[tuple[object, object, object]]:
    return {
        (op.dims["m"], op.dims["k"], op.dims["n"]) for op in graph if op.kind == "gemm" and op.name.startswith(name)
    }


# Pati et al., SeqPoint, ISPASS 2020, Table I: (M, K, N) of GEMM-a and GEMM-b, batch 64.
@pytest.mark.parametrize(("length", "columns"), [(94, 6016), (9, 576)])
def test_gnmt_has_the_gemms_of_seqpoint_table_1(length: int, columns: int) -> None:
    found = gemms(workload("gnmt").bind(batch=64, seq_len=length), "classifier")
    assert {(36549, 1024, columns), (1024, 36549, columns)} <= found


@pytest.mark.parametrize(("frames", "length", "columns"), [(803, 402, 25728), (804, 402, 25728), (117, 59, 3776)])
def test_deepspeech2_has_the_gemms_of_seqpoint_table_1(frames: int, length: int, columns: int) -> None:
    network = workload("deepspeech2").bind(batch=64, seq_len=frames)
    assert {(29, 1600, columns), (1600, 29, columns)} <= gemms(network, "classifier")
    steps = [op for op in network if op.kind == "recurrent"]
    assert len(steps) == 20  # five layers, two directions, forward and backward
    assert {op.times for op in steps} == {length}


# Parameters as their published checkpoints have them (torchvision, Hugging Face).
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
        ("vgg16", 138_357_544),
        ("bert-base", 109_514_298),
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_parameters_are_those_of_the_published_checkpoints(name: str, parameters: int) -> None:
    assert workload(name).metadata["parameters"] == parameters


# By hand: 12 layers x (2 x 7,077,888 a token + 4 x 768 a pair of tokens) + head; also Kaplan et al. 2020, Table 1.
@pytest.mark.parametrize(
    ("name", "forward"),
    [
        ("bert-base", "36864*batch*seq_len**2 + 217930752*batch*seq_len"),
        ("gpt2", "36864*batch*seq_len**2 + 247064064*batch*seq_len"),
    ],
)
def test_transformers_have_their_closed_forms(name: str, forward: str) -> None:
    network, expected = workload(name), parse_expression(forward)
    assert matrix_flop(network, "forward") == expected
    assert sp.expand(matrix_flop(network, "backward") - 2 * expected) == 0
    assert matrix_flop(workload(f"{name}-inference"), "forward") == expected


# Canziani et al. and torchvision's table: 4.09 and 15.47 billion multiply-adds at 224 x 224.
@pytest.mark.parametrize(("name", "multiply_adds"), [("resnet50", 4.09e9), ("vgg16", 15.47e9), ("resnet18", 1.81e9)])
def test_image_networks_have_the_published_multiply_adds(name: str, multiply_adds: float) -> None:
    forward = matrix_flop(workload(f"{name}-inference").bind(batch=1), "forward")
    assert float(forward) / 2 == pytest.approx(multiply_adds, rel=0.003)


def test_images_need_no_gradient() -> None:
    # Backward is twice forward but for the first layer, whose input is data: 7 x 7 x 3 x 64 x 112 x 112 products.
    network = workload("resnet50").bind(batch=1)
    first = 2 * 7 * 7 * 3 * 64 * 112 * 112
    assert matrix_flop(network, "backward") == 2 * matrix_flop(network, "forward") - first


# Parameters printed by ParaDnn's own models (layers, width, inputs, outputs): weights and biases.
@pytest.mark.parametrize(
    ("shape", "parameters"),
    [((32, 512, 8000, 200), 12.34e6), ((8, 2048, 8000, 200), 46.17e6), ((4, 256, 8000, 200), 2.30e6)],
)
def test_mlp_families_have_paradnn_s_parameters(shape: tuple[int, int, int, int], parameters: float) -> None:
    layers, width, inputs, outputs = shape
    built = mlp(layers=layers, width=width, inputs=inputs, outputs=outputs)
    assert float(built.metadata["parameters"]) == pytest.approx(parameters, abs=0.005e6)  # type: ignore[arg-type]


def test_training_updates_every_parameter_after_its_gradient() -> None:
    network = workload("gnmt")
    updates = [op for op in network if op.kind == "optimizer"]
    assert sum(op.dims["elements"] for op in updates) == network.metadata["parameters"]
    assert all(network.structure.in_degree(op.name) >= 1 for op in updates)


def test_a_shape_that_does_not_fit_is_refused_by_name() -> None:
    tape = NetworkTape("small")
    image = tape.input(1, 3, 4, 4)
    with pytest.raises(InputError, match="convolution 'wide': a window of 9 does not fit into 4"):
        tape.convolution("wide", image, 8, (9, 9))
    with pytest.raises(InputError, match="2 groups do not divide 3"):
        tape.convolution("grouped", image, 8, (3, 3), groups=2)
    with pytest.raises(InputError, match="7 heads do not divide a width of 768"):
        bert(heads=7)


def test_a_python_file_without_its_function_is_told_what_is_missing() -> None:
    with pytest.raises(InputError, match=r"which function\? want my_model.py:FUNCTION"):
        workload("my_model.py")
