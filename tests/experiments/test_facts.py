"""What follows from an answer says the same as the data sheet's peaks and the answer's own parts."""

from __future__ import annotations

import math

import pytest

from slipstick.experiments.commands.cli import run
from slipstick.experiments.explain.explanation import bottleneck_rows
from slipstick.experiments.question.facts import bounds, facts
from slipstick.experiments.question.question import question

A100_PEAKS = {"tfloat32": 156e12, "float32": 19.5e12}
"""NVIDIA A100 data sheet: flop/s of the tensor cores in TF32, and of the vector units in FP32."""


def test_products_of_two_types_are_held_against_the_peaks_of_both_and_the_words_say_so() -> None:
    """PyTorch's default: convolutions in TF32, the last linear layer in float32."""
    asked = question("resnet50", "a100-sxm-80gb")
    answer = asked.answer()
    known = facts(asked, answer)
    graph = asked.workload.bind_known(asked.workload.defaults)
    seconds = math.fsum(
        float(op.cost.get(f"flop.matrix.{dtype}", 0.0) * op.times) / peak
        for op in graph
        for dtype, peak in A100_PEAKS.items()
    )
    assert known.mfu == pytest.approx(seconds / answer.time, rel=0.01)
    assert known.mfu_of == "the peaks of its types (tfloat32, float32)"


def test_products_of_one_type_are_held_against_its_peak() -> None:
    asked = question("resnet50", "a100-sxm-80gb", dtype="bfloat16")
    assert facts(asked, asked.answer()).mfu_of == "the bfloat16 peak"


def test_shares_sum_to_the_time_and_kernels_that_a_host_hides_take_their_own_time() -> None:
    """The host bounds five small layers; of a large network it takes nothing."""
    small, large = question("mlp-inference", "h100-sxm", dtype="bfloat16"), question("resnet50", "a100-sxm-80gb")
    for asked in (small, large):
        answer = asked.answer()
        known = facts(asked, answer)
        assert sum(share for _, share in known.bounds) == pytest.approx(1.0)
        left = math.fsum(answer.remainder.values())
        assert math.fsum(group.time for group in known.groups) + left == pytest.approx(answer.time)
        assert all(part.contribution == pytest.approx(part.time * part.times) for part in answer.parts)
        assert not {"fixed", "side by side"} & set(answer.remainder)
    waiting = small.answer().remainder["waiting"] / small.answer().time
    assert dict(facts(small, small.answer()).bounds)["host"] == pytest.approx(waiting) and waiting > 0.5
    assert bottleneck_rows(small.answer())[0] == {"bound_by": "host", "share": pytest.approx(waiting), "operations": 1}


@pytest.mark.parametrize("board", ["tpu-v3", "tpu-v2-8"])
def test_what_bounds_a_board_of_tpus_is_all_of_its_time(board: str) -> None:
    """Normalisations have measured rates and no bound: they stand under their kind, and what overlaps by its name."""
    answer = question("resnet50", board).answer()
    shares = dict(bounds(answer))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares.get("overlap", 0.0) == pytest.approx(answer.remainder.get("overlap", 0.0) / answer.time)


def test_a_what_if_says_where_the_host_bounds_it_and_an_answer_how_fast_it_issues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """torch.compile joins kernels, not the host's work on them: each operation of the graph before fusion is issued."""
    compiled = ["llama-3-8b-decode", "--on", "h100-sxm", "--mode", "compiled"]
    count = len([op for op in question("llama-3-8b-decode", "h100-sxm").workload if op.kind != "view"])
    assert run(["whatif", *compiled, "--vary", "run.seq_len=128,1024,400000"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"the host bounds 2 of 3 points: {count} operations of the graph before fusion x 27 µs to issue" in text
    assert f"the host issues {count} operations of the graph before fusion in 27 µs each: the device is" in text
    assert run(["whatif", *compiled, "--mode", "graphs", "--vary", "run.seq_len=128,1024,400000"]) == 0
    assert "the host" not in capsys.readouterr().out.partition("model:")[0]


@pytest.mark.parametrize("machine", ["mi300x", "h100-sxm", "v100-sxm", "t4"])
def test_a_narrower_type_is_never_slower_but_where_the_host_issues_more_casts(machine: str) -> None:
    """The same graph moves and computes less; a training step under autocast is another graph, with its casts."""
    for name in ("resnet50-inference", "bert-base-inference", "resnet50", "bert-base"):
        for batch in (1, 64):
            wide, narrow = (
                question(name, machine, dtype=dtype, settings={"workload.batch": batch})
                for dtype in ("float32", "float16")
            )
            if narrow.answer().time <= wide.answer().time:
                continue
            assert not name.endswith("inference") and len(narrow.workload.bound()) > len(wide.workload.bound())
            assert narrow.answer().metrics["device_busy"] < 1
            assert any("casts are operations too" in text for text in narrow.answer().assumptions)
