"""Layouts of training searched, on a model and a machine of one's own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.training.training_step_answer import TrainedBatch
from slipstick.experiments.methods.training_plan.training_search import TrainingSearch
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language_catalog import language_model

CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 8192, "num_hidden_layers": 20, "vocab_size": 64000,
}  # fmt: skip


def test_a_config_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from slipstick.experiments.cli.cli import run

    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    asked = ["plan", "training", str(tmp_path / "config.json"), "--on", "h100-dgx", "--devices", "24", "--batch", "48"]
    assert run([*asked, "--seq-len", "4096"]) == 0
    said = capsys.readouterr().out
    for words in ("pick: tp ", "bound by: ", "memory of its fullest device", "second: ", "slower: ", "fits in 80 GB: "):
        assert words in said
    assert run([*asked, "--format", "json", "--rows", "3"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 3
    assert all(row["low_s"] < row["step_s"] < row["high_s"] and row["devices"] <= 24 for row in rows)
    assert all(row["low_memory_gb"] <= row["memory_gb"] <= row["high_memory_gb"] <= 80 for row in rows)
    assert {row["fits"] for row in rows} == {"fits"}
    assert [row["step_s"] for row in rows] == sorted(row["step_s"] for row in rows)


def test_more_devices_never_make_the_best_slower() -> None:
    """A plan uses at most so many devices, so that it may leave some idle."""
    times = [
        TrainingSearch(TrainedBatch(language_model("llama-3.1-8b"), machine("h100-dgx"), 64, 8192), devices)
        .run()
        .best[0]
        .time.seconds
        for devices in (16, 20, 32)
    ]
    assert times == sorted(times, reverse=True)


def test_networks_larger_than_the_machine_file_says_are_an_assumption() -> None:
    small = machine("h100-dgx").using({"links.infiniband.width": 16})
    plan = TrainingSearch(TrainedBatch(language_model("llama-3.1-8b"), small, 32, 8192), 32).run()
    assert any("join 16 devices; beyond, the last link's rate is kept" in line for line in plan.notes)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(InputError, match="the smallest needs .* GB a device"):
        TrainingSearch(TrainedBatch(language_model("llama-3.1-405b"), machine("h100-dgx"), 8, 8192), 8).run()
    with pytest.raises(InputError, match="joins 8 devices"):
        TrainingSearch(TrainedBatch(language_model("llama-3.1-8b"), machine("h100-sxm"), 16, 8192), 16).run()


def test_a_device_that_only_may_hold_it_is_a_caution() -> None:
    model, at = language_model("llama-3.1-8b"), machine("h100-dgx")
    smaller = at.using({"memory.HBM3.capacity": 19e9})
    plan = TrainingSearch(TrainedBatch(model, smaller, 8, 8192), 8).run(64)
    assert (plan.fitted, {row["fits"] for row in plan.rows()}) == (0, {"may not fit"})
    assert any(line.startswith("beware: no layout surely fits") for line in plan.heads)
    with pytest.raises(InputError, match="the smallest needs .* of 8 GB"):
        TrainingSearch(TrainedBatch(model, at.using({"memory.HBM3.capacity": 8e9}), 8, 8192), 8).run()


def test_a_plan_is_never_faster_than_batch_over_the_input_rate() -> None:
    model, at = language_model("llama-3.1-8b"), machine("h100-dgx")
    free, slow, ample = (
        TrainingSearch(TrainedBatch(model, at, 32, 8192, input_rate=rate), 8).run(2) for rate in (None, 4.0, 4000.0)
    )
    assert ample.rows() == free.rows()
    assert [row["step_s"] for row in slow.rows()] == [8.0, 8.0]  # 32 sequences at 4 a second
    assert (slow.bound, slow.rows()[0]["low_s"], slow.rows()[0]["largest_part"]) == (8.0, 8.0, "input")
    assert any("bound by: the input rate; " in line for line in slow.heads)
    with pytest.raises(InputError, match="input rate = 0 samples/s"):
        TrainingSearch(TrainedBatch(model, at, 32, 8192, input_rate=0.0), 8).run()


def test_what_leaves_the_fitted_runs_is_a_caution() -> None:
    from slipstick.estimators.training.training_domain import outside, unseen_machine

    dense, experts, h100 = language_model("llama-3.1-8b"), language_model("qwen3-30b-a3b"), machine("h100-dgx")
    assert outside(dense, h100, 2048, 8192, "fp8", "megatron") == ()
    # a machine file of one's own with another network and price is still an H100
    assert outside(dense, h100.using({"price": 2.0}), 64, 8192, "bf16", "fsdp") == ()
    (one,) = unseen_machine(machine("a100-80-dgx"), "megatron")
    assert one.value.startswith("no fitted run of megatron is of DGX A100 80 GB")
    assert not unseen_machine(h100, "megatron")
    lines = outside(experts, machine("b200-sxm"), 4096, 131072, "nvfp4", "megatron")
    assert [word in line for word, line in zip(("nvfp4", "4,096 devices", "131,072 tokens"), lines, strict=True)] == [
        True
    ] * 3
    assert "no fitted run of fsdp has experts" in outside(experts, h100, 64, 8192, "bf16", "fsdp")


def test_layouts_that_deal_experts_out_are_searched() -> None:
    search = TrainingSearch(TrainedBatch(language_model("qwen3-30b-a3b"), machine("gb200"), 16, 4096, "mxfp8"), 8)
    assert {layout.expert for layout in search.layouts(72)} == {1, 2, 4, 8}
    assert search.run().best[0].time.seconds > 0


def test_a_plan_without_measured_logs_loads_no_scipy() -> None:
    """Reading logs takes scipy, half a second at the start: only where a row names a log."""
    words = ["plan", "training", "llama-3.1-8b", "--on", "h100-dgx", "--devices", "8", "--batch", "8"]
    start = "import sys; from slipstick.experiments.cli.cli import run"
    code = f"{start}; code = run({words}); sys.exit(code or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_plan_is_an_answer_with_a_page_and_a_notebook_text(tmp_path: Path) -> None:
    """`--report` was taken and wrote nothing; the notebook showed rows without the pick."""
    from slipstick.experiments.cli.cli import run

    asked = ["plan", "training", "llama-3.1-8b", "--on", "h100-dgx", "--devices", "8", "--batch", "8", "--rows", "2"]
    assert run([*asked, "--report", str(tmp_path / "plan.html")]) == 0
    text = (tmp_path / "plan.html").read_text()
    plan = TrainingSearch(TrainedBatch(language_model("llama-3.1-8b"), machine("h100-dgx"), 8, 8192), 8).run(2)
    assert plan.headed[0].startswith("pick: ") and plan.headed[0].count(plan.provenance) == 1
    assert plan.best[0].layout.text() in text
    assert all(one.layout.text() in plan._repr_html_() for one in plan.best) and "pick: " in plan._repr_html_()


def test_the_command_plans_as_the_function_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A measured step stands for the machine as its file says, of whatever settings the question is."""
    import slipstick as ss
    from slipstick.experiments.cli.cli import run

    file, measured = tmp_path / "config.json", "2s@devices=8,tp=8"
    file.write_text(json.dumps(CONFIG))
    asked = ["plan", "training", str(file), "--on", "h100-dgx", "--devices", "8", "--batch", "8"]
    assert run([*asked, "--measured", measured, "--set", "machine.clock=1GHz", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    plan = ss.plan_training(
        str(file), "h100-dgx", devices=8, batch=8, measured=measured, settings={"machine.clock": "1GHz"}
    )
    assert [row["step_s"] for row in said] == [row["step_s"] for row in plan.rows()]
