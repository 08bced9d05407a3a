"""The SpMV scoreboard: held out by matrix and by device, on made-up data with known answers."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.measure.labels import LabelledBlocks, shipped_labels
from experiments.validation import ginkgo, pagerank, spmv
from experiments.validation.data import data_folder
from workloads.kernels.blocks import BlockTable


def labelled(matrices: int = 9, each: int = 40) -> LabelledBlocks:
    random = np.random.default_rng(0)
    rows = matrices * each
    values = random.random((rows, 2)).astype(np.float32)
    table = BlockTable(("step.mean_log", "step.max_log"), values, np.arange(rows), rows)
    seconds = 1e-9 * np.exp(values.sum(axis=1))
    owner = np.repeat(np.arange(matrices), each)
    return LabelledBlocks(tuple("abcdefghi"), owner, table, np.zeros((rows, 249), np.float32), seconds, 1.02 * seconds)


def test_no_model_sees_the_matrices_it_is_asked_about() -> None:
    blocks = labelled()

    def spy(known: LabelledBlocks, asked: LabelledBlocks) -> np.ndarray:
        assert not set(known.matrix) & set(asked.matrix)
        return asked.label

    assert np.array_equal(spmv.held_out(blocks, spy), blocks.label)


def test_errors_and_noise_floor_by_hand() -> None:
    blocks = labelled()
    found = spmv.errors(blocks, 1.1 * blocks.label)
    assert found.scores == pytest.approx({"block": 0.1, "matrix": 0.1, "matrix max": 0.1})
    assert blocks.noise_floor == pytest.approx(0.02 / 2.02)
    assert replace(blocks, repeated=np.full(len(blocks.label), np.nan)).noise_floor is None


def test_the_log_linear_baseline_finds_a_log_linear_law() -> None:
    blocks = labelled()
    predicted = spmv.held_out(blocks, spmv.models("hot")["linear"])
    assert np.allclose(predicted, blocks.label, rtol=1e-4)


def test_shipped_labels_are_positive_and_their_matrices_come_out_again() -> None:
    labels = shipped_labels()
    assert len(labels.facts["matrices"]) >= 60
    made = list(labels.matrices(None, largest=110_000))
    assert made
    blocks = labels.blocks("hot", iter(made))
    assert np.all(blocks.label > 0.5e-9) and np.all(blocks.label < 5e-9)
    real = [fact for fact in labels.facts["matrices"].values() if fact["recipe"] is None]
    assert len(real) == 8
    if data_folder() is None:
        pytest.skip("the eight real matrices: no public measurements here (set SLIPSTICK_DATA)")
    assert sum(m.name.startswith("real_") for m in labels.matrices(data_folder(), largest=60_000)) == 1


def write_public(folder: Path, devices: dict[str, float]) -> None:
    (folder / "spmv").mkdir(parents=True)
    random = np.random.default_rng(0)
    statistics = ["rownnz_" + name for name in ginkgo.STATISTICS]
    shapes = {f"g/m{i}": (int(10 ** random.uniform(4, 6)), int(10 ** random.uniform(6, 7.5))) for i in range(60)}
    lines = [",".join(["matrix", "rows", "cols", "nnz", *statistics])]
    for name, (size, nonzeros) in shapes.items():
        mean = nonzeros / size
        lines.append(f"{name},{size},{size},{nonzeros},1,{mean},{mean},{mean},{mean},{mean},1,0,0")
    times = ["platform,matrix,format,time_s,storage_bytes,repetitions,raw_unit"]
    for device, bandwidth in devices.items():
        for name, (size, nonzeros) in shapes.items():
            seconds = 4e-6 + (12 * nonzeros + 20 * size) / bandwidth
            stored = nonzeros if device in ginkgo.COUNTS_NONZEROS else 12 * nonzeros + 4 * (size + 1)
            times.append(f"{device},{name},csr,{seconds},{stored},,s")
    for path, text in ((ginkgo.MATRICES, lines), (ginkgo.TIMES, times)):
        (folder / path).write_bytes(gzip.compress("\n".join(text).encode()))


def test_sealed_devices_are_scored_by_a_model_fitted_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_public(tmp_path / "known", {"V100_SXM2": 450e9, "titanV": 326e9, "K40m": 144e9})
    write_public(tmp_path / "sealed", {"P100_PCIE": 366e9, "Unheard_Of": 1e9})
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path / "known"))
    rows = spmv.rows(tmp_path / "sealed")
    by_case = {row.case: row for row in rows if row.case != "skipped"}
    assert {case.partition(",")[0] for case in by_case} == {"P100_PCIE"}
    assert by_case["P100_PCIE"].n == 60
    assert (by_case["P100_PCIE"].ours or 1.0) < 0.05  # half the peak, as all the others reach
    assert any("Unheard_Of" in row.dataset and "no such machine" in row.reason for row in rows)
    empty = spmv.rows(tmp_path)
    assert [row.case for row in empty] == ["skipped"]


def test_an_anchor_brings_the_scale_and_no_more_than_it_deserves(tmp_path: Path) -> None:
    """Devices at 0.25 and 1 of their roofline (log standard deviation 1.0): many anchors are believed, one in part."""
    random = np.random.default_rng(0)
    count = 200
    share = np.repeat([0.25, 1.0], count // 2) * np.exp(0.5 * random.standard_normal(count))
    roofline = np.full(count, 1e-4)
    names, truth = np.repeat(["a", "b"], count // 2), np.ones(count, dtype=bool)
    train = ginkgo.Products(names, truth, roofline / share, roofline, np.zeros((count, 1)))
    predicted, measured = np.full(64, 1e-4), np.full(64, 2e-4)
    assert ginkgo.anchored(predicted, measured, train) == pytest.approx(2.0, rel=0.02)
    assert 1.4 < ginkgo.anchored(predicted[:1], measured[:1], train) < 1.9
    assert ginkgo.anchored(predicted[:0], measured[:0], train) == 1.0


def test_stored_nonzeros_are_read_from_the_bytes_or_are_the_column(tmp_path: Path) -> None:
    write_public(tmp_path, {"V100_SXM2": 450e9, "K40m": 144e9})
    products, unknown = ginkgo.read_products(tmp_path / ginkgo.TIMES, tmp_path / ginkgo.MATRICES)
    assert not unknown
    for device in ("V100_SXM2", "K40m"):
        own = products.device == device
        call = ginkgo.CALL_SECONDS["s"]
        ratio = (products.seconds[own] - 4e-6) / (products.roofline[own] - call)
        assert own.sum() == 60
        assert np.allclose(ratio, ratio.mean(), rtol=1e-4)  # one bandwidth made all times: bytes must be right


def test_pagerank_rows_say_why_they_are_missing_or_carry_both_recipes() -> None:
    rows = pagerank.rows()
    assert rows
    for row in rows:
        assert row.case == "skipped" or len(row.baselines) == 3
