"""Measured steps of a training run: a CSV of one's own, a trainer's log, or one time in words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.common.errors import InputError, errors_at
from slipstick.common.readers import read_csv_rows, read_number, unknown_name, whole_of
from slipstick.estimators.training.layout_step_time import PRECISIONS
from slipstick.estimators.training.own_steps import UpdatedStep
from slipstick.experiments.calibrate.measured_argument import known_time
from slipstick.workloads.importers.formats.look import look
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
COUNTS = ("devices", "batch", "sequence", *DEGREES, "shard")
"""What a time in words may say beside itself."""
MOST_ROWS, MOST_DEVICES, LONGEST = 10_000, 10_000_000, 1e7
_RECOMPUTE: Mapping[str, Recompute] = {"none": "none", "selective": "selective", "full": "full"}


def holds_training(path: str | os.PathLike[str]) -> bool:
    """Whether the lines of a CSV are steps of training on so many devices."""
    names = {NAMES.get(name.lower(), name.lower()) for name in look(path).columns}
    return "devices" in names and bool(names & {"step_s", "log"})


def read_known(
    path: str | os.PathLike[str], batch: int = 0, sequence: int = 0, precision: str = ""
) -> list[UpdatedStep]:
    """Measured steps, one a row.

    `path`: a time and where it was measured ("3.2s@devices=64,tp=8,pp=2"); the log of Megatron-LM, whose arguments say
        the layout; or a CSV: `devices` and `step_s` (seconds), or `log`, a log of MLPerf training, Megatron-LM or the
        Hugging Face Trainer beside the CSV; where they differ from 1, tensor, pipeline, context, expert, chunks, micro,
        `shard` (ZeRO stage) and `recompute` (none, selective, full); batch, sequence and precision where they are not
        those given here or in the log.
    `batch`, `sequence`, `precision`: of rows that do not say them; 0 and "": those of the question
        (`training_known.filled`).
    Raises InputError, which names the file, the line and the column.
    """
    if (typed := known_time(str(path))) is not None:
        cells = {NAMES.get(name, name): str(number) for name, number in typed.numbers.items()}
        typed.only([one for one in (*NAMES, *COLUMNS) if NAMES.get(one, one) in COUNTS], "of a training step")
        if len(cells) < len(typed.numbers):
            raise InputError(f"--measured {typed.text}: two of its numbers say the same")
        if "devices" not in cells:
            raise InputError(f"--measured {typed.text}: on how many devices? Want {typed.text}@devices=64,tp=8,pp=2")
        cells = {"step_s": repr(typed.seconds), **cells}
        return [_step(_Row(f"--measured {typed.text}", 1, cells), batch, sequence, precision)]
    from slipstick.workloads.importers.mllog.trainer_logs import is_training_log, printed_instead  # scipy: if measured

    if is_training_log(path):
        return [_of_log(path, batch, sequence, precision)]
    if instead := printed_instead(path):
        raise InputError(f"{path}: holds no step{instead}")
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

    def __init__(
        self, path: str | os.PathLike[str], line: int, cells: Mapping[str, str], read: TrainingLog | None = None
    ) -> None:
        self.path, self.line, self.cells, self.read = path, line, cells, read

    def whole(self, name: str, default: int) -> int:
        """A whole number; the default where the cell is empty."""
        if name not in self.cells:
            return default
        return whole_of(self.cells[name], f"{self.path}: line {self.line}: {name}", 1, MOST_DEVICES)

    def log(self) -> TrainingLog | None:
        """The log that the row names, beside the CSV."""
        name = self.cells.get("log")
        if name is None:
            return None
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise InputError(f"{self.path}: line {self.line}: log {name[:60]!r}: want a file beside the CSV")
        from slipstick.workloads.importers.mllog.trainer_logs import read_training_log

        return read_training_log(Path(self.path).parent / name)


def _of_log(path: str | os.PathLike[str], batch: int, sequence: int, precision: str) -> UpdatedStep:
    """The step of a log that states its own layout, as Megatron-LM's does."""
    from slipstick.workloads.importers.mllog.trainer_logs import read_training_log

    log = read_training_log(path)
    if "devices" not in log.settings:
        wrote = log.program or log.benchmark or "the log"
        raise InputError(
            f"{path}: {wrote} does not say on how many devices and in which layout it ran: want a "
            f"CSV beside it with the columns log, devices, tp, pp (one row: {Path(path).name},64,8,2)"
        )
    stated = {name: f"{value:.0f}" for name, value in log.settings.items() if name in COLUMNS}
    words = {name: word for name, word in log.words.items() if name in COLUMNS}
    return _step(_Row(path, 1, {"step_s": repr(log.step_seconds), **stated, **words}, log), batch, sequence, precision)


def _step(row: _Row, batch: int, sequence: int, precision: str) -> UpdatedStep:
    log = row.log()
    if row.read is None and (log is None) == ("step_s" not in row.cells):
        raise InputError(f"{row.path}: line {row.line}: want step_s or log, one of them")
    devices = row.whole("devices", 0)
    if not devices:
        raise InputError(f"{row.path}: line {row.line}: no devices; want a column of it")
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
    if kind and kind not in PRECISIONS:
        raise unknown_name(f"precision in {row.path}, line {row.line}:", kind, list(PRECISIONS))
    stated = log or row.read
    seconds = (
        stated.step_seconds
        if stated is not None
        else read_number(row.cells["step_s"], row.path, row.line, "step_s", 1e-9, LONGEST)
    )
    with errors_at(f"{row.path}: line {row.line}"):
        layout = TrainingLayout(
            data=devices // ranks, shard=shard, recompute=_RECOMPUTE[recompute], **degrees
        )  # fmt: skip
        return UpdatedStep(
            layout,
            row.whole("batch", (stated.batch if stated else None) or batch),
            row.whole("sequence", (stated.sequence if stated else None) or sequence),
            kind,
            seconds,
        )
