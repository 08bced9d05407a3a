"""A training step of a language model as a question like all others: a plan is a search over the same answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.training.training_estimator import DEGREES, RECOMPUTE, layout_of
from slipstick.estimators.training.training_step_answer import TrainedBatch
from slipstick.experiments.cli.cli import run
from slipstick.experiments.methods.training_plan.training_search import TrainingSearch
from slipstick.experiments.question.question import question
from slipstick.workloads.language.language_training import Training, training_of
from slipstick.workloads.language.training_layout import TrainingLayout, training_flop
from tests.printed import printed

PLANS: dict[str, tuple[str, str, int, int, dict[str, Any], dict[str, Any]]] = {
    "one host": ("llama-3.1-8b", "h100-dgx", 8, 32, {}, {}),
    "two hosts": ("llama-3.1-8b", "h100-dgx", 16, 64, {}, {}),
    "a pipeline": ("llama-3.1-70b", "h100-dgx", 64, 128, {}, {}),
    "eight bits": ("llama-3.1-8b", "h100-dgx", 8, 32, {"precision": "fp8"}, {}),
    "short sequences": ("llama-3.2-1b", "a100-80-dgx", 8, 64, {"sequence": 2048}, {}),
    "weights shared out": ("llama-3.1-8b", "a100-80-dgx", 16, 32, {"software": "fsdp"}, {}),
    "experts": ("qwen3-30b-a3b", "gb200", 8, 16, {"precision": "mxfp8", "sequence": 4096}, {}),
    "less power": ("llama-3.1-8b", "h100-dgx", 8, 8, {}, {"power.cap": 400.0}),
    "a price": ("llama-3.1-8b", "h100-dgx", 8, 8, {}, {"price": 2.5}),
    "waiting for input": ("llama-3.1-8b", "h100-dgx", 8, 32, {"input_rate": 4.0}, {}),
}
KEYS = {
    "time": "step_s",
    "tokens": "tokens_per_s",
    "mfu": "mfu",
    "power": "power_W",
    "energy": "energy_J_per_token",
    "cost": "cost_usd_per_million_tokens",
}
MODEL, ON = "train:llama-3.1-8b", "h100-dgx"


def run_of_layout(layout: TrainingLayout) -> dict[str, float]:
    """The numbers of a run that describe a layout: what `layout_of` reads."""
    degrees = {name: float(getattr(layout, inside)) for name, inside in DEGREES.items()}
    return {**degrees, "shard": layout.shard + 1.0, "recompute": RECOMPUTE.index(layout.recompute) + 1.0}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if at % 3 else ()) for at, name in enumerate(sorted(PLANS))]
)
def test_the_best_row_of_a_plan_is_what_estimate_and_whatif_print(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the last digit: the plan searches layouts by the record that answers."""
    model, on, devices, batch, search, changes = PLANS[name]
    at = ss.machine(on).using(changes)
    plan = TrainingSearch(
        TrainedBatch(ss.language_model(model), at, batch, **{"sequence": 8192, **search}), devices
    ).run(2)
    row, layout = plan.rows()[0], plan.best[0].layout
    numbers = {**run_of_layout(layout), "batch": float(batch), "seq_len": float(search.get("sequence", 8192))}
    numbers |= {"input_rate": search["input_rate"]} if "input_rate" in search else {}
    words = [f"train:{model}", "--on", on]
    for number, value in numbers.items():
        words += ["--set", f"run.{number}={value:.0f}"]
    words += [word for field, value in changes.items() for word in ("--set", f"machine.{field}={value}")]
    words += ["--dtype", search["precision"]] if "precision" in search else []
    words += ["--set", "machine.runtime.library=fsdp"] if "software" in search else []
    one = printed(["estimate", *words], capsys)
    known = {each["quantity"]: each for each in one["quantities"]}
    assert one["devices"] == row["devices"] == layout.devices
    assert {KEYS[quantity]: known[quantity]["value"] for quantity in KEYS if quantity in known} == {
        key: row[key] for key in KEYS.values() if row[key] is not None
    }
    assert (known["time"]["low"], known["time"]["high"]) == (row["low_s"], row["high_s"])
    assert (known["power"]["low"], known["power"]["high"]) == (row["low_power_W"], row["high_power_W"])
    assert [known["memory"][end] / 1e9 for end in ("low", "value", "high")] == [
        row[key] for key in ("low_memory_gb", "memory_gb", "high_memory_gb")
    ]
    swept = printed(["whatif", *words, "--vary", f"machine.clock={at.clock:.0f}Hz"], capsys)
    for quantity, each in known.items():
        key = {"time": "time_s", "memory": "memory_B"}.get(quantity, KEYS.get(quantity))
        assert swept[str(key)] == each["value"], quantity
    assert [estimate.time for estimate in plan.estimates] == [step["step_s"] for step in plan.rows()]


def test_measured_steps_move_plan_and_estimate_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row leaves its batch and length to the question; the file is the plan's."""
    (tmp_path / "run.csv").write_text("devices,step_s,tp\n16,3.4,2\n8,6.6,2\n")
    known = str(tmp_path / "run.csv")
    plan = ss.plan_training("llama-3.1-8b", ON, devices=32, batch=64, measured=known, rows=1)
    settings = {f"run.{name}": value for name, value in run_of_layout(plan.best[0].layout).items()}
    row, fitted = plan.rows()[0], ss.read_calibration(None, known, ON)
    answer = ss.estimate(MODEL, ON, settings=settings, calibration=fitted)
    assert (answer.time, answer.interval()) == (row["step_s"], (row["low_s"], row["high_s"]))
    assert answer.time != ss.estimate(MODEL, ON, settings=settings).time
    assert run(["estimate", "gpt2", "--on", ON, "--measured", known]) == 2
    assert "measured steps are of training a language model" in capsys.readouterr().err


def test_layouts_are_numbers_of_the_run() -> None:
    layout = TrainingLayout(2, 4, 8, 2, 1, 2, 1, 3, "full")
    assert layout_of(run_of_layout(layout)) == layout
    settings = {"run.tensor_parallel": 2, "run.data_parallel": 4, "run.shard": "parameters", "run.recompute": "full"}
    answer = ss.estimate(MODEL, ON, settings=settings)
    assert answer.devices == 8 and "tp 2, dp 4, micro 1, ZeRO 3, recompute full" in answer.assumptions[0]


def test_what_a_step_computes_is_the_published_count() -> None:
    """Six flop a weight and token and causal attention once: the operations count the head and routers as well."""
    for name, length in (("llama-3.1-8b", 8192), ("llama-3.1-70b", 8192), ("qwen3-30b-a3b", 4096)):
        model = ss.language_model(name)
        step = training_of(model).bind(batch=2, seq_len=length)
        assert float(step.cost.flop) / (2 * length) == pytest.approx(training_flop(model, length), rel=0.02), name


def test_sizes_that_were_bound_are_those_of_the_step() -> None:
    plain = ss.workload(MODEL)
    assert isinstance(plain, Training)
    bound = plain.bind(batch=16, seq_len=4096)
    by_run = ss.estimate(MODEL, ON, settings={"workload.batch": 16, "workload.seq_len": 4096})
    assert ss.estimate(bound, ON).time == by_run.time
    assert ss.workload(MODEL, dtype="fp8").metadata["training"] == "fp8"
    assert ss.estimate(MODEL, ON, dtype="fp8").time < ss.estimate(MODEL, ON).time


@pytest.mark.parametrize(("rate", "published"), [(430e12, 0.43), (400e12, 0.41), (380e12, 0.38)])
def test_mfu_counts_against_the_peak_that_papers_use(rate: float, published: float) -> None:
    """Llama 3 (arXiv 2407.21783), Table 4: TFLOP/s a GPU in BF16 on H100 beside the MFU, as printed."""
    settings = {"run.tensor_parallel": 8, "run.pipeline_parallel": 16, "run.data_parallel": 64}
    made = ss.estimate("train:llama-3.1-405b", ON, settings={**settings, "workload.batch": 2048}).quantities
    flop = training_flop(ss.language_model("llama-3.1-405b"), 8192)
    assert rate * made["mfu"].value / (made["tokens"].value * flop / 8192) == pytest.approx(published, abs=0.007)


def test_a_sweep_over_layouts_begins_with_what_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["whatif", MODEL, "--on", ON, "--vary", "run.tensor_parallel=1,3,8"]
    assert run([*words, "--quantity", "mfu"]) == 0
    text = capsys.readouterr().out
    assert "ratio: mfu over today's, more is better" in text and "32 heads on 3 tensor ranks" in text
    assert re.search(r"today: .* of 80 GB a device: DOES NOT FIT", text)
    assert re.search(r"at run.tensor_parallel = 8: .* of 80 GB a device: fits", text)
    table = ss.whatif(MODEL, ON, {"run.data_parallel": [1, 2, 4]}, quantity="tokens").to_frame()
    assert table["tokens_per_s"].is_monotonic_increasing
    assert (table["low_tokens_ratio"] <= table["tokens_ratio"]).all()


def test_explain_says_what_a_step_goes_to(capsys: pytest.CaptureFixture[str]) -> None:
    row = printed(["explain", MODEL, "--on", ON, "--tp", "8"], capsys)
    assert {"matrix products", "tensor-parallel traffic"} <= {one["bound_by"] for one in row["bottlenecks"]}
    slopes = {one["quantity"]: one["elasticity"] for one in row["elasticities"]}
    assert slopes["machine.links.nvswitch.bandwidth"] < 0 and slopes["machine.clock"] < 0


def test_a_study_over_machines_and_layouts(tmp_path: Path) -> None:
    path = tmp_path / "clusters.toml"
    path.write_text(
        'schema = "slipstick-study-1"\nname = "clusters"\nworkloads = ["train:llama-3.1-8b"]\n'
        'machines = ["h100-dgx", "a100-80-dgx"]\n'
        '[set]\n"run.data_parallel" = 4\n[vary]\n"run.tensor_parallel" = [2, 4]\n'
    )
    frame = ss.run_study(ss.load_study(path), tmp_path / "out").frame()
    assert len(frame) == 4
    for row in frame.to_dict("records"):
        settings = {"run.data_parallel": 4, "run.tensor_parallel": row["run.tensor_parallel"]}
        answer = question(MODEL, str(row["machine"]), settings=settings).answer()
        assert row["time_s"] == answer.time and row["mfu"] == answer.quantities["mfu"].value


@pytest.mark.slow
def test_measured_steps_calibrate_the_factors(tmp_path: Path) -> None:
    """Times of a cluster whose computing takes 1.2 x as long; the fit finds it."""
    rows = ["time_s,run.data_parallel"]
    slow = ss.estimator("training").with_parameters({"compute": 1.2})
    for ranks in (8, 16, 32):
        seconds = slow.estimate(ss.workload(MODEL), ss.machine(ON), {"data_parallel": ranks}).time
        rows.append(f"{seconds!r},{ranks}")
    (tmp_path / "steps.csv").write_text("\n".join(rows))
    path = tmp_path / "fit.toml"
    path.write_text(
        'schema = "slipstick-study-1"\nname = "mine"\nworkloads = ["train:llama-3.1-8b"]\nmachines = ["h100-dgx"]\n'
        '[fit]\nmeasured = "steps.csv"\nparameters = ["estimator.compute"]\n'
    )
    assert run(["calibrate", str(path), "--out", str(tmp_path / "mine.json")]) == 0
    fitted = ss.read_calibration(str(tmp_path / "mine.json"), None, ON)
    answer = question(MODEL, ON, settings={"run.data_parallel": 16}, calibration=fitted).answer()
    truth = slow.estimate(ss.workload(MODEL), ss.machine(ON), {"data_parallel": 16}).time
    assert answer.time == pytest.approx(truth, rel=0.01)


def test_what_cannot_be_is_refused() -> None:
    for settings, want in (
        ({"run.tensor_parallel": 3}, "32 heads on 3 tensor ranks: want a divisor"),
        ({"run.data_parallel": 5}, "batch of 64 sequences: want a multiple of data x micro = 5"),
        ({"run.shard": 5}, "run.shard = 5: want a whole number from 1 to 4"),
        ({"run.microbatches": 2}, "unknown number of the run"),
        ({"machine.runtime.library": "deepspeed"}, "unknown training software"),
        ({"run.input_rate": 0}, "input rate = 0 samples/s"),
    ):
        with pytest.raises(InputError, match=want):
            question(MODEL, ON, settings=settings).answer()
    with pytest.raises(InputError, match="this estimator trains language models: train:NAME"):
        question("gpt2", ON, "training").answer()
    with pytest.raises(InputError, match="unknown data type of training 'int8'"):
        question(MODEL, ON, dtype="int8")


def test_a_trainer_that_nobody_named_is_the_mean_of_those_measured_and_holds_them() -> None:
    made = {
        name: ss.estimate("train:llama-3.1-8b", "h100-dgx", dp=8, **name_of(name)) for name in ("", "megatron", "fsdp")
    }
    wide, low, high = made[""], *(min(made[n].time for n in made if n), max(made[n].time for n in made if n))
    assert low < wide.time < high
    ends = wide.interval() or (0.0, 0.0)
    assert ends[0] < low < high < ends[1]
    (unknown,) = [one for one in wide.conditions if one.origin == "unknown"]
    assert unknown.name == "trainer" and "under megatron" in unknown.note and "--trainer decides" in unknown.note


def test_a_release_older_than_those_measured_is_named_and_widens() -> None:
    old, first = (
        ss.estimate("train:llama-3.1-8b", "h100-dgx", dp=8, trainer=name)
        for name in ("megatron 24.07", "megatron 26.02")
    )
    assert old.time == first.time  # the oldest that was measured answers
    (low, high), (least, most) = old.interval() or (0.0, 0.0), first.interval() or (0.0, 0.0)
    assert low < least and most < high
    (given,) = [one for one in old.conditions if one.name == "trainer"]
    assert given.origin == "given" and given.note.startswith("older than the measured 26.02 .. ")


def test_an_engine_that_nobody_named_lies_between_those_measured() -> None:
    engines = ("vllm", "sglang", "trtllm")
    made = {name: ss.estimate("decode:llama-3.1-8b", "h100-sxm", engine=name).time for name in engines}
    wide = ss.estimate("decode:llama-3.1-8b", "h100-sxm")
    assert min(made.values()) < wide.time < max(made.values())
    served = ss.serve("llama-3.1-8b", "h100-sxm", concurrency=1)
    for conditions in (wide.conditions, served.conditions):
        (unknown,) = [one for one in conditions if one.origin == "unknown"]
        assert unknown.name == "engine" and "--engine decides" in unknown.note


def name_of(trainer: str) -> dict[str, str]:
    return {"trainer": trainer} if trainer else {}
