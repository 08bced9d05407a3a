"""Summaries of profilers: calls and total time by name, as CSV or as a table over lines of dashes.

Nsight Systems (`nsys stats`), nvprof, rocprof 1 and rocprofv3 (`--stats`), rocprof 1's table of single kernels, and the
tables of torch.profiler (`key_averages().table()`), whose times stand with their units. Of a table that knows times of
operations with and without what they call, those without are taken, so that they add up; of one that knows a device,
the device's.

Sources: Nsight Systems' user guide, "Report scripts"; rocprof's user guide, "--stats"; torch/autograd/profiler_util.py.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import csv_separator, decimal_mark, number_written, pointed, read_lines, split_cells
from slipstick.common.units import SECONDS, named_unit, parse_quantity
from slipstick.workloads.importers.counters.counted import MOST_REGIONS, Counted, merged

LIMIT_BYTES = 256 * MEGABYTE
MOST_LINES = 2_000_000
LONGEST = 20_000
NAMES = ("name", "kernelname", "kernel name", "operation", "range", "function")
CALLS = ("calls", "instances", "num calls", "# of calls", "count", "invocations")
DEVICE = re.compile(r"self (cuda|xpu|hip|mps|npu|hpu|privateuse1)(?: time)?(?: total)?(?: \((\w+)\))?")
TIMES = ("total time", "totalduration", "total duration", "duration", "self cpu", "cpu time", "time")
"""Columns of times, the ones to take first; their units stand behind them, in a row below or in the cells."""
_RULE = re.compile(r"-{3,}(?:\s+-{3,})+")


def summary_columns(lines: Sequence[str]) -> tuple[int, list[str]] | None:
    """The line of the header and its columns; None where no line is one."""
    for number, line in enumerate(lines[:300]):
        if not 8 < len(line) < LONGEST or line.lstrip()[:1] in "{[|":
            continue
        if _RULE.fullmatch(line.strip()) and number + 1 < len(lines):
            names = _cells(lines[number + 1], _spans(line))
        elif sum(line.count(mark) for mark in ",;\t") >= 2:
            names = _split(line)
        else:
            continue
        if _chosen(names) is not None:
            return number, names
    return None


def read_summary(path: Path) -> tuple[Counted, ...]:
    """What each name did; rows of one name together.

    Raises InputError where no line is the header of a summary, or a number cannot be read; names file and line.
    """
    lines = read_lines(path, MOST_LINES, LIMIT_BYTES)
    seen = summary_columns(lines)
    chosen = _chosen(seen[1]) if seen else None
    if seen is None or chosen is None:
        raise InputError(f"{path}: no header with a name, calls and a total time")
    head, names = seen
    name, calls, time, unit = chosen
    rows = list(_rows(lines, head, len(names)))
    if rows and rows[0][1][names.index(time)].strip().lower() in SECONDS and rows[0][1][names.index(time)].strip():
        unit = rows.pop(0)[1][names.index(time)].strip().lower()  # nvprof states units in a row of their own
    mark = decimal_mark(((line, cells[names.index(time)], False) for line, cells in rows), path)

    def counted() -> Iterator[Counted]:
        for line, cells in rows:
            row = dict(zip(names, cells, strict=True))
            seconds = _seconds(row[time], mark, unit, f"{path}: line {line}: {time}")
            count = number_written(row[calls], mark) if calls else 1.0
            if count is None or not 0 <= count < 1e15:
                raise InputError(f"{path}: line {line}: {calls} = {row[calls or name][:40]!r}: want a count")
            yield Counted(row[name][:500] or "(no name)", int(count), seconds)

    if not rows:
        raise InputError(f"{path}: no rows below the header (line {head + 1})")
    if len(rows) > MOST_REGIONS:
        raise InputError(f"{path}: more than {MOST_REGIONS:,} rows")
    return merged(counted())


def _chosen(names: Sequence[str]) -> tuple[str, str, str, str] | None:
    """The columns of names, calls ("" where each row is a call) and times, and the unit of these."""
    plain = {" ".join(name.lower().split()): name for name in reversed(names)}
    named = next((plain[one] for one in NAMES if one in plain), None)
    calls = next((plain[one] for one in CALLS if one in plain), "")
    timed: dict[str, tuple[str, str]] = {}
    for column in plain.values():
        stem, unit = named_unit(column)
        timed.setdefault(" ".join(stem.split()), (column, unit))
    device = next((stem for stem in timed if DEVICE.fullmatch(stem)), None)
    taken = device or next((one for one in TIMES if one in timed), None)
    alone = taken == "duration" and "kernelname" in plain  # rocprof 1: a line a kernel
    if named is None or taken is None or not (calls or alone):
        return None
    return named, calls, *timed[taken]


def _seconds(text: str, mark: str, unit: str, where: str) -> float:
    value = number_written(text, mark)
    try:
        seconds = parse_quantity(pointed(text, mark), "s") if value is None else value * SECONDS.get(unit, 1.0)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if not 0 <= seconds < 1e12:
        raise InputError(f"{where} = {text.strip()[:40]}: want a time of 0 s to 1e12 s")
    return seconds


def _rows(lines: Sequence[str], head: int, width: int) -> Iterator[tuple[int, list[str]]]:
    """Lines below the header with their cells, up to the end of the table."""
    if _RULE.fullmatch(lines[head].strip()):
        spans = _spans(lines[head])
        for number, line in enumerate(lines[head + 3 :], head + 4):
            if not line.strip() or _RULE.fullmatch(line.strip()):
                return
            yield number, _cells(line, spans)
        return
    mark = csv_separator(lines[head])
    for number, line in enumerate(lines[head + 1 :], head + 2):
        if not line.strip() or line.startswith(("==", "#")):
            continue
        cells = _split(line, mark)
        if len(cells) < width:
            return  # another report, or words, below the table
        yield number, [*cells[: width - 1], mark.join(cells[width - 1 :])]


def _split(line: str, mark: str = "") -> list[str]:
    try:
        return split_cells(line[:LONGEST], mark)
    except csv.Error:
        return []


def _spans(rule: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer("-+", rule)]


def _cells(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    return [
        line[start : max(end, spans[i + 1][0] - 1) if i + 1 < len(spans) else end].strip()
        for i, (start, end) in enumerate(spans)
    ]
