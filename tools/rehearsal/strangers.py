"""Given folders as strangers and attackers leave them: other dress, spoilt rows, unknown names, broken tables."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.rehearsal.folders import Row, files, read_rows, write_bytes, write_rows
from tools.rehearsal.tables import Table, Take

DEVICE = "Frobnicator 9000"
"""A device that no catalogue has."""
WORDS = (
    "model",
    "model_key",
    "engine",
    "engine_version",
    "system",
    "precision",
    "dtype",
    "quantisation",
    "format",
    "mode",
)
"""Columns whose unknown words a reader may meet."""
DTYPES = ("precision", "dtype", "quantisation", "attn_dtype", "gemm_dtype")
MEASURED = re.compile(
    r"(time|latency|Latency|e2e_latency|Time \(msec\)|GBs|step_per_sec|compute_cycles|flops_half_M|value)"
    r"|(trimmed_mean_us|mean_time|took_s|tpot_s|tpot_mean_s|result|itl_p50_s|mean_tpot_s|epoch_s|step_s|mean_s|time_s)"
    r"|(output_tokens_per_s|tokens_per_s|tokens_per_s_per_gpu|samples_per_s)"
)
SPOILT = ("nan", "", "0", "-1", "inf", "1e400", "abc")
"""Times that are none."""


@dataclass(frozen=True)
class Stranger:
    """One way to be strange.

    `change`: (names of the columns, rows, the table) -> the bytes of the file; None leaves it out.
    `same`: whether the scores of the good rows must be those of the plain folder.
    `tells`: what some skipped row or warning has to say, where the change was possible.
    """

    name: str
    change: Callable[[list[str], list[Row], Table], bytes | None]
    same: bool = False
    tells: str = ""


def measured(names: Sequence[str]) -> list[str]:
    """Columns of measurements."""
    return [name for name in names if MEASURED.fullmatch(name)]


def text(names: Sequence[str], rows: Sequence[Row]) -> bytes:
    """A plain table."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(names), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def _dressed(names: list[str], rows: list[Row], table: Table) -> bytes:
    """A byte-order mark, CRLF, every cell in quotes, the columns in another order, and one more."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*reversed(names), "remark_of_ours"], quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({**row, "remark_of_ours": 'a "note", in\ntwo lines'} for row in rows)
    return codecs.BOM_UTF8 + out.getvalue().encode()


def _spoilt(names: list[str], rows: list[Row], table: Table) -> bytes:
    """Rows with times that are none, after the good ones, and one that ends early."""
    first = measured(names)[:1]
    bad = [{**rows[at % len(rows)], name: value} for name in first for at, value in enumerate(SPOILT)]
    return text(names, [*rows, *bad]) + b"only,two\n"


def _twice(names: list[str], rows: list[Row], table: Table) -> bytes:
    """Every fifth row twice."""
    return text(names, [*rows, *rows[::5]])


def _impossible(names: list[str], rows: list[Row], table: Table) -> bytes:
    """Some rows a hundred thousand times as fast, after the good ones."""
    scale = {name: 1e5 if re.search(r"per_s|GBs|result|samples", name) else 1e-5 for name in measured(names)}
    bad = []
    for row in rows[:3]:
        numbers = {name: _number(row[name]) for name in scale}
        bad.append({**row, **{name: repr(value * scale[name]) for name, value in numbers.items() if value}})
    return text(names, [*rows, *bad])


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return 0.0


def _renamed(column: str | None, value: str) -> Callable[[list[str], list[Row], Table], bytes]:
    def change(names: list[str], rows: list[Row], table: Table) -> bytes:
        name = str(table.by) if column is None else column
        return text(names, [{**row, name: value} if name in row else row for row in rows])

    return change


def _words(names: list[str], rows: list[Row], table: Table) -> bytes:
    """A row for each column of words with a word that nobody knows, after the good ones."""
    there = [name for name in names if name in WORDS or name == str(table.by)]
    return text(names, [*rows, *({**rows[0], name: "frobnicated-9000"} for name in there)])


def _dtype(names: list[str], rows: list[Row], table: Table) -> bytes:
    """All rows in a data type that nobody has."""
    return text(names, [{**row, **dict.fromkeys(set(DTYPES) & set(row), "fp3")} for row in rows])


def _empty(names: list[str], rows: list[Row], table: Table) -> bytes:
    return text(names, [])


def _nothing(names: list[str], rows: list[Row], table: Table) -> bytes:
    return b""


def _headless(names: list[str], rows: list[Row], table: Table) -> bytes:
    """Without the measured column."""
    return text([name for name in names if name not in measured(names)], rows)


def _nameless(names: list[str], rows: list[Row], table: Table) -> bytes:
    """Without the column that names the group."""
    return text([name for name in names if name != str(table.by)], rows)


STRANGERS = (
    Stranger("dressed", _dressed, same=True),
    Stranger("spoilt", _spoilt, same=True, tells="left out"),
    Stranger("twice", _twice, same=True, tells="twice"),
    Stranger("impossible", _impossible, same=True, tells="faster than|left out|impossible"),
    Stranger("words", _words, same=True, tells="frobnicated-9000"),
    Stranger("device", _renamed(None, DEVICE), tells=DEVICE),
    Stranger("dtype", _dtype),
    Stranger("empty", _empty, tells="."),
    Stranger("nothing", _nothing, tells="."),
    Stranger("headless", _headless, tells="."),
    Stranger("nameless", _nameless, tells="."),
)


def changed(take: Take, stranger: Stranger, given: Path, out: Path) -> int:
    """A given folder with its tables changed; the number of files that were."""
    count = 0
    for table in take.tables:
        for file in files(table, given):
            there = out / file
            there.parent.mkdir(parents=True, exist_ok=True)
            if ".csv" in file.name and isinstance(table.by, str):
                write_bytes(there, stranger.change(*read_rows(given / file), table) or b"")
                count += 1
            else:
                there.unlink(missing_ok=True)
                there.symlink_to((given / file).resolve())
    return count


def thinned(take: Take, folder: Path, out: Path, most: int) -> None:
    """A folder of at most so many rows a table, evenly over it; the rest is linked: strangeness needs no accuracy."""
    for path in folder.rglob("*"):
        if path.is_file():
            there = out / path.relative_to(folder)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.unlink(missing_ok=True)
            there.symlink_to(path.resolve())
    for table in take.tables:
        for file in files(table, folder):
            if ".csv" not in file.name or not isinstance(table.by, str):
                continue
            names, rows = read_rows(folder / file)
            if len(rows) > most:
                write_rows(out / file, names, rows[:: -(-len(rows) // most)])
