"""Measured steps of a training run: a CSV of one's own, a trainer's log, or one time in words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.common.errors import InputError, Problems, errors_at
from slipstick.common.readers import number_of, read_csv_rows, unknown_columns, unknown_name, whole_of
from slipstick.estimators.training.layout_step_time import PRECISIONS
from slipstick.estimators.training.own_steps import UpdatedStep
from slipstick.experiments.calibrate.measured_argument import KnownTime, known_time
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
LAYOUT = ("tp", "pp", "cp", "ep", "vpp", "zero", "recompute")
"""Columns that no other table has: they are read, or what is wrong beside them is said."""
DEGREES = ("tensor", "pipeline", "context", "expert", "chunks", "micro")
COLUMNS = ("devices", "step_s", "log", "batch", "sequence", "precision", *DEGREES, "shard", "recompute")
COUNTS = ("devices", "batch", "sequence", *DEGREES, "shard")
"""What a time in words may say beside itself."""
MOST_ROWS, MOST_DEVICES, LONGEST = 10_000, 10_000_000, 1e7
_RECOMPUTE: Mapping[str, Recompute] = {"none": "none", "selective": "selective", "full": "full"}


def holds_training(path: str | os.PathLike[str]) -> bool:
    """Whether the lines of a CSV are steps of training on so many devices, or in a layout of them."""
    columns = {name.lower() for name in look(path).columns}
    names = {NAMES.get(name, name) for name in columns}
    return bool(names & {"step_s", "log"} and ("devices" in names or columns & {*LAYOUT}))


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
    Raises InputError, which names the file, the lines and the columns of all that is wrong.
    """
    from slipstick.workloads.importers.mllog.trainer_logs import is_training_log, printed_instead  # scipy: if measured

    typed = known_time(str(path))
    where = str(path) if typed is None else f"--measured {typed.text}"
    rows, problems = list[_Row](), Problems(where)
    if typed is not None:
        rows = [_Row(where, _of_words(typed, where))]
    elif is_training_log(path):
        rows = [_of_log(path)]
    elif instead := printed_instead(path):
        raise InputError(f"{path}: holds no step{instead}")
    else:
        for index, (line, row) in enumerate(read_csv_rows(path, limit_rows=MOST_ROWS)):
            names = [NAMES.get(name.lower(), name.lower()) for name in row]
            if not index:
                if len({*names}) < len(row):
                    raise InputError(f"{path}: two columns say the same ({', '.join(row)})")
                problems += unknown_columns(names, COLUMNS)
                if "devices" not in names:
                    problems.append("no devices; want a column of it")
                    problems.refuse()
            cells = {name: text for name, text in zip(names, row.values(), strict=True) if text}
            rows.append(_Row(f"{path}: line {line}", cells, Path(path).parent))
    if not rows:
        raise InputError(f"{path}: has no rows; want devices and step_s, a measured size each")
    steps = [_step(row, problems, batch, sequence, precision) for row in rows]
    problems.refuse()
    return [step for step in steps if step is not None]


@dataclass(frozen=True)
class _Row:
    """One row: where it stands, its cells, the folder of a log that it names, and the log that it was read from."""

    where: str
    cells: Mapping[str, str]
    folder: Path = Path()
    read: TrainingLog | None = None


def _of_words(typed: KnownTime, where: str) -> dict[str, str]:
    """The cells of a time in words."""
    cells = {NAMES.get(name, name): str(number) for name, number in typed.numbers.items()}
    typed.only([one for one in (*NAMES, *COLUMNS) if NAMES.get(one, one) in COUNTS], "of a training step")
    if len(cells) < len(typed.numbers):
        raise InputError(f"{where}: two of its numbers say the same")
    if "devices" not in cells:
        raise InputError(f"{where}: on how many devices? Want {typed.text}@devices=64,tp=8,pp=2")
    return {"step_s": repr(typed.seconds), **cells}


def _of_log(path: str | os.PathLike[str]) -> _Row:
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
    return _Row(str(path), {"step_s": repr(log.step_seconds), **stated, **words}, read=log)


def _step(row: _Row, problems: Problems, batch: int, sequence: int, precision: str) -> UpdatedStep | None:
    """The measured step of a row; None where something is wrong, which is added to `problems`."""
    cells, where, before = row.cells, row.where, len(problems)
    numbers = dict[str, int]()
    for name in (one for one in COUNTS if one in cells):
        with problems:
            low, high = (0, 3) if name == "shard" else (1, MOST_DEVICES)
            numbers[name] = whole_of(cells[name], f"{where}: {name}", low, high)
    kind = cells.get("precision", precision)
    recompute = cells.get("recompute", "selective")
    for name, word, known in (("recompute", recompute, RECOMPUTE), ("precision", kind, PRECISIONS)):
        if word and word not in known:
            problems.append(f"{where}: {unknown_name(name, word, list(known))}")
    with problems, errors_at(where):
        log = row.read or ("log" in cells and _log(row)) or None
        if row.read is None and (log is None) == ("step_s" not in cells):
            raise InputError("want step_s or log, one of them")
        stated = number_of(cells["step_s"], "step_s", 1e-9, LONGEST) if log is None else log.step_seconds
    with problems, errors_at(where):
        if "devices" not in cells:
            raise InputError("devices is empty")
        degrees = {name: numbers.get(name, 1) for name in (*DEGREES, "shard")}
        ranks = degrees["tensor"] * degrees["pipeline"] * degrees["context"]
        if len(problems) > before:
            return None
        if numbers["devices"] % ranks:
            raise InputError(
                f"devices = {numbers['devices']}: want a multiple of tensor x pipeline x context ranks, {ranks}"
            )
        return UpdatedStep(
            TrainingLayout(data=numbers["devices"] // ranks, recompute=_RECOMPUTE[recompute], **degrees),
            numbers.get("batch", (log.batch if log else None) or batch),
            numbers.get("sequence", (log.sequence if log else None) or sequence),
            kind,
            stated,
        )
    return None


def _log(row: _Row) -> TrainingLog:
    """The log that the row names, beside the CSV."""
    name = row.cells["log"]
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"log {name[:60]!r}: want a file beside the CSV")
    from slipstick.workloads.importers.mllog.trainer_logs import read_training_log

    return read_training_log(row.folder / name)
