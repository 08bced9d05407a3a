"""Jobs of Slurm and other files of run times as people have them."""

import json
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run
from slipstick.experiments.extrapolate.series_files import read
from tests.pasted import SACCT_JSON

# the layout of sacct's manual page (--format=JobID,JobName,NNodes,NTasks,Elapsed,State); times are of an Amdahl law
ALIGNED = """JobID           JobName   NNodes   NTasks    Elapsed      State
------------ ---------- -------- -------- ---------- ----------
4711              solve        1            01:01:00  COMPLETED
4711.batch        batch        1        1   01:01:00  COMPLETED
4712              solve        2            00:31:00  COMPLETED
4713              solve        4            00:16:00  COMPLETED
4714              solve        8            00:02:03 CANCELLED+
4715              solve        8            00:08:30  COMPLETED
4716              solve       16            00:04:45  COMPLETED
"""
PARSABLE = "JobID|NNodes|Elapsed|State\n1|1|1-00:00:00|COMPLETED\n2|2|12:00:00|COMPLETED\n3|4|06:00:00|TIMEOUT\n"
SEFF = """Job ID: 4711
State: COMPLETED (exit code 0)
Nodes: 1
Cores per node: 128
Job Wall-clock time: 01:01:00
Job ID: 4712
State: COMPLETED (exit code 0)
Nodes: 2
Cores per node: 128
Job Wall-clock time: 00:31:00
Job ID: 4713
State: FAILED (exit code 1)
Nodes: 4
Cores per node: 128
Job Wall-clock time: 00:00:02
"""


def written(folder: Path, text: str) -> str:
    path = folder / "jobs.txt"
    path.write_text(text)
    return str(path)


def test_the_text_of_sacct_is_read(tmp_path: Path) -> None:
    jobs = read(written(tmp_path, ALIGNED))
    assert jobs.parameters == ("nodes",)
    assert jobs.points[:, 0].tolist() == [1, 2, 4, 8, 16]
    assert jobs.times.tolist() == [3660, 1860, 960, 510, 285]
    assert jobs.notes == ("elapsed times of 5 completed jobs", "1 of 6 jobs left out: 1 CANCELLED")


def test_bars_commas_and_days_are_read(tmp_path: Path) -> None:
    for text in (PARSABLE, PARSABLE.replace("|", ",")):
        jobs = read(written(tmp_path, text))
        assert jobs.times.tolist() == [86400, 43200] and jobs.notes[1] == "1 of 3 jobs left out: 1 TIMEOUT"


def test_raw_seconds_are_read(tmp_path: Path) -> None:
    jobs = read(written(tmp_path, "JobID|AllocNodes|ElapsedRaw|State\n1|1|177896|COMPLETED\n2|2|88210|COMPLETED\n"))
    assert jobs.times.tolist() == [177_896, 88_210] and jobs.parameters == ("nodes",)


def test_the_text_of_seff_is_read(tmp_path: Path) -> None:
    jobs = read(written(tmp_path, SEFF))
    assert jobs.points[:, 0].tolist() == [1, 2] and jobs.times.tolist() == [3660, 1860]


def test_jobs_that_all_failed_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["extrapolate", written(tmp_path, SEFF.replace("COMPLETED", "FAILED")), "--to", "8"]) == 2
    assert "none of 3 jobs completed (3 FAILED)" in capsys.readouterr().err


def test_job_numbers_units_and_typed_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    rows = zip((48213, 48251, 48272, 48230, 48290), (1, 2, 4, 8, 16), strict=True)
    path.write_text("job,nodes,duration_ms\n" + "".join(f"{job},{p},{60_000 + 3_600_000 / p}\n" for job, p in rows))
    assert run(["extrapolate", str(path), "--to", "64,1024", "--cores-per-node", "100"]) == 0
    said = capsys.readouterr().out
    assert "\n 1024  " in said and "job: numbers of jobs, left out" in said
    assert run(["extrapolate", str(path), "--to", "64", "--cores-per-node", "100", "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    (row,) = answer["predictions"]
    assert row["nodes"] == 64 and row["core_h"] == pytest.approx(6400 * row["time_s"] / 3600)
    assert run(["extrapolate", str(path), "--to", "64", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)[0]["predictions"]
    assert "core_h" not in row and row["node_h"] == pytest.approx(64 * row["time_s"] / 3600)


def test_clock_times_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "clock.csv"
    path.write_text("nodes,elapsed\n1,1-01:00:00\n2,12:40:00\n4,30:05.5\n")
    assert read(path).times.tolist() == [90_000, 45_600, 1805.5]


def test_iterations_with_lengths_go_to_seqpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("iteration,seq_len,time_ms\n1,100,12.0\n2,120,14.1\n3,90,11.0\n")
    assert run(["read", str(path)]) == 0
    said = capsys.readouterr().out
    assert "3 iterations of 3 lengths, 37.1 ms in all" in said and f"next: slipstick seqpoint {path}" in said


def test_two_lists_are_a_series() -> None:
    answer = ss.extrapolate([1, 2, 4, 8], [62.0, 32.0, 17.0, 9.5], 64)
    # Amdahl 1967: 2 + 60 / p
    assert answer.kind == "strong" and answer.value[0] == pytest.approx(2 + 60 / 64, rel=0.05)


def test_a_job_whose_state_is_blank_is_left_out_and_counted(tmp_path: Path) -> None:
    whole = json.loads(json.dumps(SACCT_JSON))
    whole["jobs"][0]["state"]["current"] = [" "]
    (tmp_path / "jobs.json").write_text(json.dumps(whole))
    found = read(tmp_path / "jobs.json")
    assert len(found.times) == 2 and "2 of 4 jobs left out" in " ".join(found.notes)
