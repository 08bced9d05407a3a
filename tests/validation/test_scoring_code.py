"""Scoring code on small made-up data whose scores are known by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.cpu import cpu_layers_board
from slipstick.experiments.scoreboards.dlbricks import layer_tables
from slipstick.experiments.scoreboards.scaling import surfaces_board
from slipstick.experiments.scoreboards.training import training_board
from slipstick.experiments.scoreboards.training.training_rows import FILES, training_runs
from slipstick.experiments.scoring import score
from slipstick.experiments.scoring.score import Scored


def test_a_table_of_surfaces_is_counted_by_hand() -> None:
    """60 answers at 2x: 45 are 10 % too large and inside their band, 15 refused and 100 % too large outside it."""
    good = surfaces_board.SurfaceCase("me", 2.0, 1.0, 1.1, 0.8, 1.25, "trust", 1.3, 2.0)
    wrong = surfaces_board.SurfaceCase("me", 2.0, 1.0, 2.0, 1.5, 3.0, "do not trust", 1.3, 2.0)
    median, tail = surfaces_board._scores("made up", "beyond", [good] * 45 + [wrong] * 15)
    assert median.n == 60 and median.ours == pytest.approx(10.0) and median.ok is False
    assert median.baselines == {"powers": pytest.approx(30.0), "nearest": pytest.approx(100.0)}
    assert median.interval_coverage == pytest.approx(0.75)
    assert median.interval_width == pytest.approx(1.25 / 0.8)
    assert median.reason == "25% refused; 45 trusted: median 10.0 %, 100% in the band"
    assert tail.ours == pytest.approx(100.0)
    few, _ = surfaces_board._scores("made up", "beyond", [good] * 10)
    assert few.ok is None and few.interval_coverage is None  # too few for a verdict


def test_layers_that_take_their_bytes_over_the_bandwidth_are_met_by_the_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Additions that take 200 us and 8 bytes an element at 5 GB/s, over five folds of ten models."""
    sizes = np.tile([16, 64, 128, 256, 512], 20)
    frame = pd.DataFrame({name: np.ones(100) for name in layer_tables.SIDES})
    frame["output_height"], frame["input_height"] = sizes * 64, sizes * 64
    frame["output_channel"] = frame["input_channel"] = 64
    frame["mean_time"] = 200e-6 + 8 * sizes * 64 * 64 / 5e9
    frame["kind"], frame["function"] = "Elementwise", ""
    frame["model_name"] = [f"model {i // 10}" for i in range(100)]
    frame["topology_hash"] = np.arange(100)
    for name in ("mad_flops", "kernel_1", "kernel_2", "stride_1"):
        frame[name] = 1.0
    path = tmp_path / "layers.csv"
    frame.to_csv(path, index=False)
    known = layer_tables.layer_frame(path)
    assert len(known) == 100
    monkeypatch.setattr(score.Data, "known", lambda *_: path)
    monkeypatch.setattr(score.Data, "judged", lambda *_: path)
    (made,) = [one for one in cpu_layers_board._kinds(score.Data()) if isinstance(one, Scored)]
    assert made.ours == pytest.approx(made.measured, rel=0.02)
    plain, factor = (np.abs(values / made.measured - 1).mean() for values in made.baselines.values())
    assert plain > factor > 0.05


def test_larger_clusters_are_foretold_from_the_smaller_ones_of_the_same_model() -> None:
    path = training_file(FILES["llm-foundry"])
    if path is None:
        pytest.skip(f"{FILES['llm-foundry']} is not there: set SLIPSTICK_DATA")
    every = training_runs("llm-foundry", path)[0]
    runs = [run for run in every if run.model.name == "mpt-7b" and run.system == "h100" and run.sequence == 2048]
    sizes = sorted({run.devices for run in runs})
    assert len(sizes) >= 3
    found = training_board.grown("llm-foundry", runs, every)
    border = sizes[len(sizes) // 2 - 1]
    assert len(found.measured) == sum(run.devices > border for run in runs)
    errors = np.abs(np.log(found.ours / found.measured))
    assert np.median(errors) < 0.05 and set(found.baselines) >= {"nearest known run, scaled"}


def test_rows_that_no_machine_can_do_are_warned_of_left_out_and_counted() -> None:
    """Half a per cent below the bound is a timer's; half of it is no measurement."""
    measured = np.array([2.0, 0.5, 0.995, 3.0])
    one = Scored(
        "case", "held", measured, np.array([2.2, 9.0, 0.995, 3.0]), half=np.full(4, 0.2), groups=["a", "b", "c", "d"],
        baselines={"double": 2 * measured}, least=np.ones(4), reason="as it was",
    )  # fmt: skip
    with pytest.warns(UserWarning, match="1 rows faster than the machine can be"):
        kept = one.possible()
    rows = list(kept.rows("d"))
    assert [row.n for row in rows] == [3, 3] and rows[0].ours == pytest.approx(0.0)
    assert rows[0].baselines["double"] == pytest.approx(100.0) and rows[0].interval_coverage == 1.0
    assert kept.groups == ["a", "c", "d"] and kept.reason.startswith("as it was; 1 rows faster")
    assert replace(one, least=None).possible().reason == "as it was"
    assert len(replace(one, groups="all", half=0.2, least=np.full(4, 0.4)).possible().measured) == 4
