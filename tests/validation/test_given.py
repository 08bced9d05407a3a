"""A stranger's folder: rows that cannot be scored do not cost their table, nor do they go unsaid, in whatever dress."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pandas as pd
import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.scoring.external_data import given

LAYERS = "tpu/scalesim_v3_layers.csv"
COLUMNS = ("topology", "R", "C", "dataflow", "M", "N", "K", "compute_cycles")
GOOD = (("a", 8, 8, "os", 256, 128, 256, 138239), ("b", 8, 8, "os", 256, 128, 128, 72703))
"""Layers of SCALE-Sim's own test_mnk_input.csv on an array of 8 x 8, and their cycles."""
BENCHES = "portability/gpu_benches.csv.gz"


def table(rows: tuple[tuple[object, ...], ...], columns: tuple[str, ...] = COLUMNS, **dress: str) -> bytes:
    """A CSV."""
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if dress.get("quotes") else csv.QUOTE_MINIMAL
    writer = csv.writer(out, quoting=quoting, lineterminator=dress.get("end", "\n"))
    writer.writerows([columns, *rows])
    return dress.get("mark", "").encode() + out.getvalue().encode()


def put(folder: Path, relative: str, content: bytes) -> Path:
    """The file, packed where its name says so."""
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return folder


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of public tables."""
    folder = put(tmp_path / "public", LAYERS, table(GOOD))
    benches = [f"h100_pcie,gpu-stream,read,{n},{n},{n}e9" for n in range(1, 20)]
    head = "device,benchmark,quantity,size_bytes,threads,value"
    put(folder, BENCHES, "\n".join([head, *benches, ""]).encode())
    monkeypatch.setenv("SLIPSTICK_DATA", str(folder))
    return folder


def told(folder: Path, board: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """The rows of the command."""
    assert run(["validate", board, "--data", str(folder), "--format", "json"]) in (0, 1, 2)
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (("c", 8, 8, "os", 256, "many", 128, 5), "line 4: N = 'many' is no finite number"),
        (("c", 8, 8, "os", 256, 128, 128, "nan"), "line 4: compute_cycles = 'nan' is no finite number"),
        (("c", 8, 8, "os", 256, 128, 128, "1e999"), "line 4: compute_cycles = '1e999' is no finite number"),
        (("c", 8, 8), "line 4: 3 values for 8 columns"),
        (GOOD[0], "line 4: stands twice, as in line 2"),
    ],
)
def test_a_spoilt_row_is_left_out_by_its_line_and_the_others_are_scored(
    spoilt: tuple[object, ...], why: str, public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = told(put(tmp_path / "given", LAYERS, table((*GOOD, spoilt))), "systolic", capsys)
    assert [(row["n"], row["ours"]) for row in rows if row["case"] == "os: cycles equal"] == [(2, 1.0)]
    (left,) = [row for row in rows if row["dataset"] == LAYERS]
    assert left["reason"] == f"1 of 3 rows are left out; {why}" and left["ok"] is None and left["n"] == 0


def test_what_is_measured_has_to_be_above_zero(
    public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [f"h100_pcie,gpu-stream,read,{n},{n},{value}" for n, value in ((1, 0), (2, -3.5), (3, ""), (4, "inf"))]
    content = "\n".join(["device,benchmark,quantity,size_bytes,threads,value", *bad, ""]).encode()
    reasons = [str(row["reason"]) for row in told(put(tmp_path / "given", BENCHES, content), "gpu-memory", capsys)]
    assert any(
        reason.startswith("4 of 4 rows are left out; line 2: value = 0: want a number above 0") for reason in reasons
    )


def test_dress_changes_nothing(public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte-order mark, CRLF, quotes, columns in another order, and one column more."""
    plain = told(put(tmp_path / "plain", LAYERS, table(GOOD)), "systolic", capsys)
    names = (*reversed(COLUMNS), "remark")
    rows = tuple((*reversed(row), 'a "word", and\nanother') for row in GOOD)
    folder = put(tmp_path / "dressed", LAYERS, table(rows, names, quotes="all", end="\r\n", mark="\ufeff"))
    dressed = told(folder, "systolic", capsys)
    scores = [[row for row in some if row["case"] == "os: cycles equal"] for some in (plain, dressed)]
    assert scores[0] == scores[1] != []
    assert [row["reason"] for row in dressed if row["dataset"] == LAYERS] == [
        "not read, since the public table has no such column: remark"
    ]


def test_a_column_that_is_missing_and_a_table_without_rows_are_said(
    public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = put(tmp_path / "without", LAYERS, table(tuple(row[:-1] for row in GOOD), COLUMNS[:-1]))
    reasons = [str(row["reason"]) for row in told(without, "systolic", capsys)]
    assert "columns of the public table that are not here: compute_cycles" in reasons
    assert any("no column 'compute_cycles'" in reason for reason in reasons)
    assert all(str(tmp_path / "without") in reason for reason in reasons if LAYERS in reason)  # as the user named it
    empty = told(put(tmp_path / "empty", LAYERS, table(())), "systolic", capsys)
    assert "a header and no rows" in [row["reason"] for row in empty]


def test_words_where_the_public_table_has_numbers_are_no_fault_of_single_rows(public: Path, tmp_path: Path) -> None:
    rows = tuple((*row[:4], "large", *row[5:]) for row in GOOD)
    with given(put(tmp_path / "given", LAYERS, table(rows)), ["systolic"]) as there:
        assert there.left_out == () and there.folder == tmp_path / "given"


def test_parquet_is_screened_too_and_other_boards_tables_are_not_looked_at(public: Path, tmp_path: Path) -> None:
    relative = "gpu/aiconfigurator/b200_sxm/gemm/sglang/0.5.10/gemm_perf.parquet"
    path = tmp_path / "given" / relative
    path.parent.mkdir(parents=True)
    pd.DataFrame({"m": [1, 2, 3], "latency": [0.5, 0.0, float("nan")]}).to_parquet(path)
    with given(tmp_path / "given", ["operations"]) as there:
        assert there.folder is not None and len(pd.read_parquet(there.folder / relative)) == 1
        assert [row.dataset for row in there.left_out] == [relative]
    with given(tmp_path / "given", ["serving"]) as there:
        assert there.left_out == ()
