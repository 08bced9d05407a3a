"""What `slipstick measure spmv --out FOLDER` leaves, one .npz a matrix, as labels to train on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.arrays import read_arrays, text_fields
from slipstick.common.errors import InputError
from slipstick.common.writer import atomic_write
from slipstick.estimators.sparse.reuse_model import CacheSizes
from slipstick.experiments.measure.spmv.block_times import BlockTimes
from slipstick.experiments.measure.spmv.labels import SCHEMA, Labels
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.blocks import BLOCK
from slipstick.workloads.kernels.sparse import SparseMatrix

if TYPE_CHECKING:
    import pandas as pd

FILE_BYTES = 200_000_000


def save_times(times: BlockTimes, matrix: SparseMatrix, file: Path, host: Machine, path: Path) -> None:
    """One .npz of plain arrays, whole or not at all: the times, the matrix's file, and the core they were taken on."""
    streaming = np.zeros(0) if times.streaming is None else times.streaming
    caches = CacheSizes.of(host)
    facts = {
        "matrix": times.matrix,
        "file": str(file.resolve()),
        "digest": matrix.digest,
        "nonzeros": matrix.nonzeros,
        "machine": host.name,
        "caches_bytes": {"L2": caches.L2, "L3": caches.L3},
        "clock_hz": host.clock,
        "date": date.today().isoformat(),
        "conditions": times.facts,
    }
    arrays = {"streaming": streaming, "hot_index": times.hot_index, "hot": times.hot}
    with atomic_write(path, "wb") as stream:
        np.savez_compressed(stream, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type, unused-ignore]


@dataclass(frozen=True)
class FolderLabels(Labels):
    """The files of a folder (`path`); their matrices are read again from where they were measured."""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """As in `Labels`; all files must be of one machine.

        Raises InputError where files are of different machines.
        """
        each = [facts for facts, _ in self._files]
        for name in ("machine", "caches_bytes", "clock_hz"):
            if any(facts[name] != each[0][name] for facts in each):
                raise InputError(f"{self.path}: labels of different machines ({name}): one folder each")
        matrices = {str(one["matrix"]): {**one, "recipe": None} for one in each}
        return {"schema": SCHEMA, **each[0], "block": BLOCK, "matrices": matrices}

    @cached_property
    def frame(self) -> pd.DataFrame:
        """As in `Labels`; measured once, so no repeats."""
        import pandas as pd

        parts = []
        for facts, arrays in self._files:
            count = max(int(facts["nonzeros"]) // BLOCK, 1)
            hot, streaming = np.full(count, np.nan), np.full(count, np.nan)
            hot[arrays["hot_index"]] = arrays["hot"]
            if arrays["streaming"].size:
                streaming[:] = arrays["streaming"]
            columns = {"matrix": facts["matrix"], "block": np.arange(count), "hot_ns": hot * 1e9}
            columns |= {"streaming_ns": streaming * 1e9, "hot_repeat_ns": np.nan, "streaming_repeat_ns": np.nan}
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def _files(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        paths = sorted(self.path.glob("*.npz"))
        if not paths:
            raise InputError(f"{self.path}: no .npz of slipstick measure spmv --out")
        return [_read(path) for path in paths]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays = read_arrays(path, FILE_BYTES, "labels of slipstick measure spmv")
    facts = dict(text_fields(arrays, "facts", path))
    needed = ("matrix", "file", "digest", "nonzeros", "machine", "caches_bytes", "clock_hz", "date")
    missing = [name for name in needed if name not in facts]
    missing += [name for name in ("streaming", "hot_index", "hot") if name not in arrays]
    if missing:
        raise InputError(f"{path}: labels without {', '.join(missing)}: measure again")
    return facts, arrays
