"""Numbers of a German or French locale are read alike by every reader of a table, or their row is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.experiments.calibrate.measured_files import read_known_answer
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.importers.iteration_logs import read_log


def _written(folder: Path, text: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_decimal_commas_are_read_where_no_comma_parts_cells(tmp_path: Path, mark: str) -> None:
    table = "length;time_s\n5;1,25\n7;1.402,5\n".replace(";", mark)
    rows = [row for _, row in read_csv_rows(_written(tmp_path, table))]
    assert [row["time_s"] for row in rows] == ["1.25", "1402.5"]


def test_a_log_and_measured_times_take_them(tmp_path: Path) -> None:
    path = _written(tmp_path, "batch;time_s\n1;0,006\n4;0,008\n")
    times = read_log(path).times
    assert times is not None and times.tolist() == [0.006, 0.008]
    known = read_known_answer(str(path), machine("a100"))
    assert [row.seconds for row in known.rows] == [0.006, 0.008]  # type: ignore[union-attr]


def test_lists_and_notes_with_commas_stay_as_written(tmp_path: Path) -> None:
    """Beside decimal points, where nothing says what the comma is, or in a column with a cell that is no number."""
    for time in ("0.5", "5"):
        table = f"length\tgpus\tshape\ttime_s\n7\t{'0,1' if time == '0.5' else ''}\t224,224\t{time}\n"
        path = _written(tmp_path, table)
        times = read_log(path).times
        assert times is not None and times.tolist() == [float(time)]
        assert [row["shape"] for _, row in read_csv_rows(path)] == ["224,224"]
    german = _written(tmp_path, "bytes;note;time_s\n1.234;1,2;0,5\n2.345;slow;1.402,5\n")
    assert [[*row.values()] for _, row in read_csv_rows(german)] == [["1234", "1,2", "0.5"], ["2345", "slow", "1402.5"]]
    lists = _written(tmp_path, "gpus;time_s\n0,1;2,5\n0,1,2;2,6\n0,1;2,75\n")
    assert [row["gpus"] for _, row in read_csv_rows(lists)] == ["0,1", "0,1,2", "0,1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batch;time_s\n1;0.006\n4;0,008\n", "line 3: time_s = '0,008' is no number: 0.008? Write it with"),
        ("batch;time_s\n1;0,006\n4;0,008\n8;x\n", "line 4: time_s = 'x' is no number"),
        ("batch;time_s\n1;0,006\n4;0,0o8\n8;0,02\n", "line 3: time_s = '0,0o8' is no number"),
        ("batch,time_s\n1,\"0,006\"\n", "line 2: time_s = '0,006' is no number"),
        ("batch;time_s\n1;1,234\n", "line 2: time_s = '1,234' is no number: 1.234 or 1234? Write it with"),
    ],
)  # fmt: skip
def test_what_may_be_either_is_refused_with_its_row(tmp_path: Path, text: str, words: str) -> None:
    path = _written(tmp_path, text)
    with pytest.raises(InputError) as refused:
        read_log(path)
    assert words in str(refused.value) and str(path) in str(refused.value)
