"""slipstick calibrate STUDY.toml: parameters with errors and warnings, kept as JSON."""

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.calibration_file import load_calibration
from slipstick.estimators.symbolic.formula import parameters
from slipstick.experiments.calibrate.measurements import read_measurements
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question import registry
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload

STUDY = """
schema = "slipstick-study-1"
name = "phi-fit"
workloads = ["phi-cnn-small"]
machines = ["xeon-phi-7120p"]
estimator = "phi-a"
[fit]
measured = "measured.csv"
parameters = ["operation.operation_factor"]
starts = 3
"""
FACTOR = "operation.operation_factor"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    truth = registry.estimator("phi-a").with_parameters({FACTOR: 22.0})
    small, phi = workload("phi-cnn-small"), machine("xeon-phi-7120p")
    rows = [
        f"{p},{truth.estimate(small, phi, {'threads': p}).time * noise},{group}"
        for p, noise, group in ((15, 1.01, "a"), (30, 0.99, "a"), (60, 1.02, "b"), (120, 0.98, "b"), (240, 1.0, "b"))
    ]
    (tmp_path / "measured.csv").write_text("run.threads,time_s,group\n" + "\n".join(rows) + "\n")
    path = tmp_path / "fit.toml"
    path.write_text(STUDY)
    return path


def test_a_known_factor_is_found_and_kept(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = study.with_suffix(".json")
    assert run(["calibrate", str(study), "--out", str(out), "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    (row,) = answer["fitted"]
    assert row["value"] == pytest.approx(22.0, rel=0.02) and row["low"] < 22.0 < row["high"]
    assert [one["group"] for one in answer["held_out"]] == ["a", "b"]
    assert all(one["median_log_error"] < 0.05 for one in answer["held_out"])
    kept = load_calibration(out, registry.estimator("phi-a"))
    assert parameters(kept.estimator)[FACTOR][0] == row["value"]
    assert kept.residual_std is not None and kept.names == (FACTOR,)


def test_the_profile_agrees_with_the_covariance(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = {}
    for how in ("covariance", "profile"):
        assert run(["calibrate", str(study), "--intervals", how, "--format", "json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)[0]["fitted"]
        ends[how] = (row["low"], row["high"])
    assert ends["profile"] == pytest.approx(ends["covariance"], rel=0.01)


def test_the_table_names_errors_and_starts(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", str(study)]) == 0
    said = capsys.readouterr().out
    assert "1 parameters fitted to 5 measurements in log time (linear loss, 3 starts)" in said
    assert "each group, fitted to the others" in said


def test_a_row_in_another_unit_is_named(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = study.with_name("measured.csv")
    head, *rows = table.read_text().splitlines()
    threads, seconds, group = rows[2].split(",")
    rows[2] = f"{threads},{1000 * float(seconds)},{group}"
    table.write_text("\n".join([head, *rows]) + "\n")
    assert run(["calibrate", str(study)]) == 0
    named = [line for line in capsys.readouterr().out.splitlines() if "far off all other rows" in line]
    assert len(named) == 1 and "measured.csv: row 3: time" in named[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("operation.operation_factor", "operation.speed", "unknown parameter of"),
        ("[fit]", "[vary]", "fit"),
        ("starts = 3", 'loss = "l7"', "loss"),
        ('measured = "measured.csv"', 'measured = "none.csv"', "no such file"),
    ],
)
def test_bad_studies_are_one_line_and_exit_2(
    study: Path, old: str, new: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study.write_text(STUDY.replace(old, new))
    assert run(["calibrate", str(study)]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.splitlines()) == 1


BAD: list[tuple[dict[str, object], str]] = [
    ({"schema": "other"}, "schema = 'other'"),
    ({"names": ["nothing"]}, "names: want a list of fitted parameters"),
    ({"covariance": [[1.0, 2.0]]}, "covariance: want a symmetric table of 1 x 1 numbers"),
    ({"parameters": {FACTOR: {"value": "x"}}}, "'x': want a number"),
    ({"parameters": {FACTOR: {"value": -1.0}}}, "want a value in"),
]


def test_bad_calibration_files_are_refused(study: Path) -> None:
    from slipstick.common.errors import InputError

    out = study.with_suffix(".json")
    assert run(["calibrate", str(study), "--out", str(out), "--format", "csv"]) == 0
    good = json.loads(out.read_text())
    for change, words in BAD:
        out.write_text(json.dumps(good | change))
        with pytest.raises(InputError, match=words.replace("(", r"\(")):
            load_calibration(out, registry.estimator("phi-a"))


def test_the_older_key_of_a_study_is_taken_with_a_hint(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study.write_text(STUDY.replace('measured = "measured.csv"', 'known = "measured.csv"'))
    assert run(["calibrate", str(study), "--format", "json"]) == 0
    read = capsys.readouterr()
    assert json.loads(read.out)[0]["fitted"][0]["value"] == pytest.approx(22.0, rel=0.02)
    assert "fit.known is called measured now" in read.err
    study.write_text(STUDY.replace("[fit]", '[fit]\nknown = "measured.csv"'))
    assert run(["calibrate", str(study)]) == 2
    assert "fit.known and measured are one field: give measured" in capsys.readouterr().err


def test_a_calibration_says_which_estimator_was_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.json").write_text("{}")
    assert run(["estimate", "gpt2", "--on", "h100-sxm", "--calibration", str(tmp_path / "empty.json")]) == 2
    assert "empty.json: estimator: want the name of the estimator that was fitted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("run.threads", "line 2: run.threads = 1.5: want a whole number >= 1"),
        ("workload.batch", "line 2: workload.batch = 1.5: want a whole number >= 1"),
    ],
)
def test_half_a_thread_or_size_is_no_measurement(column: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{column},time_s\n1.5,2\n")
    with pytest.raises(InputError, match=words):
        read_measurements(str(path), workload("gpt2"), machine("h100-sxm"))
