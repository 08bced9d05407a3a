"""The SpMV scoreboard: held out by matrix and by device, on made-up data with known answers."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstick.estimators.sparse.spmv_devices import shipped_devices
from slipstick.experiments.calibrate.public_data import data_folder, training_file
from slipstick.experiments.measure.spmv.labels import LabelledBlocks, shipped_labels
from slipstick.experiments.methods.spmv.kernel_fits import errors, held_out
from slipstick.experiments.scoreboards.spmv import ginkgo, spmv_board
from slipstick.experiments.scoreboards.spmv import pagerank_scores as pagerank
from slipstick.experiments.scoreboards.spmv.ginkgo import MATRICES, STATISTICS, TIMES, read_products
from slipstick.workloads.kernels.blocks import BlockTable, block_features, network_input
from slipstick.workloads.kernels.generators import from_recipe


def labelled(matrices: int = 9, each: int = 40) -> LabelledBlocks:
    random = np.random.default_rng(0)
    rows = matrices * each
    inputs = random.random((rows, 249)).astype(np.float32)
    table = BlockTable(("lines",), inputs[:, :1], np.arange(rows), rows)
    seconds = 1e-9 * np.exp(inputs.mean(axis=1) + inputs.max(axis=1))
    owner = np.repeat(np.arange(matrices), each)
    return LabelledBlocks(tuple("abcdefghi"), owner, table, inputs, seconds, 1.02 * seconds)


def test_no_model_sees_the_matrices_it_is_asked_about() -> None:
    blocks = labelled()

    def spy(known: LabelledBlocks, asked: LabelledBlocks) -> np.ndarray:
        assert not set(known.matrix) & set(asked.matrix)
        return asked.label

    assert np.array_equal(held_out(blocks, spy), blocks.label)
    seen = []

    def family(known: LabelledBlocks, target: LabelledBlocks) -> np.ndarray:
        seen.append(set(target.matrix))
        return spy(known, target)

    assert np.array_equal(held_out(blocks, family, ["x"] * 4 + ["y"] * 5), blocks.label)
    assert seen == [set(range(4)), set(range(4, 9))]


def test_errors_and_noise_floor_by_hand() -> None:
    blocks = labelled()
    found = errors(blocks, 1.1 * blocks.label)
    assert found.scores == pytest.approx({"block": 0.1, "matrix": 0.1, "matrix max": 0.1})
    assert blocks.noise_floor(whole=True) == pytest.approx(0.02 / 2.02)
    assert blocks.noise_floor() == pytest.approx(0.02 / 2.02)
    assert replace(blocks, repeated=np.full(len(blocks.label), np.nan)).noise_floor() is None


def test_the_log_linear_baseline_finds_a_log_linear_law() -> None:
    blocks = labelled()
    predicted = held_out(blocks, spmv_board.linear)
    assert np.allclose(predicted, blocks.label, rtol=1e-4)


def test_shipped_labels_are_positive_and_their_matrices_come_out_again() -> None:
    labels = shipped_labels()
    assert len(labels.facts["matrices"]) >= 60
    blocks = labels.blocks("hot", None, largest=110_000)
    assert len(blocks.names) >= 4
    assert np.all(blocks.label > 0.5e-9) and np.all(blocks.label < 5e-9)
    real = [fact for fact in labels.facts["matrices"].values() if fact["recipe"] is None]
    assert len(real) == 8
    if data_folder() is None:
        pytest.skip("the eight real matrices: no public measurements here (set SLIPSTICK_DATA)")
    assert sum(m.name.startswith("real_") for m in labels.matrices(data_folder(), largest=60_000)) == 1


def test_stored_blocks_are_those_of_the_matrices_that_were_measured() -> None:
    """Grids are not drawn, so theirs can be made again anywhere; distances are kept within 4 %."""
    labels = shipped_labels()
    stored = labels.stored()
    facts = {name: fact for name, fact in labels.facts["matrices"].items() if fact["recipe"] is not None}
    assert set(stored) == set(facts)
    grids = [n for n, f in facts.items() if f["recipe"]["generator"] == "stencil" and "permute_seed" not in f["recipe"]]
    name = min(grids, key=lambda one: facts[one]["nonzeros"])
    matrix, (table, inputs) = from_recipe(name, facts[name]["recipe"]), stored[name]
    assert matrix.digest == facts[name]["digest"]
    assert np.allclose(table.values, block_features(matrix).values[table.index], rtol=1e-6)
    assert np.abs(inputs - network_input(matrix)[table.index]).max() < 0.04


MEDIANS = ("median", "90th percentile")


def write_public(folder: Path, devices: dict[str, float]) -> None:
    """Devices that reach the same share of their peak: 4 us a call, then bytes over this bandwidth."""
    (folder / "spmv").mkdir(parents=True)
    random = np.random.default_rng(0)
    shapes = {f"g/m{i}": (int(10 ** random.uniform(4, 6)), int(10 ** random.uniform(6, 7.5))) for i in range(60)}
    lines = [",".join(["matrix", *STATISTICS])]
    for name, (size, nonzeros) in shapes.items():
        mean = nonzeros / size
        lines.append(f"{name},{size},{size},{nonzeros},{mean},{mean},0")
    times = ["platform,matrix,format,time_s,storage_bytes,repetitions,raw_unit"]
    for device, bandwidth in devices.items():
        for name, (size, nonzeros) in shapes.items():
            seconds = 4e-6 + (12 * nonzeros + 20 * size) / bandwidth
            stored = nonzeros if device in ("K40m", "titanV") else 12 * nonzeros + 4 * (size + 1)
            times.append(f"{device},{name},csr,{seconds},{stored},,s")
    for path, text in ((MATRICES, lines), (TIMES, times)):
        (folder / path).write_bytes(gzip.compress("\n".join(text).encode()))


def test_sealed_devices_are_scored_by_a_model_fitted_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_public(tmp_path / "known", {"V100_SXM2": 450e9, "titanV": 326e9, "K40m": 144e9})
    write_public(tmp_path / "sealed", {"P100_PCIE": 366e9, "Unheard_Of": 1e9})
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path / "known"))
    rows = spmv_board.BOARD.rows(tmp_path / "sealed")
    by_case = {row.case: row for row in rows if row.case != "skipped"}
    assert {case.partition(",")[0] for case in by_case} == {"P100_PCIE", "accelerators"}
    assert {case for case in by_case if case.startswith("accel")} == {f"accelerators, csr, {m}" for m in MEDIANS}
    assert by_case["P100_PCIE"].n == 60
    assert (by_case["P100_PCIE"].ours or 1.0) < 0.05  # half the peak, as all the others reach
    assert any("Unheard_Of" in row.dataset and "no such machine" in row.reason for row in rows)
    empty = spmv_board.BOARD.rows(tmp_path)
    assert empty and {row.case for row in empty} == {"skipped"}


def test_a_device_under_another_name_is_still_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`V100` and `V100_SXM2` are one machine: at an odd speed it is not told by itself."""
    write_public(tmp_path / "known", {"V100_SXM2": 90e9, "titanV": 326e9})
    write_public(tmp_path / "sealed", {"V100": 90e9})
    monkeypatch.setenv("SLIPSTICK_DATA", str(tmp_path / "known"))
    (scored,) = [row for row in spmv_board.BOARD.rows(tmp_path / "sealed") if row.case == "V100"]
    assert (scored.ours or 0.0) > 0.5


def test_stored_nonzeros_are_read_from_the_bytes_or_are_the_column(tmp_path: Path) -> None:
    write_public(tmp_path, {"V100_SXM2": 450e9, "K40m": 144e9})
    products, unknown = read_products(tmp_path / TIMES, tmp_path / MATRICES)
    assert not unknown
    for own in products.values():
        ratio = (own.seconds - 4e-6) / (own.roofline - own.call)
        assert len(ratio) == 60
        assert np.allclose(ratio, ratio.mean(), rtol=1e-4)  # one bandwidth made all times: bytes must be right


@pytest.mark.parametrize("stored", [pytest.param("csr", marks=pytest.mark.slow), "sellp"])
def test_the_devices_that_ship_are_those_of_the_public_data(stored: str) -> None:
    if training_file(TIMES) is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    made, shipped = ginkgo.fit_public(stored), shipped_devices(stored)
    assert dict(made.doubts) == dict(shipped.doubts)
    for one, other in zip(made.model.devices, shipped.model.devices, strict=True):
        assert one.machine == other.machine
        assert dict(one.cost) == pytest.approx(dict(other.cost), rel=1e-6, abs=1e-9)
    assert made.machine_spread == pytest.approx(shipped.machine_spread)


def test_pagerank_rows_say_why_they_are_missing_or_carry_both_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(pagerank.MEASURED.read_text())
    document["graphs"] = {name: document["graphs"][name] for name in ("rmat_4k", "Wiki-Vote")}
    (tmp_path / "two.json").write_text(json.dumps(document))
    monkeypatch.setattr(pagerank, "MEASURED", tmp_path / "two.json")
    rows = pagerank.rows()
    assert rows
    for row in rows:
        assert row.case == "skipped" or len(row.baselines) == 3
