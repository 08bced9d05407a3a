"""Measured steps of a run at a few device counts, from a CSV of one's own; times may come from MLPerf logs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.estimators.schedule.pipelines.training_known import KnownStep
from slipstick.estimators.schedule.pipelines.training_step import PRECISIONS
from slipstick.hwmodels.files.readers import InputError, read_csv_rows, read_number, unknown_name
from slipstick.workloads.language.training_layout import RECOMPUTE, Recompute, TrainingLayout

if TYPE_CHECKING:
    from slipstick.workloads.importers.mllog.training_log import TrainingLog

NAMES = {
    "tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert", "vpp": "chunks", "virtual_pipeline": "chunks",
    "micro_batch_size": "micro", "zero": "shard", "gpus": "devices", "accelerators": "devices",
    "global_batch_size": "batch", "sequence_length": "sequence", "seconds": "step_s", "time_s": "step_s",
    "tensor_parallel": "tensor", "pipeline_parallel": "pipeline", "context_parallel": "context",
    "expert_parallel": "expert",
}  # fmt: skip
"""Other spellings of the columns."""
DEGREES = ("tensor", "pipeline", "context", "expert", "chunks", "micro")
COLUMNS = ("devices", "step_s", "log", "batch", "sequence", "precision", *DEGREES, "shard", "recompute")
MOST_ROWS, MOST_DEVICES, LONGEST = 10_000, 10_000_000, 1e7
_RECOMPUTE: Mapping[str, Recompute] = {"none": "none", "selective": "selective", "full": "full"}


def read_known(
    path: str | os.PathLike[str], batch: int = 0, sequence: int = 0, precision: str = "bf16"
) -> list[KnownStep]:
    """Measured steps, one a row.

    Parameters
    ----------
    path
        A CSV: `devices` and `step_s` (seconds), or `log`, a log of MLPerf training beside the CSV; where they differ
        from 1, tensor, pipeline, context, expert, chunks, micro, `shard` (ZeRO stage) and `recompute` (none, selective,
        full); batch, sequence and precision where they are not those given here or in the log.
    batch, sequence, precision
        Of rows that do not say them; 0: every row, or its log, must.

    Raises
    ------
    InputError
        Names the file, the line and the column.
    """
    runs = []
    for line, row in read_csv_rows(path, limit_rows=MOST_ROWS):
        cells = {NAMES.get(name.lower(), name.lower()): text for name, text in row.items() if text}
        for name in cells:
            if name not in COLUMNS:
                raise unknown_name(f"column of {path}", name, COLUMNS)
        if len({NAMES.get(name.lower(), name.lower()) for name in row}) < len(row):
            raise InputError(f"{path}: two columns say the same ({', '.join(row)})")
        runs.append(_step(_Row(path, line, cells), batch, sequence, precision))
    if not runs:
        raise InputError(f"{path}: has no rows; want devices and step_s, a measured size each")
    return runs


class _Row:
    """One row, each cell checked as it is read."""

    def __init__(self, path: str | os.PathLike[str], line: int, cells: Mapping[str, str]) -> None:
        self.path, self.line, self.cells = path, line, cells

    def whole(self, name: str, default: int) -> int:
        """A whole number; the default where the cell is empty."""
        if name not in self.cells:
            if default < 1:
                raise InputError(f"{self.path}: line {self.line}: no {name}; want a column of it, or the option")
            return default
        value = read_number(self.cells[name], self.path, self.line, name, 1, MOST_DEVICES)
        if value != int(value):
            raise InputError(f"{self.path}: line {self.line}: {name} = {value:g}: want a whole number")
        return int(value)

    def log(self) -> TrainingLog | None:
        """The log that the row names, beside the CSV."""
        name = self.cells.get("log")
        if name is None:
            return None
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise InputError(f"{self.path}: line {self.line}: log {name[:60]!r}: want a file beside the CSV")
        from slipstick.workloads.importers.mllog.mllog_reader import read_mllog  # scipy: where a row names a log

        return read_mllog(Path(self.path).parent / name)


def _step(row: _Row, batch: int, sequence: int, precision: str) -> KnownStep:
    log = row.log()
    if (log is None) == ("step_s" not in row.cells):
        raise InputError(f"{row.path}: line {row.line}: want step_s or log, one of them")
    devices = row.whole("devices", 0)
    degrees = {name: row.whole(name, 1) for name in DEGREES}
    ranks = degrees["tensor"] * degrees["pipeline"] * degrees["context"]
    if devices % ranks:
        raise InputError(
            f"{row.path}: line {row.line}: devices = {devices}: want a multiple of tensor x pipeline x context ranks, "
            f"{ranks}"
        )
    shard = int(read_number(row.cells.get("shard", "1"), row.path, row.line, "shard", 0, 3))
    recompute = row.cells.get("recompute", "selective")
    if recompute not in _RECOMPUTE:
        raise unknown_name(f"recompute in {row.path}, line {row.line}:", recompute, RECOMPUTE)
    kind = row.cells.get("precision", precision)
    if kind not in PRECISIONS:
        raise unknown_name(f"precision in {row.path}, line {row.line}:", kind, list(PRECISIONS))
    seconds = (
        log.step_seconds
        if log is not None
        else read_number(row.cells["step_s"], row.path, row.line, "step_s", 1e-9, LONGEST)
    )
    try:
        layout = TrainingLayout(
            data=devices // ranks, shard=shard, recompute=_RECOMPUTE[recompute], **degrees
        )  # fmt: skip
        return KnownStep(
            layout,
            row.whole("batch", (log.batch if log else None) or batch),
            row.whole("sequence", (log.sequence if log else None) or sequence),
            kind,
            seconds,
        )
    except InputError as error:
        text = str(error)
        raise error if text.startswith(str(row.path)) else InputError(f"{row.path}: line {row.line}: {text}") from None
