"""Li et al. 2020 on the authors' own timings, and the leave-one-machine-out composition."""

import pytest

from experiments.papers import dlbricks
from experiments.validation import dlbricks as scoreboard
from experiments.validation.data import data_folder
from experiments.validation.dlbricks_data import SEQUENCES

needs_data = pytest.mark.skipif(
    data_folder() is None or not (data_folder() / SEQUENCES).exists(), reason="no public measurements (SLIPSTICK_DATA)"
)


@needs_data
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_every_checkable_row_holds() -> None:
    rows = dlbricks.run()
    assert len([row for row in rows if row.ok is not None]) >= 20
    assert [row.cell for row in rows if row.ok is False] == []


@needs_data
def test_machines_left_out_are_composed_better_than_by_the_sum_of_layers() -> None:
    rows = scoreboard.rows()
    assert {row.case for row in rows} >= {"whole models on c5.xlarge", "whole models on c5.2xlarge"}
    for row in rows:
        assert row.ours <= row.baselines["sum of single layers"] * 1.001


def test_only_what_all_machines_agree_on_is_carried() -> None:
    assert scoreboard.carried([{"a": 0.1}, {"a": 0.2}], "a") == pytest.approx(scoreboard.AGREEMENT * 0.1)
    assert scoreboard.carried([{"a": 0.1}, {"a": -0.2}], "a") == 0
    assert scoreboard.carried([{"a": 0.1}], "b") == 0


def test_without_the_data_the_rows_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    assert all(row.status == "not_reproducible" and row.reason for row in dlbricks.run())
    assert [row.case for row in scoreboard.rows()] == ["skipped"]
