"""`extrapolate --check`: exit code 1 where a benchmark leaves the band, and the action that calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slipstick.experiments.cli.cli import run

RUNS = "threads,time_s\n1,400\n2,205\n4,107\n8,58\n16,34\n"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path: Path) -> str:
    path = tmp_path / "runs.csv"
    path.write_text(RUNS)
    return str(path)


def test_a_time_within_the_band_passes_and_its_ends_decide(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["extrapolate", runs, "--to", "32", "--format", "json"]
    assert run(asked) == 0
    ((row,),) = [one["predictions"] for one in json.loads(capsys.readouterr().out)]
    for time, code, word in (
        (row["time_s"], 0, "within"),
        (row["low_s"] * 0.999, 1, "below"),
        (row["high_s"] * 1.001, 1, "above"),
    ):
        assert run([*asked, "--check", f"{time}s"]) == code
        assert f"lies {word} the band" in capsys.readouterr().err


def test_what_cannot_be_checked_is_refused(runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["extrapolate", runs, "--to", "32", "--check", "fast"]) == 2
    assert "--check" in capsys.readouterr().err
    several = tmp_path / "regions.csv"
    several.write_text("region,threads,time_s\n" + "".join(f"{r},{p},{8 / p}\n" for r in "ab" for p in (1, 2, 4, 8)))
    assert run(["extrapolate", str(several), "--to", "32", "--check", "1s"]) == 2
    assert "--region" in capsys.readouterr().err


def test_the_action_runs_as_its_step_says(runs: str) -> None:
    """The shell of action.yml with the package that is here; a benchmark of twice the time fails."""
    (step,) = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    command = step["run"].splitlines()[-1].replace("python3", sys.executable)
    for measured, code in (("22s", 0), ("60s", 1)):
        given = {"SERIES": runs, "TO": "threads=32", "MEASURED": measured, "OPTIONS": "", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=given, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "table"])
def test_a_closed_pipe_takes_neither_the_page_nor_the_check(form: str, runs: str, tmp_path: Path) -> None:
    """Whoever reads stdout may leave (`| head -1`): the page is written, and the exit code is the check's."""
    words = ["extrapolate", runs, "--to", "32", "--check", "900s", "--plot", "fit.png", "--format", form]
    read, write = os.pipe()
    os.close(read)
    child = subprocess.run(
        [sys.executable, "-u", "-m", "slipstick", *words],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=write, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(write)
    assert child.returncode == 1 and "lies above the band" in child.stderr, child.stderr
    assert (tmp_path / "fit.png").exists()
