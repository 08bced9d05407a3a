"""The documented keys are those that the verbs answer with."""

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.scoring.annotations import Mark, marked
from slipstick.experiments.scoring.score_rows import ReproductionRow, ValidationRow

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
PHI = ["--on", "xeon-phi-7120p", "--set", "run.threads=240"]
VERBS = {
    "estimate": ["estimate", "phi-cnn-small", *PHI],
    "whatif": ["whatif", "phi-cnn-small", *PHI, "--vary", "machine.clock=1GHz,2GHz"],
    "serve": ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--concurrency", "2", "--output-tokens", "8"],
    "serve llama.cpp": ["serve", "llama-3.2-1b", "--on", "rtx-4090", "--engine", "llama.cpp"],
    "plan serving": ["plan", "serving", "llama-3.1-8b", "--on", "h100-sxm", "--devices", "1"],
    "machines list": ["machines", "list"],
    "machines show": ["machines", "show", "xeon-phi-7120p"],
    "workloads list": ["workloads", "list"],
    "workloads show": ["workloads", "show", "phi-cnn-small"],
    "bricks split": ["bricks", "split", "resnet50"],
}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_keys_of_a_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*VERBS[verb], "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert isinstance(rows, list) and rows
    assert all(row["schema_version"] == 1 for row in rows)
    for key in rows[0]:
        assert key in PAGE or "." in key, key
    for part in rows[0].get("parts", []):
        assert all(key in PAGE for key in part)


def test_answers_from_files_carry_remarks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their warnings, where there are some: a list in every row (docs/json.md)."""
    log, matrix = tmp_path / "log.csv", tmp_path / "one.mtx"
    log.write_text("seq_len,time_s\n" + "".join(f"{10 + n % 7},{0.1 + n % 7 / 100}\n" for n in range(40)))
    entries = "".join(f"{n} {n} 1.0\n" for n in range(1, 301))
    matrix.write_text(f"%%MatrixMarket matrix coordinate real general\n300 300 300\n{entries}")
    asked = [["seqpoint", str(log)], ["spmv", "predict", str(matrix)], ["bricks", "split", "resnet50"]]
    for verb in [*asked, ["bricks", "similarity", "resnet50", "alexnet"]]:
        assert run([*verb, "--format", "json"]) == 0, verb
        assert all(row["remarks"] == [] for row in json.loads(capsys.readouterr().out)), verb


def test_keys_of_the_rows_machines_rely_on() -> None:
    reproduction = ReproductionRow("I", "a", "exact", 1.0, 1.0).to_dict()
    assert list(reproduction) == [
        "table", "cell", "status", "published", "ours", "unit",
        "relative_error", "tolerance_abs", "tolerance_rel", "ok", "reason", "evidence",
    ]  # fmt: skip
    validation = ValidationRow("d", "c", "machine", 3, "m", "%", 1.0).to_dict()
    assert list(validation) == [
        "dataset", "case", "held_out", "n", "metric", "unit", "baselines", "ours", "goal", "ok", "interval_level",
        "interval_coverage", "interval_width", "noise_floor", "reason", "groups", "coverage_low", "coverage_high",
        "interval_needed",
    ]  # fmt: skip
    assert all(key in PAGE for key in [*reproduction, *validation])


def test_csv_has_one_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["machines", "list", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("machine,name,cores,clock_Hz")
    assert all(len(line.split(",")) >= 6 for line in lines[1:])


@pytest.mark.parametrize(
    ("published", "ours", "absolute", "relative", "ok"),
    [
        (10.0, 10.05, 0.06, None, True),
        (10.0, 10.07, 0.06, None, False),
        (100.0, 100.3, 0.06, 0.004, True),
        (1.0, None, 0.1, None, None),
    ],
)
def test_the_larger_tolerance_holds(
    published: float, ours: float | None, absolute: float, relative: float | None, ok: bool | None
) -> None:
    row = ReproductionRow("I", "a", "exact", published, ours, tolerance_abs=absolute, tolerance_rel=relative)
    assert row.ok is ok


def test_a_number_beside_a_published_one_is_always_judged() -> None:
    for status in ("exact", "model", "not_reproducible"):
        assert ReproductionRow("I", "a", status, 10.0, 11.9).ok is True
        assert ReproductionRow("I", "a", status, 10.0, 12.1).ok is False
        assert ReproductionRow("I", "a", status, 10.0, 12.1).to_dict()["tolerance_rel"] == 0.20
    assert ReproductionRow("I", "a", "model", None, 12.1).ok is None
    assert ReproductionRow("I", "a", "not_reproducible", 10.0, None).proves == "not reproducible"
    assert ReproductionRow("I", "a", "qualitative", "up", "up", holds=True).proves == "direction"
    assert ReproductionRow("I", "a", "model", 10.0, 9.0, holds=True).proves == "one-sided"
    assert ReproductionRow("I", "a", "model", 10.0, 9.0, evidence="circular").to_dict()["evidence"] == "circular"


def test_a_cell_stands_once() -> None:
    row = ReproductionRow("I", "a", "model", 10.0, 9.0)
    assert marked([row], [Mark("I", ".*", "echo", "Table I")])[0].proves == "echo"
    with pytest.raises(InputError, match="stands twice"):
        marked([row, row], [])
