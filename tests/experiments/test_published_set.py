"""The layout in which the SpMV paper's authors publish their measurements is trained on and scored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.spmv.published_set import PublishedSet


def made(folder: Path) -> Path:
    """A set of the published layout: the label is 2 + the mean logarithm of the steps."""
    h5py = pytest.importorskip("h5py", reason="the published set is in HDF5: h5py is not installed")
    random = np.random.default_rng(0)
    blocks = np.cumsum(random.integers(1, 50, (200, 1)) * np.ones((1, 250), dtype=int), axis=1)
    labels = 2 + np.log1p(np.abs(np.diff(blocks, axis=1))).mean(axis=1)
    (folder / "train").mkdir(parents=True)
    (folder / "test" / "f_2400000_b250").mkdir(parents=True)
    with h5py.File(folder / "train" / "merged_energy_train_shuffle_f2400000_250.h5", "w") as file:
        file["MB"], file["B"], file["E"] = blocks, labels, labels * 10
    with h5py.File(folder / "test" / "f_2400000_b250" / "output_audikw_1_2400000.h5", "w") as file:
        file["MB"], file["B_250"] = np.append(blocks[:20].ravel(), [1, 2, 3]), labels[:21]
    return folder


def test_the_published_layout_is_read_as_the_authors_do(tmp_path: Path) -> None:
    known = PublishedSet(made(tmp_path))
    inputs, labels = known.training()
    assert inputs.shape == (200, 249) and labels == pytest.approx(2 + inputs.mean(axis=1), rel=1e-5)
    assert known.training("total energy")[1] == pytest.approx(labels * 10)
    ((name, (test, times)),) = known.tests().items()
    # three non-zeros beyond the last whole block are dropped, as in spmv_cnn_test.py
    assert name == "audikw_1" and test.shape == (20, 249) and len(times) == 20
    with pytest.raises(InputError, match="without EPKG"):
        known.training("package energy")
    with pytest.raises(InputError, match="no such file"):
        PublishedSet(tmp_path, 1_200_000).training()


def test_train_and_validate_take_the_published_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="the extra [torch] is not installed")
    data, net = str(made(tmp_path / "set")), str(tmp_path / "net.npz")
    assert run(["spmv", "train", net, "--data", data, "--epochs", "2", "--format", "json"]) == 0
    capsys.readouterr()
    assert run(["spmv", "validate", net, "--data", data, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["matrix"] for row in rows] == ["audikw_1", "mean"] and 0 < rows[-1]["block_error"] < 1
    assert run(["spmv", "validate", net, "--data", data, "--metric", "total energy"]) == 2
    assert "a network of time, asked for total energy" in capsys.readouterr().err


def test_without_the_files_or_the_package_the_reason_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="slipstick\\[hdf5\\]|no such file"):
        PublishedSet(tmp_path).training()
    with pytest.raises(InputError, match=r"no \.h5 of a test matrix"):
        PublishedSet(tmp_path).tests()
