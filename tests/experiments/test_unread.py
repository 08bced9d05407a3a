"""No effect here, and no place in the formula: told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import question
from slipstick.experiments.question.unused_inputs import unread

L2 = "machine.memory.L2.capacity"


def _read(estimator: str, name: str, *settings: str) -> bool:
    asked = question("gemm", "v100-sxm", estimator, list(settings))
    function = asked.estimator.compile(asked.workload, asked.machine, (name,), asked.run)
    assert function.read is not None
    return name in function.read


def test_a_cold_roofline_reads_whether_a_cache_is_there_but_not_its_size() -> None:
    assert not _read("roofline", L2)
    assert _read("tiled-roofline", L2)


def test_a_quantity_without_effect_here_is_read_all_the_same() -> None:
    """Arithmetic bounds a square product, so that bandwidth changes nothing; the formula holds it."""
    assert _read("roofline", "machine.memory.HBM2.bandwidth")
    assert _read("roofline", "workload.m") and _read("roofline", "run.m")
    assert not _read("roofline", "machine.power.cap") and _read("tiled-roofline", "machine.power.cap")


def test_where_it_cannot_be_known_nothing_is_said() -> None:
    asked = question("gemm", "v100-sxm", "roofline-dispatch", [])
    function = asked.estimator.compile(asked.workload, asked.machine, (L2,), asked.run)
    assert unread(function, [L2]) == ()


def test_verbs_say_what_is_not_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["whatif", "gemm", "--on", "a100-sxm-80gb", "--estimator", "roofline", "--vary", f"{L2}=8MiB,128MiB"]
    words = f"this estimator does not read {L2}"
    assert run([*asked, "--save", str(tmp_path / "s.toml")]) == 0
    assert words in capsys.readouterr().out.splitlines()
    assert run([*asked, "--format", "json"]) == 0
    assert all(row["note"].startswith(words) for row in json.loads(capsys.readouterr().out))
    assert run([*asked, "--vary", "machine.power.idle=50W,60W"]) == 0
    assert "this estimator's time does not read machine.power.idle (energy_J does)" in capsys.readouterr().out
    assert run(["study", "run", str(tmp_path / "s.toml"), "--folder", str(tmp_path / "out")]) == 0
    assert words in capsys.readouterr().err


def test_a_page_of_a_study_says_what_is_not_read_and_what_passes_the_cap(tmp_path: Path) -> None:
    file, folder = str(tmp_path / "s.toml"), ["--folder", str(tmp_path / "out")]
    vary = ["--vary", "machine.power.cap=300W,1200W", "--save", file]
    assert run(["whatif", "gemm", "--on", "h200-sxm", "--estimator", "roofline", *vary]) == 0
    assert run(["study", "run", file, *folder]) == 0 and run(["study", "report", file, *folder]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "does not read machine.power.cap" in page and "above the power cap at 1 of 2 points" in page
