"""Jobs as files, from the command line: percentiles, traces, pages, what-if, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run
from slipstick.experiments.jobs import shipped_jobs
from tests.printed import rows as answer

OWN = """
name: my loader and its GPU
steps: 60
device: step
resources: {cores: 4}
stages:
  - {name: decode, service: 30 ms, variation: 0.6, workers: 8, buffer: 4, resource: cores}
  - {name: batch, gather: 4, service: 1 ms}
  - {name: step, workload: resnet18, machine: v100-sxm, set: [workload.batch=4]}
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(OWN)
    return str(path)


def test_a_job_of_my_own(own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, page = tmp_path / "trace.json", tmp_path / "page.html"
    rows = answer(capsys, "estimate", own, "--simulate", "--runs", "6", "--timeline", str(trace), "--report", str(page))
    by = {str(row["quantity"]): row for row in rows}
    assert {"time_s", "step_s", "idle", "decode.busy", "step.starved"} <= set(by)
    assert by["time_s"]["p50"] <= by["time_s"]["p90"] <= by["time_s"]["p99"]  # type: ignore[operator]
    assert by["time_s"]["over_formula"] > 1  # type: ignore[operator]
    assert len([e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "service"]) == 60 * 6
    assert "my loader and its GPU" in page.read_text() and page.with_suffix(".png").exists()
    assert answer(capsys, "estimate", own)[0]["time_s"] == pytest.approx(by["time_s"]["formula"])
    assert ss.simulate(own, runs=6).rows()[0]["mean"] == pytest.approx(by["time_s"]["mean"])


def test_what_if_keeps_seeds(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    vary = ("--vary", "job.resources.cores=4,8", "--vary", "job.decode.buffer=4,16")
    rows = answer(capsys, "whatif", own, "--simulate", "--runs", "4", *vary)
    assert rows[0]["time_ratio"] == 1.0
    assert rows[-1]["time_ratio"] < 0.9 and len(rows) == 4  # type: ignore[operator]


def test_any_workload_is_a_job_and_a_calibrated_one_scatters(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--on", "tpu-v2-8", "--simulate", "--runs", "40", "--set", "job.steps=5")
    time = answer(capsys, "estimate", "data-parallel-mlp", *words)[0]
    plain = answer(capsys, "estimate", "data-parallel-mlp", "--on", "tpu-v2-8")[0]
    assert time["p50"] == pytest.approx(5 * plain["time_s"], rel=0.1)  # type: ignore[operator]
    assert time["p90"] > 1.01 * time["p50"]  # type: ignore[operator]


def test_an_input_pipeline_of_the_estimate_becomes_stages(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("resnet50", "--on", "tpu-v2-8", "--simulate", "--runs", "5", "--set", "job.steps=20")
    alone = [text for stage in ("host", "infeed", "step") for text in ("--set", f"job.{stage}.scatter=0")]
    rows = {row["quantity"]: row for row in answer(capsys, "estimate", *words, *alone)}
    plain = answer(capsys, "estimate", "resnet50", "--on", "tpu-v2-8")[0]
    step, shares = plain["time_s"], plain["metrics"]
    assert rows["step_s"]["p50"] == pytest.approx(step * shares["device"], rel=1e-6)  # type: ignore[index,operator]
    slow = answer(capsys, "estimate", *words, *alone, "--set", "run.host_seconds=0.1")  # 64 x 0.1 s on 16 workers
    assert {row["quantity"]: row for row in slow}["time_s"]["p50"] > 19 * 64 * 0.1 / 16  # type: ignore[operator]
    Path(own).write_text(OWN.replace("set: [workload.batch=4]", "part: host"))
    assert run(["estimate", own, "--simulate"]) == 2
    assert "known of accelerators behind an input pipeline" in capsys.readouterr().err


@pytest.mark.parametrize("name", shipped_jobs())
def test_the_studies_that_ship_miss_their_formula_but_for_the_barrier(name: str) -> None:
    scatters = {"hosts-of-tpus": ("decode", "infeed", "step"), "stragglers": ("compute",)}.get(name, ())
    alone = [f"job.{stage}.scatter=0" for stage in scatters]
    found = ss.simulate(name, settings=["job.steps=150", *alone], runs=3)
    ratio = found.rows()[0]["over_formula"]
    if name == "stragglers":  # the expected longest is a closed form
        assert ratio == pytest.approx(1, abs=0.03)
    else:
        assert ratio > 1.05 or ratio < 0.95


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("service: 30 ms", "service: 30 apples"), "unknown unit 'apples'"),
        (("service: 30 ms,", ""), "give service (seconds) or workload"),
        (("workers: 8", "workers: 0"), "stages.0.workers = 0"),
        (("resource: cores}", "resource: kernels}"), "unknown resource 'kernels'"),
        (("device: step", "device: stop"), "device 'stop' is no stage"),
        (("machine: v100-sxm", "machine: nothing"), "unknown machine 'nothing'"),
        (("steps: 60", "stepps: 60"), "unknown field 'stepps'"),
        (("resources: {cores: 4}", "resources: {cores: 0}"), "resources.cores = 0"),
        (("name: decode", "name: de.code"), "stages.0.name = 'de.code'"),
        (("steps: 60", "steps: 60000000"), "more than 20,000,000"),
        (("steps: 60", "population: 3"), "go round need gather 1"),
        (("steps: 60", "failures: {between: 1 us}"), "is too many"),
        (("name: my", "name: !!python/object:os.system my"), "only plain values are accepted"),
    ],
)
def test_wrong_files_are_one_line(
    change: tuple[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(OWN.replace(*change))
    assert run(["estimate", str(path), "--simulate"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "job.decoder.workers=2"), "did you mean 'decode'?"),
        (("--set", "machine.clock=1GHz", "--runs", "1"), ""),
        (("--set", "job.decode.workers=two"), "want a whole number"),
    ],
)
def test_wrong_settings_are_one_line(
    own: str, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["estimate", own, "--simulate", *words])
    assert code == (2 if said else 0)
    assert said in capsys.readouterr().err


def test_a_job_of_no_time_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("{name: idle, stages: [{name: nothing, service: 0 s}]}")
    assert run(["estimate", str(path), "--simulate"]) == 2
    assert f"{path}: stages.0.service = '0 s': want at least one time > 0 s\n" in capsys.readouterr().err
    path.write_text("{name: idle, stages: [{name: endless, service: 1e300 s}]}")
    assert run(["estimate", str(path), "--simulate"]) == 2
    assert "stages.0.service.0 = 1e+300: want a number <" in capsys.readouterr().err


def test_a_formula_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    text = "formula: {seconds: 'job.steps * job.decode.service', source: mine}"
    path.write_text(OWN + text)
    assert answer(capsys, "estimate", str(path))[0]["time_s"] == pytest.approx(60 * 0.03)
    path.write_text(OWN + text.replace("decode.service", "decode.colour"))
    assert run(["estimate", str(path)]) == 2
    assert "colour" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (
            "exp(exp(exp(job.steps)))",
            "job.yaml: formula.seconds: exp(exp(exp(job.steps))) at job.steps = 60 has a part",
        ),
        ("job.steps/(job.steps - 60)", "divides by zero"),
        ("log(job.steps - 61)", "no real number"),
    ],
)
def test_a_formula_that_is_no_time_names_its_field(
    seconds: str, words: str, own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(own).write_text(f"{OWN}formula: {{seconds: '{seconds}', source: mine}}\n")
    assert run(["estimate", own]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
