"""A workload in another data type: half the bytes, the same work under another name."""

from __future__ import annotations

import json

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape
from slipstick.workloads.networks.deepspeech2 import deepspeech2
from slipstick.workloads.networks.resnet import resnet
from slipstick.workloads.networks.transformer import gpt
from slipstick.workloads.transforms.dtype import in_dtype

SIZES = {"batch": 4, "seq_len": 64}
RESNET18 = 1.814e9  # multiply-adds of an image, as torchvision states them


@pytest.mark.parametrize("build", [gpt, deepspeech2])
def test_forward_equals_the_network_written_down_in_that_type(build: object) -> None:
    kwargs = {"purpose": "inference", "layers": 1}
    changed = in_dtype(build(**kwargs), "bfloat16")  # type: ignore[operator]
    written = build(**kwargs, dtype="bfloat16")  # type: ignore[operator]
    assert changed.bind(**SIZES).identity == written.bind(**SIZES).identity  # macro bodies are in the identity


def test_updates_of_master_weights_stay_in_float32() -> None:
    before, after = resnet(18), ss.workload("resnet18", dtype="bfloat16")
    updates = [op for op in after if op.kind == "optimizer"]
    assert updates and updates == [op for op in before if op.kind == "optimizer"]
    assert {op.dtype for op in after if op.kind != "optimizer"} == {"bfloat16"}
    assert after.bind(batch=2).cost["flop.matrix.bfloat16"] == before.bind(batch=2).cost["flop.matrix.float32"]


def test_indices_keep_their_eight_bytes() -> None:
    gather = operation("words", "gather", {"rows": 10, "width": 100}, attributes={"function": "gather"})
    whole = operation("mask", "elementwise", {"elements": 10, "reads": 10, "writes": 10}, "int64")
    picked, mask = in_dtype(Workload("w", (gather, whole)), "float16")
    assert (picked.cost["read"], picked.cost["written"]) == (2 * 1000 + 8 * 10, 2 * 1000)
    assert mask == whole


def test_tfloat32_is_a_format_of_products_alone() -> None:
    tape = NetworkTape("two")
    tape.softmax("shares", tape.dense("product", tape.input(8, 16), 4))
    cost = in_dtype(tape.inference(), "tfloat32").cost
    assert cost["flop.matrix.tfloat32"] == 2 * 8 * 16 * 4
    assert cost["flop.vector.float32"] and not cost["flop.vector.tfloat32"]
    assert in_dtype(in_dtype(tape.inference(), "tfloat32"), "float32").cost == tape.inference().cost


def test_the_first_line_says_the_type_and_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "estimate",
        "resnet18-inference",
        "--on",
        "a100-sxm-80gb",
        "--dtype",
        "bfloat16",
        "--estimator",
        "roofline",
    ]
    assert run([*asked, "--verbose"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "in bfloat16 " in said and "flop as matrix.bfloat16, vector.bfloat16" in said
    assert run([*asked, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["dtype"] == "bfloat16"
    # no faster than its products at the data sheet's 312 TFLOP/s
    assert row["time_s"] > 2 * RESNET18 / 312e12


def test_the_first_line_names_the_engine_where_it_is_not_the_matrix_engine() -> None:
    product = ss.workload("gemm")
    on = ss.machine("a100-sxm-80gb")
    answer = ss.estimator("roofline").estimate(product, on)
    assert "flop as matrix.float32 on the vector engine" in answer.assumptions
    assert "flop as matrix.bfloat16" in ss.estimator("roofline").estimate(in_dtype(product, "bfloat16"), on).assumptions


def test_what_is_no_type_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ss.InputError, match="unknown data type 'bfloat61'; did you mean 'bfloat16'"):
        ss.workload("gemm", dtype="bfloat61")
    assert run(["estimate", "gemm", "--on", "t4", "--set", "workload.dtype=bfloat16"]) == 2
    assert "workload.dtype is no size: give --dtype NAME" in " ".join(capsys.readouterr().err.split())


def test_a_study_has_a_type_and_keeps_it(tmp_path: object) -> None:
    from slipstick.experiments.studies.study import Study, load_study

    study = Study.of_question("gemm", "t4", None, [], ["machine.clock=1GHz,2GHz"], dtype="float16")
    study.save(f"{tmp_path}/study.toml")
    again = load_study(f"{tmp_path}/study.toml")
    assert again.dtype == "float16"
    assert {op.dtype for op in again.question("gemm", "t4").workload} == {"float16"}
