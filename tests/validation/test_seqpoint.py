"""The scoreboard of representative iterations: on the bundled epochs, and on logs written here with known truths."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from slipstick.experiments.scoreboards.seqpoint import seqpoint_board as cpu
from slipstick.experiments.scoreboards.seqpoint import seqpoint_board as gpu
from slipstick.experiments.scoreboards.seqpoint.seqpoint_board import BOARD
from slipstick.experiments.scoring.score import Data
from slipstick.experiments.scoring.score_rows import ValidationRow


def write_rnnt(folder: Path, systems: dict[str, list[np.ndarray]]) -> None:
    lines = ["system,run,epoch,iter,t_us,loss,utts_per_s,took_s"]
    for system, runs in systems.items():
        for number, times in enumerate(runs):
            for epoch, one in enumerate(np.split(times, 4), 1):
                lines += [f"{system},{number},{epoch},{i},0,1.0,1,{time:.5f}" for i, time in enumerate(one)]
    path = folder / gpu.RNNT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


def runs(batches: np.ndarray, count: int, seed: int, noise: float = 0.04) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [batches * np.exp(noise * generator.standard_normal(len(batches))) for _ in range(count)]


def batches(seed: int) -> np.ndarray:
    return 0.1 + 0.2 * np.random.default_rng(seed).random(4 * 200)


def named(rows: list[ValidationRow], dataset: str, metric: str) -> list[ValidationRow]:
    return [row for row in rows if row.dataset == dataset and metric in row.metric]


def test_a_new_system_of_a_known_order_is_projected_by_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, other = batches(1), batches(2)
    write_rnnt(tmp_path / "known", {"A": runs(known, 4, 3), "B": runs(other, 4, 4)})
    # another machine: slower by a constant and by another slope
    write_rnnt(tmp_path / "sealed", {"C": runs(0.05 + 0.7 * other, 3, 5)})
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path / "known"))
    rows = list(gpu.rnnt(Data(tmp_path / "sealed")))
    (mean,) = named(rows, "rnnt", "mean")
    assert mean.case == "C"
    assert mean.held_out == "the system; chosen on B"
    assert mean.n == 3 * 4
    assert mean.ok is True and mean.ours is not None and mean.ours < 1.5
    assert mean.ours < mean.baselines["uniform"]
    assert mean.interval_coverage is not None and mean.interval_coverage >= 0.7


def test_within_a_system_the_chosen_runs_are_not_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rnnt(tmp_path, {"A": runs(batches(1), 5, 3)})
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    (mean,) = named(list(gpu.rnnt(Data())), "rnnt", "mean")
    assert mean.n == (5 - gpu.CHOSEN_ON) * 4


def test_orders_are_told_apart() -> None:
    one = {1: np.array(runs(batches(1), 3, 3))}
    assert gpu.same_order(one, {1: np.array(runs(2 * batches(1), 3, 9))})
    assert not gpu.same_order(one, {1: np.array(runs(batches(2), 3, 9))})
    assert not gpu.same_order(one, {2: np.array(runs(batches(1), 3, 9))})


def test_missing_files_are_skipped_with_their_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path))
    rows = [row for row in BOARD.rows() if row.dataset != "own epochs"]
    assert [row.case for row in rows] == ["skipped"] * 3
    assert all("rnnt" in row.reason or "gnmt" in row.reason or "measured_cpu" in row.reason for row in rows)


def test_bundled_epochs_meet_the_goal_and_prior_fails_on_the_sorted_ones() -> None:
    rows = list(cpu.bundled(Data()))
    means = named(rows, "own epochs", "mean")
    assert len(means) >= 5
    for row in means:
        assert row.ours is not None and row.ours <= 2.0, row.case
        assert row.interval_coverage is not None and row.interval_coverage >= 0.85, row.case
        assert row.ours < min(row.baselines["median"], row.baselines["frequent"], row.baselines["prior"])
        if "sorted" in row.case:
            assert row.baselines["prior"] > 20


def test_bundled_epochs_say_where_and_how_they_were_measured() -> None:
    for path in sorted(cpu.BUNDLED.glob("epoch_*.csv")):
        about = json.loads(path.with_suffix(".json").read_text())
        assert about["processor"] and about["date"] and "one training step each in turn" in about["protocol"]
        columns = {name.removesuffix("_s") for name in cpu._header(path) if name.endswith("_s")}
        assert columns == set(about["configurations"])
