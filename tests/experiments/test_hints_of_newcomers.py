"""What newcomers typed, and what they are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

import slipstick as ss
from slipstick.common.expressions import symbol
from slipstick.common.records import validated
from slipstick.experiments.cli.cli import build, run
from slipstick.experiments.cli.option_conflicts import require_once
from slipstick.experiments.cli.typed_numbers import as_settings
from slipstick.experiments.jobs.job_records import StageFile
from slipstick.experiments.question.settings import number_of
from slipstick.workloads.layers.single import elementwise
from tests.runs_made import SERVED

DRAFTS = ("whatif", "llama-3.1-8b", "--on", "h100-sxm", "--vary", "run.draft_tokens=0,1,3")


@pytest.mark.parametrize("known", ["23.4", "3", "1e-3"])
def test_a_time_without_its_unit_is_asked_for_one(known: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "resnet50", "--on", "a100-sxm-80gb", "--measured", known]) == 2
    assert f"a time without its unit: {known}ms or {known}s?" in capsys.readouterr().err


def test_a_machine_that_is_no_text_is_refused_by_a_sentence() -> None:
    for given in (None, 3, ["h100-sxm"]):
        with pytest.raises(ss.InputError, match=r"machine: .*: want a name such as 'h100-sxm'"):
            ss.machine(given)  # type: ignore[arg-type]


def test_guessing_no_token_is_a_point_of_a_sweep_over_guessed_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    """A step makes (1 - a^(k+1)) / (1 - a) tokens (Leviathan et al., 2023), less what drafting and checking cost."""
    assert run([*DRAFTS, "--set", "run.acceptance=0.7", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["run.draft_tokens"] for row in rows] == [0, 1, 3]
    ratios = [row["output_ratio"] for row in rows]
    assert ratios[0] == pytest.approx(1) and 1 < ratios[1] < 1.7 and ratios[1] < ratios[2] < 1 + 0.7 + 0.49 + 0.343
    assert run([*DRAFTS]) == 0
    assert "run.acceptance=0.7" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["--limit tpot=30ms --limit ttft=1s", "--limit=tpot=1s --devices 1 --limit ttft=1s"])
def test_an_option_of_one_value_that_stands_twice_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first limit was dropped without a word."""
    assert run(["plan", "serving", "llama-3.1-8b", "--on", "h100", *words.split()]) == 2
    assert "--limit stands twice: give it once" in capsys.readouterr().err


def test_an_option_of_several_values_and_one_that_is_a_value_may_stand_twice() -> None:
    command = typer.main.get_command(build("estimate"))
    require_once(command, ["estimate", "gpt2", "--set", "a=1", "--set", "b=2", "--on", "--dtype", "--dtype", "bf16"])
    with pytest.raises(ss.InputError, match="--dtype stands twice"):
        require_once(command, ["estimate", "gpt2", "--dtype", "fp16", "--verbose", "--dtype=bf16"])


@pytest.mark.parametrize("words", [[], ["plan"]])
def test_a_verb_that_is_missing_is_answered_by_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It was one line of 1,500 letters on standard error."""
    assert run(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: ") and max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("verb", ["serve", "plan serving"])
def test_a_chance_without_guessed_tokens_is_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*verb.split(), "llama-3.1-8b", "--on", "h100", "--acceptance", "0.7"]) == 2
    assert "acceptance = 0.7, but no token is guessed" in capsys.readouterr().err


def answered_by_nobody() -> None:
    """A function where a workload is wanted."""


def test_an_object_that_is_no_workload_is_told_of_the_importer() -> None:
    with pytest.raises(ss.InputError, match=r"workload: a function: want .* ss\.import_torch"):
        ss.estimate(answered_by_nobody, "h100")  # type: ignore[arg-type]
    with pytest.raises(ss.InputError, match="train = True: want a text or None, train='adam'"):
        ss.estimate("gpt2", "h100", train=True)  # type: ignore[arg-type]


def test_print_of_an_answer_says_the_answer() -> None:
    table = ss.whatif("gpt2", "h100", {"machine.clock": ["1 GHz"]})
    assert repr(table) == "\n".join(table.headed) and "ms" in repr(table) and len(repr(table)) < 2_000


CONVOLUTION = """import torch
def net():
    return torch.nn.Conv2d(64, 128, 3, padding=1), (torch.randn(16, 64, 56, 56),)
"""
STEPS = "".join(
    f" iteration {count:8d}/ 1000 | elapsed time per iteration (ms): {ms} |\n" for count, ms in ((10, 9.0), (20, 5.0))
)


def test_each_model_of_several_machines_says_whose_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some_nets.py"
    path.write_text(CONVOLUTION)
    assert run(["estimate", f"{path}:net", "--on", "h100,t4"]) == 0
    whose = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("model")]
    assert whose == ["model"]  # one law answers on both


def test_steps_of_a_log_that_are_left_out_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 20 iterations 10 are shown, in 0.05 s."""
    path = tmp_path / "megatron.log"
    path.write_text(STEPS)
    assert run(["read", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "10 steps" in said and "from lines of iterations after the first" in said


@pytest.mark.parametrize(
    "command",
    ["read out.txt", "seqpoint out.txt", "plan training llama-3.1-8b --on h100-dgx --devices 8 --measured out.txt"],
)
def test_what_the_trainer_prints_names_the_file_that_it_writes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of transformers' Trainer to standard output: losses by epoch, and no time."""
    monkeypatch.chdir(tmp_path)
    Path("out.txt").write_text("{'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.01}\n" * 3)
    assert run([*command.split(), *(["--batch", "16"] if "plan" in command else [])]) == 2
    assert "prints no times: give its trainer_state.json" in capsys.readouterr().err


def test_a_known_time_of_the_question_takes_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "resnet50", "--on", "h100-sxm", "--measured", "23.4ms@tp=8"]) == 2
    said = capsys.readouterr().err
    assert "leave out @tp=8" in said and "known: )" not in said


@pytest.mark.parametrize(("rate", "far"), [("0.5", True), ("130", False)])
def test_a_rate_far_from_what_was_expected_is_said(rate: str, far: bool, capsys: pytest.CaptureFixture[str]) -> None:
    known = ["--engine", "llama.cpp", "--measured", f"llama-3.1-8b:q4_k_m={rate}"]
    assert run(["serve", "llama-3.1-8b", "--on", "rtx-4090", "--dtype", "q4_k_m", *known]) == 0
    assert ("the run is taken only in part" in " ".join(capsys.readouterr().out.split())) == far


def test_a_benchmark_of_an_alias_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, other in (("Qwen/Qwen2-7B", True), ("meta-llama/Llama-3.1-8B-Instruct", False)):
        path = tmp_path / "vllm.json"
        path.write_text(json.dumps({**SERVED, "model_id": name}))
        assert run(["read", str(path)]) == 0
        assert ("Qwen/Qwen2-7B ships as qwen2.5-7b" in " ".join(capsys.readouterr().out.split())) == other


def test_calibrate_leads_from_a_workload_to_what_fits_it(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["net.py:model"], ["gpt2", "--measured", "times.csv", "--fit", "operation.compute_efficiency"]):
        assert run(["calibrate", *words]) == 2
        error = capsys.readouterr().err
        assert f"slipstick whatif {words[0]} --on MACHINE" in error and "--fit NAME" in error and "import" not in error


def test_show_says_what_the_sizes_of_a_product_are(capsys: pytest.CaptureFixture[str]) -> None:
    """The weights are W (m, k): a layer of 4 x 1000 weights on 1000 features is m = 4."""
    assert run(["workloads", "show", "gemm"]) == 0
    assert "gemm: batch products W (m, k) x X (k, n): m features out, k in, n tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("estimate resnet50 --on t4 --input-tokens 5", "--input-tokens is of requests to a language model"),
        ("estimate gpt2 --on t4 --memory-share 0.5", "--memory-share is of requests to a language model"),
        (
            "estimate gpt2 --on t4 --batch 1,2,4",
            "(several: slipstick whatif --vary workload.batch=1,2,4)",
        ),
        ("whatif gpt2 --on t4 --vary machine.runtime.mode=eager,compiled", "--set machine.runtime.mode=eager"),
    ],
)
def test_a_number_of_another_question_is_answered_by_a_hint(
    words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("estimate gpt2 --on t4 --html run.html", "unknown option --html; did you mean --report? (sizes of gpt2"),
        ("estimate gpt2 --on t4 --json", "--json: did you mean --format json?"),
        ("whatif gpt2 --on t4 --vary workload.batch=1,2 --output x.toml", "--output; did you mean --save?"),
        ("explain gpt2 --on t4 --reprot x.html", "unknown option --reprot; did you mean --report?"),
        ("estimate gpt2 --on t4 --zz red", "unknown option --zz (sizes of gpt2: --batch, --seq-len)"),
        ("serve llama-3.1-8b --on h100-sxm --html run.html", "unknown option --html; did you mean --report?"),
        ("machines show t4 --json", "unknown option --json; did you mean --format json?"),
        ("measure anchors --on t4 --workload gpt2 --gpu 3", "unknown option --gpu; did you mean --on?"),
        (
            "measure anchors --on t4 --engine vllm --batch 4",
            "anchors of no --workload does not read --engine, --number",
        ),
    ],
)
def test_an_option_that_a_verb_lacks_is_answered_by_the_one_that_is_meant(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == 2
    assert said in capsys.readouterr().err


def test_a_size_of_a_workload_of_ones_making_may_be_called_as_one_of_requests() -> None:
    work = ss.Workload("adds", (elementwise("add", symbol("input_tokens")),))
    assert as_settings(["input_tokens=5"], work) == ["workload.input_tokens=5"]


def test_what_does_not_vary_is_given_no_hint_of_whatif() -> None:
    with pytest.raises(ss.InputError, match="--power = 27,9 W: want one value, with a decimal point$"):
        number_of("--power", "27,9 W", "W")


def test_what_a_file_wants_is_said_in_plain_words(tmp_path: Path) -> None:
    """They were pydantic's: a valid tuple, a valid dictionary."""
    path = tmp_path / "mine.yaml"
    path.write_text('extends: t4\nname: "my\\nmachine"\n')
    with pytest.raises(ss.InputError, match=r"name = 'my\\nmachine': want one line of text"):
        ss.machine(str(path))
    with pytest.raises(ss.InputError, match="name = 'a.b': want a name without '.' and '='"):
        validated(StageFile, {"name": "a.b"}, "job.yaml")
    study = tmp_path / "study.toml"
    study.write_text('schema = "slipstick-study-1"\nname = 5\nworkloads = "gpt2"\nmachines = []\nvary = 3\n')
    with pytest.raises(ss.InputError) as refused:
        ss.load_study(str(study))
    for words in ("name = 5: want a text", "workloads = 'gpt2': want a list", "machines = []: want 1 or more entries"):
        assert words in str(refused.value)
