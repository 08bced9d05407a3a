"""The scoreboard of several parameters: its split, its laws, and what it does without data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.scaling import surfaces_board as board
from slipstick.experiments.scoreboards.scaling.surfaces_board import LAWS


def test_a_table_is_asked_beyond_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = [f"{p},{n},{1e-6 * n * n / p}" for p in (1, 2, 4, 8, 16, 32) for n in (100, 200, 400, 800, 1600, 3200)]
    path.write_text("threads,n,time_s\n" + "\n".join(rows) + "\n")
    found = list(board.table_cases(path, "mine"))
    # the sixth level of either parameter, six points each, and of both, one point
    assert sorted(one.ratio for one in found) == [2.0] * 12 + [4.0]
    assert max(abs(one.ours / one.truth - 1) for one in found) < 0.01
    assert all(one.low <= one.truth <= one.high for one in found)


def test_laws_have_a_grid_a_source_and_positive_times() -> None:
    assert {law.part for law in LAWS} == {"tuning", "held out"} and len({law.name for law in LAWS}) == len(LAWS)
    for law in LAWS:
        x = law.points()
        times = law.seconds(x)
        assert x.shape == (len(times), len(law.parameters)) and np.all(times > 0) and law.source


def test_missing_tables_are_skipped_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "LAWS", ())
    rows = board.BOARD.rows(tmp_path)
    assert {row.case for row in rows} == {"skipped"}
    assert any("multi_hommexx.csv is not in" in row.reason for row in rows)


@pytest.mark.slow
def test_relearn_is_foretold_better_than_by_a_product_of_powers() -> None:
    path = training_file("scaling/multi_relearn125.csv")
    if path is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    some = [one for one in board.table_cases(path, "relearn125") if 1.45 <= one.ratio < 2.9]
    ours, powers = (np.median([abs(getattr(one, f) / one.truth - 1) for one in some]) for f in ("ours", "powers"))
    assert ours < 0.04 < powers
    assert np.mean([one.low <= one.truth <= one.high for one in some]) >= 0.7
