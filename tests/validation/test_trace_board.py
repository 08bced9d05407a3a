"""The board of traces: a file that is no such trace is named without the folders of one machine."""

import json
from pathlib import Path

from slipstick.experiments.scoreboards.traces.traces_board import BOARD


def test_a_file_that_is_no_trace_is_named_by_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "other.json").write_text(json.dumps({"something": 1}))
    (row,) = [row for row in BOARD.rows(tmp_path) if "other.json" in row.reason]
    assert row.reason.startswith("other.json") and str(tmp_path) not in row.reason
