"""A row of a what-if is the answer of the single question with the same change: its time and both ends of its band."""

from __future__ import annotations

import math

import numpy as np
import pytest

import slipstick as ss
from slipstick.experiments.studies import sweep
from slipstick.experiments.studies.size_columns import MOST_POINTS

MACHINES = ("rx-6900-xt", "h100-sxm", "t4", "mi300x", "xeon-phi-7120p", "tpu-v5e")
WORKS = ("gpt2", "resnet50-inference", "gemm", "gnmt", "decode:llama-3.1-8b")
CHANGES = (("clock", 0.8), ("clock", 1.15), ("cores", 0.5), ("memory", 0.6), ("power.cap", 0.7), ("batch", 4.0))
CASES = [(machine, work, *change) for machine in MACHINES for work in WORKS for change in CHANGES]
ORDER = np.random.default_rng(3).permutation(len(CASES))
"""Machines, workloads and changes in an order drawn once: the first of them are asked in every run."""


def changed(machine: ss.Machine, field: str, factor: float) -> tuple[str, float]:
    """The name that changes, and its value."""
    if field == "batch":
        return "workload.batch", factor
    path = f"memory.{machine.main_memory}.bandwidth" if field == "memory" else field
    today = machine.get(path)
    return f"machine.{path}", math.nan if today is None else type(today)(today * factor)


@pytest.mark.parametrize(
    ("name", "work", "field", "factor"),
    [pytest.param(*CASES[at], marks=() if place < 10 else pytest.mark.slow) for place, at in enumerate(ORDER[:70])],
)
def test_a_row_has_the_band_of_the_single_question(name: str, work: str, field: str, factor: float) -> None:
    path, value = changed(ss.machine(name), field, factor)
    try:
        alone = ss.question(work, name, settings={path: value}).answer()
    except ss.InputError:
        with pytest.raises(ss.InputError):
            ss.whatif(work, name, {path: [value]})
        return
    (row,) = ss.whatif(work, name, {path: [value]}).rows()
    band = alone.interval()
    assert band is not None
    assert [row["time_s"], row["low_s"], row["high_s"]] == pytest.approx([alone.time, *band], rel=1e-9)


@pytest.mark.parametrize(("path", "value"), [("machine.clock", 7e8), ("workload.batch", 512)])
def test_what_was_fitted_counts_once(path: str, value: float) -> None:
    """A calibration has fitted parameters, whose draws are a part of the band, and a scatter constant in seconds."""
    alone = ss.question("data-parallel-mlp", "tpu-v2-8", settings={path: value}).answer()
    (row,) = ss.whatif("data-parallel-mlp", "tpu-v2-8", {path: [value]}).rows()
    assert (row["low_s"], row["high_s"]) == pytest.approx(alone.interval(), rel=1e-3)  # 400 draws


def test_rows_of_several_names_have_their_own_bands_as_far_as_a_note_says() -> None:
    """Twenty points of clock and cores were as wide as today's: half the cores of a T4 made a row 34 % too narrow."""
    t4 = ss.machine("t4")
    cores = [t4.cores // 2, t4.cores, t4.cores * 2]
    table = ss.whatif(
        "gpt2", "t4", {"machine.clock": [1e9, 1.2e9, 1.3e9, 1.4e9, 1.59e9, 1.7e9], "machine.cores": cores}
    )
    row = table.rows()[0]
    alone = ss.question("gpt2", "t4", settings={"machine.clock": 1e9, "machine.cores": cores[0]}).answer()
    assert (row["low_s"], row["high_s"]) == pytest.approx(alone.interval(), rel=1e-9)
    assert not any("as wide as today's" in note for note in table.notes)
    clocks = np.linspace(1e9, 1.5e9, MOST_POINTS // len(cores) + 1)
    many = ss.whatif("gpt2", "t4", {"machine.clock": clocks, "machine.cores": cores})
    assert any("as wide as today's" in note for note in many.notes)


def test_of_too_many_points_of_sizes_and_a_machine_those_of_the_sizes_are_taken() -> None:
    """Eight batches and nine clocks took today's band, of batch 32: 12 to 19 ms where batch 1 is known to 8 to 29."""
    batches = [1, 2, 4, 8, 16, 32, 64, 128]
    clocks = np.linspace(1e9, 1.8e9, MOST_POINTS // len(batches) + 1)
    table = ss.whatif("bert-base", "h100-sxm", {"workload.batch": batches, "machine.clock": clocks})
    alone = ss.whatif("bert-base", "h100-sxm", {"workload.batch": batches})
    widths = [math.log(row["high_s"] / row["low_s"]) for row in table.rows()[:: len(clocks)]]
    assert widths == pytest.approx([math.log(row["high_s"] / row["low_s"]) for row in alone.rows()], rel=1e-6)
    assert any("same workload.batch: workload.batch and machine.clock have more" in note for note in table.notes)
    assert not any("as wide as" in note for note in alone.notes)


def test_a_band_is_that_of_the_whole_table_wherever_a_chunk_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = np.linspace(1e9, 1.59e9, 20)
    whole = ss.whatif("gpt2", "t4", {"machine.clock": clocks}).rows()
    monkeypatch.setattr(sweep, "CHUNK_POINTS", 7)
    assert ss.whatif("gpt2", "t4", {"machine.clock": clocks}).rows() == whole
