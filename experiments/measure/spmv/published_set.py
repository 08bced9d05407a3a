"""The SpMV paper's own measurements, as its authors publish them (Zenodo 3956057): HDF5 files by frequency.

Layout, read from the authors' programs (hpca-uji/SpMV-CNN-Model: spmv_cnn_train.py, spmv_cnn_test.py,
merge_train_matrices.py):

    train/merged_energy_train_shuffle_f2400000_250.h5   MB (blocks, 250) columns; B, E, EPKG, EDRAM (blocks,)
    test/f_2400000_b250/output_NAME_2400000.h5          MB (non-zeros,) columns; B_250, E_250, EPKG_250, EDRAM_250

B is time, E total energy, EPKG and EDRAM those of package and memory, all of one block in the units of the files:
errors are relative, so the unit never enters. Needs the extra [hdf5] (h5py).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.workloads.kernels.blocks import BLOCK

METRIC_KEYS = {"time": "B", "total energy": "E", "package energy": "EPKG", "DRAM energy": "EDRAM"}
MOST_VALUES = 2_000_000_000
Inputs = npt.NDArray[np.float32]
Labels = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PublishedSet:
    """The folder with `train` and `test` (the authors' `dataset`), at one frequency.

    `clock`: in kHz, as in the names of the files: 1200000, 1600000, 2000000 or 2400000.
    """

    folder: Path
    clock: int = 2_400_000

    def training(self, metric: str = "time") -> tuple[Inputs, Labels]:
        """Inputs (blocks, 249) and labels (blocks,) of all training matrices, shuffled by the authors.

        Raises InputError where the file or a part of it is missing, or h5py is not installed.
        """
        path = self.folder / "train" / f"merged_energy_train_shuffle_f{self.clock}_{BLOCK}.h5"
        columns, labels = _arrays(path, _key(metric))
        if columns.ndim != 2 or columns.shape != (len(labels), BLOCK):
            raise InputError(f"{path}: MB of shape {columns.shape}: want (blocks, {BLOCK}), one label each")
        return _inputs(columns), labels

    def tests(self, metric: str = "time") -> dict[str, tuple[Inputs, Labels]]:
        """The same of every test matrix, by its name.

        Raises InputError as `training`.
        """
        folder = self.folder / "test" / f"f_{self.clock}_b{BLOCK}"
        paths = sorted(folder.glob("*.h5"))
        if not paths:
            raise InputError(f"{folder}: no .h5 of a test matrix")
        result = {}
        for path in paths:
            columns, labels = _arrays(path, f"{_key(metric)}_{BLOCK}")
            blocks = columns.size // BLOCK
            if len(labels) < blocks or not blocks:
                raise InputError(f"{path}: {len(labels)} labels for {blocks} blocks")
            name = path.stem.removeprefix("output_").removesuffix(f"_{self.clock}")
            result[name] = _inputs(columns.ravel()[: blocks * BLOCK].reshape(blocks, BLOCK)), labels[:blocks]
        return result


def _key(metric: str) -> str:
    if metric not in METRIC_KEYS:
        raise unknown_name("metric of the published set", metric, list(METRIC_KEYS))
    return METRIC_KEYS[metric]


def _inputs(columns: npt.NDArray[np.int64]) -> Inputs:
    """log(|diff(vpos)| + 1), Section 4.1."""
    return np.log1p(np.abs(np.diff(columns, axis=1))).astype(np.float32)


def _arrays(path: Path, key: str) -> tuple[npt.NDArray[np.int64], Labels]:
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        text = "the published set is in HDF5, which needs h5py"
        raise InputError(f"{text}: pip install 'slipstick[hdf5]', or pip install h5py") from None
    if not path.is_file():
        raise InputError(f"{path}: no such file of the published set")
    try:
        with h5py.File(path, "r") as file:
            missing = [name for name in ("MB", key) if name not in file]
            if missing:
                raise InputError(f"{path}: without {', '.join(missing)}; it has {', '.join(sorted(file))}")
            if file["MB"].size > MOST_VALUES:
                raise InputError(f"{path}: {file['MB'].size} columns, want at most {MOST_VALUES}")
            columns, labels = np.asarray(file["MB"][()], dtype=np.int64), np.asarray(file[key][()], dtype=np.float64)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: no HDF5 file of the published set ({error})") from None
    if not (np.isfinite(labels).all() and (labels > 0).all()):
        raise InputError(f"{path}: {key} must be finite numbers > 0")
    return columns, labels.ravel()
