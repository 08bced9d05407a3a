"""Verdicts that a newcomer missed: a server that cannot keep up, a measured time that cannot be, a host that bounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run
from slipstick.experiments.serve.serving_text import warnings_of

Captured = pytest.CaptureFixture[str]
SERVER = {"machine": "h100-sxm", "input_tokens": 2000, "output_tokens": 200}


def test_a_stream_above_what_is_served_is_named_and_one_below_is_not(capsys: Captured) -> None:
    """What 256 users get is about the most that it gives: twice that cannot be served, half of it can."""
    most = ss.serve("llama-3.1-8b", concurrency=256, **SERVER).summary()["requests_per_s"]
    said = {share: warnings_of(ss.serve("llama-3.1-8b", rate=share * most, **SERVER)) for share in (0.5, 2.0)}
    assert not said[0.5]
    assert "are more than are served" in said[2.0][0] and "--num-requests" in said[2.0][0]
    few = ["serve", "llama-3.1-8b", "--on", "h100", "--rate", "0.2", "--num-requests", "12"]
    assert run(few) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "requests/s until the last of 12 is answered" in out and "more than are served" not in out


def test_a_measured_time_that_no_law_follows_is_doubted() -> None:
    told = {
        known: warnings_of(ss.serve("llama-3.1-8b", "h100", concurrency=16, measured=known)) for known in ("9ms", "2s")
    }
    assert not told["9ms"]
    assert "of the model's answer, further than the law can follow" in told["2s"][0]


def test_what_a_server_may_be_told_is_said(capsys: Captured) -> None:
    assert run(["serve", "llama-3.1-8b", "--on", "h100", "--measured", "ttft=800ms"]) == 2
    told = capsys.readouterr().err
    assert "25ms@concurrency=32,tp=1" in told and "a JSON of vllm bench serve" in told


def test_a_size_that_is_set_and_varies_is_one_size_by_either_name(capsys: Captured) -> None:
    rows = {}
    for name in ("run.batch", "workload.batch"):
        command = ["whatif", "gpt2", "--on", "h100-sxm", "--batch", "8", "--vary", f"{name}=8,16"]
        assert run([*command, "--format", "json"]) == 0
        rows[name] = json.loads(capsys.readouterr().out)
    assert rows["run.batch"] == rows["workload.batch"]
    assert rows["run.batch"][0]["time_ratio"] == pytest.approx(1.0)


def test_whom_the_host_bounds_is_said_of_several_machines(capsys: Captured) -> None:
    """Machines with one host take what it takes: operations times the time of issuing one."""
    command = ["estimate", "mlp-inference", "--on", "a100,h100", "--dtype", "bf16"]
    assert run(command) == 0
    assert "the host bounds 2 of 2 machines: " in capsys.readouterr().out
    assert run([*command, "--mode", "graphs"]) == 0
    assert "the host bounds" not in capsys.readouterr().out


def test_several_machines_hint_at_a_faster_type_as_one_does(capsys: Captured) -> None:
    assert run(["estimate", "gemm", "--on", "a100,rtx-4090"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "hint, A100 SXM4 80 GB: float32 products run on the vector engine: --dtype tfloat32 has 8 x" in out
    assert "hint, A100 SXM4 80 GB, GeForce" not in out  # its matrix engine is no faster


def test_a_profile_of_a_processor_shows_own_times(tmp_path: Path) -> None:
    """As torch.profiler's own table of self times has them, which no operation inside another is counted twice in."""
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    from slipstick.experiments.replay.read_files import ReadOptions, read_any

    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(14400, 64)
    )
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        net(torch.randn(8, 3, 32, 32)).sum().backward()
    path = tmp_path / "trace.json"
    recorded.export_chrome_trace(str(path))
    found = read_any(str(path), ReadOptions(top=100))
    rows = {row["operation"]: row for row in found.rows}
    theirs = {one.key: one for one in recorded.key_averages()}
    assert "aten::mkldnn_convolution" in rows and set(rows) <= set(theirs)
    for name, row in rows.items():
        assert row["count"] >= theirs[name].count, name  # theirs counts no operation inside one of its own name
        assert row["time_s"] == pytest.approx(theirs[name].self_cpu_time_total * 1e-6, rel=0.02, abs=2e-6), name
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1.0)
