"""`extrapolate --check`: exit code 1 where a benchmark leaves the band, and the action that calls it."""

from __future__ import annotations

import json
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
