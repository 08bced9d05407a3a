"""`explain` proposes what can be done: moves of software and machine, each the same question with one thing changed."""

from __future__ import annotations

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.explain.evaluator import Evaluator
from slipstick.experiments.explain.explanation import cheapest_changes, crossover_rows
from slipstick.experiments.explain.remedies import move_rows
from slipstick.experiments.question.question import question


@pytest.mark.slow
def test_each_move_is_the_question_with_one_thing_changed() -> None:
    today = question("bert-base", "a100-sxm-80gb", None, {"workload.batch": 8})
    moves = {row["move"]: row for row in move_rows(today, "bert-base", dials=Evaluator.of(today))}
    narrow = question("bert-base", "a100-sxm-80gb", None, {"workload.batch": 8}, "bfloat16").answer().time
    assert moves["--dtype bfloat16"]["time_s"] == pytest.approx(narrow, rel=1e-9)
    assert moves["--dtype bfloat16"]["ratio"] == pytest.approx(narrow / today.answer().time, rel=1e-9)
    twice = question("bert-base", "a100-sxm-80gb", None, {"workload.batch": 16}).answer().time
    if "--batch 16" in moves:  # per sequence
        assert moves["--batch 16"]["ratio"] == pytest.approx(twice / today.answer().time / 2, rel=1e-9)
    assert all(row["ratio"] < 1 for row in moves.values())
    assert not any("estimator" in name for name in moves)


@pytest.mark.slow
def test_no_parameter_leaves_its_bounds() -> None:
    """An efficiency above 1 is no change that anybody can make."""
    today = question("bert-base-inference", "h100-sxm", None, (), "bfloat16")
    for row in cheapest_changes(today, 0.8, dials=Evaluator.of(today)):
        if "efficiency" in str(row["quantity"]) and row["needed"] is not None:
            assert row["needed"] <= 1.0, row


def test_layers_that_are_alike_are_one_row() -> None:
    rows = crossover_rows(question("bert-base-inference", "h100-sxm", "roofline", (), "bfloat16"), ["machine.clock"])
    seen = [(row["quantity"], f"{row['turns_at']:.2g}", row["below"], row["above"]) for row in rows]
    assert rows and len(seen) == len(set(seen))


@pytest.mark.slow
@pytest.mark.parametrize("words", [["bert-base", "--on", "H100", "--dtype", "bf16"], ["gemm", "--on", "tpu-v3"]])
def test_thirty_lines_and_no_parameters_of_the_estimator(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["explain", *words]) == 0
    out = capsys.readouterr().out
    assert len(out.rstrip().splitlines()) <= 30
    assert "estimator." not in out and "what can be done" in out
