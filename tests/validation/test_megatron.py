"""The scoreboards of collectives and of Megatron's iterations."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.parallel import collectives_board, megatron_board
from slipstick.experiments.scoreboards.parallel.collectives_board import FOLDER


def test_published_iterations_are_met_without_a_fit_to_them() -> None:
    rows = megatron_board.BOARD.rows()
    summary = {row.metric: row for row in rows if row.case == "all"}
    mean, largest = summary["mean |relative error|"], summary["largest |relative error|"]
    assert mean.ours is not None and mean.ours <= 0.05 and mean.ours < mean.baselines["products at the peak"] / 5
    assert largest.ours is not None and largest.ours <= 0.12
    assert len(rows) == 8 + 3


def test_there_is_nothing_to_score_in_a_folder() -> None:
    (row,) = megatron_board.BOARD.rows(Path("elsewhere"))
    assert row.ok is None and "no file to score" in row.reason


@pytest.mark.skipif(
    training_file(f"{FOLDER}/a40_pairwise_nvlink/send_recv.csv.gz") is None,
    reason="no public measurements here (set SLIPSTICK_DATA)",
)
def test_a_machine_left_out_is_predicted_from_the_others_and_one_transfer_a_link(tmp_path: Path) -> None:
    known = training_file(f"{FOLDER}/a40_pairwise_nvlink/send_recv.csv.gz")
    assert known is not None
    place = tmp_path / FOLDER / "a40_pairwise_nvlink"
    place.mkdir(parents=True)
    (place / known.name).write_bytes(known.read_bytes())
    anchored, bare, clusters = collectives_board.BOARD.rows(tmp_path)
    assert clusters.ok is None and "collectives.csv.gz" in clusters.reason
    assert anchored.case == "a40_pairwise_nvlink" and anchored.ok is True
    assert anchored.ours is not None and anchored.ours < anchored.baselines["linear alpha-beta"] / 4
    assert bare.ours is not None and bare.ours > anchored.ours
    # Two links, one anchor each: neither is scored, and no row of the scored file is in the fit.
    assert anchored.n == len(pd.read_csv(known).query("size > 65536")) - 2


def test_unknown_systems_and_missing_data_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    for row in collectives_board.BOARD.rows():
        assert row.ok is None and "SLIPSTICK_DATA" in row.reason
