"""Sweeps say what a point needs of the memory, recommend none that does not fit, and have the band of `estimate`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import slipstick as ss
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.memory_need import able
from slipstick.experiments.studies.size_columns import MOST_VALUES
from slipstick.experiments.studies.whatif import whatif

BATCHES = (64.0, 512.0, 1024.0)


def one(batch: float) -> ss.Question:
    return ss.question("resnet50", "RTX 3090", settings={"workload.batch": batch}, dtype="float16")


def test_each_point_has_the_memory_and_the_band_that_estimate_gives_there() -> None:
    table = whatif("resnet50", "RTX 3090", {"workload.batch": BATCHES}, dtype="float16").frame
    for batch, row in zip(BATCHES, table.itertuples(), strict=True):
        point = one(batch)
        answer = point.answer()
        need = facts(point, answer).memory
        assert need is not None
        assert row.memory_B == pytest.approx(need.needed) and row.fit == need.verdict
        assert (row.low_s, row.high_s) == pytest.approx(answer.interval(), rel=1e-9)
    assert list(table.fit) == ["fits", "may not fit", "DOES NOT FIT"]


def test_memory_between_the_sizes_that_are_counted_lies_on_a_line() -> None:
    batches = np.arange(1.0, 3.0 * MOST_VALUES)
    table = whatif("resnet18-inference", "h100-sxm", {"workload.batch": batches}).frame
    assert np.diff(table.memory_B).min() > 0
    assert np.ptp(np.diff(table.memory_B)) < 0.01 * np.diff(table.memory_B).mean()


def test_a_capacity_that_varies_decides_what_fits() -> None:
    capacities = {"machine.memory.GDDR6X.capacity": ["2 GB", "24 GB"]}
    table = whatif("resnet50", "RTX 3090", capacities, dtype="float16").frame
    assert list(table.fit) == ["DOES NOT FIT", "fits"]
    assert table.memory_B.nunique() == 1


def test_a_clock_alone_changes_no_memory() -> None:
    table = whatif("resnet18-inference", "h100-sxm", {"machine.clock": ["1 GHz", "1.2 GHz"]}).frame
    assert "memory_B" not in table


def test_what_does_not_fit_is_neither_recommended_nor_on_a_front() -> None:
    words = np.array(["DOES NOT FIT", "may not fit", "fits"])
    assert able(words).tolist() == [False, False, True]
    assert able(words[:2]).tolist() == [False, True]
    assert able(words[:1]).tolist() == [False]
    points = pd.DataFrame({"time_s": [1.0, 2.0], "energy_J": [1.0, 2.0], "fit": ["DOES NOT FIT", "fits"]})
    assert ss.analysis.with_front(points, ["time", "energy"])[0]["front"].tolist() == [False, True]
