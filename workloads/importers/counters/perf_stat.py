"""`perf stat`: the text on the screen, `-x,` (any separator) and `-j`; counters of one run.

Flop are the retired floating-point instructions of Intel's counters times their width (fp_arith_inst_retired.*); bytes
those of the memory controllers (uncore_imc*/data_reads, data_writes, cas_count_*), where they were counted.

Source: https://man7.org/linux/man-pages/man1/perf-stat.1.html, "CSV FORMAT" and "JSON FORMAT"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import decimal_mark, parse_json, read_lines
from slipstick.workloads.importers.counters.counted import Counted, counted_number

MOST_LINES = 200_000
_GROUPED = r"-?\d[\d.,'\u2019\u00a0\u202f]*"
_LINE = re.compile(rf"\s*(<not \w+>|{_GROUPED})\s+(?:(msec|ns|MiB|GiB|KiB|Joules|Bytes|%)\s+)?([A-Za-z_][\w./:\-=@]*)")
_ELAPSED = re.compile(rf"\s*({_GROUPED})\s*(?:\+-\s*[\d.,]+\s*)?(seconds (?:time elapsed|user|sys))\b")
_BESIDE = re.compile(r"(?<=[#(])[^\d]{0,8}(\d[\d.,]*\d)")
"""Derived figures behind a count: "#    0.998 CPUs utilized", "( +-  0.12% )"."""
CSV_COUNT = re.compile(r"\s*(<not \w+>|-?[\d.]+(?:,\d+)?)([,;|\t])((?!\d)[\w%/]*)\2((?!\d)[^,;|\t]{1,200})(?:\2|$)")
"""No thousands are parted here: a comma among the digits stands before a fraction, between any separators."""
_INTERVAL = re.compile(r"\s*(\d{1,9}\.\d{6,9})(?:[,;|\t](?=\s*[\d<])|\s+(?=[\d<]))")
"""What -I writes before each count: seconds since the start."""
_RUNNING = re.compile(r"\((\d{1,3}[.,]\d{2})%\)\s*$")
_RUNNING_CSV = re.compile(r"[,;|\t]\d+[,;|\t](\d{1,3}[.,]\d{2})[,;|\t]")
_LOCAL_JSON = re.compile(r":\s*-?\d+,\d+\s*[,}]")
_BEGINS = ("# started on", "Performance counter stats for")
ELAPSED = "seconds time elapsed"
_UNITS = {"msec": 1e-3, "ns": 1e-9, "MiB": 2.0**20, "GiB": 2.0**30, "KiB": 2.0**10, "%": 0.01}
_WIDTHS = {
    "scalar_double": 1, "scalar_single": 1, "128b_packed_double": 2, "128b_packed_single": 4,
    "256b_packed_double": 4, "256b_packed_single": 8, "512b_packed_double": 8, "512b_packed_single": 16,
}  # fmt: skip
_FLOP = re.compile(r"(?:cpu\w*/)?fp_arith_inst_retired\.(\w+?)/?(?::\w+)?", re.IGNORECASE)
_MOVED = re.compile(r"uncore_imc\w*/(data_reads|data_writes|cas_count_read|cas_count_write)/?(?::\w+)?")


def read_perf_stat(path: Path) -> tuple[Counted, ...]:
    """The run; `values` are the counts by event.

    Raises InputError where the file is none of these, or no event was counted.
    """
    values: dict[str, float] = {}
    scaled: dict[str, float] = {}
    missing: list[str] = []
    elapsed = None
    lines = list(_events(read_lines(path, MOST_LINES), path))
    mark = decimal_mark((figure for one in lines for figure in one.figures()), path)
    for one in lines:
        value = counted_number(one.text, f"{path}: line {one.line}: {one.event}", mark)
        if value is None:
            missing.append(one.event)
        elif one.event == ELAPSED:
            elapsed = value
        else:
            values[one.event] = values.get(one.event, 0.0) + value * _UNITS.get(one.unit, 1.0)
            if one.running < 1:
                scaled[one.event] = min(scaled.get(one.event, 1.0), one.running)
    if not values:
        raise InputError(f"{path}: no event was counted (not counted: {', '.join(missing[:8]) or 'none'})")
    if elapsed is None and lines and lines[-1].at is not None:
        elapsed = lines[-1].at  # the end of the last interval
    if elapsed is None:
        elapsed = next((values[name] for name in ("duration_time", "user_time", "task-clock") if name in values), None)
    flop = [
        values[name] * _WIDTHS[match.group(1).lower()]
        for name in values
        if (match := _FLOP.fullmatch(name)) and match.group(1).lower() in _WIDTHS
    ]
    moved = [value for name, value in values.items() if _MOVED.fullmatch(name)]
    return (
        Counted("the run", 1, elapsed, sum(flop) if flop else None, sum(moved) if moved else None, {}, values, scaled),
    )


@dataclass(frozen=True)
class _Event:
    """A line: its event, the text of its count, its unit, and the text of the figures behind them.

    `running`: the share of the time in which it was counted; `at`: seconds at the end of its interval, of -I.
    `grouped`: whether thousands may be parted, as they are in the text on the screen alone.
    """

    line: int
    event: str
    text: str
    unit: str
    grouped: bool = False
    beside: str = ""
    running: float = 1.0
    at: float | None = None

    def figures(self) -> Iterator[tuple[int, str, bool]]:
        """Its numbers, for `decimal_mark`: what has no unit, or nanoseconds, is counted and has no fraction."""
        yield self.line, self.text, self.grouped and self.unit in ("", "ns")
        yield from ((self.line, figure, False) for figure in _BESIDE.findall(self.beside))


def _events(lines: Sequence[str], path: Path) -> Iterator[_Event]:
    begun = False
    for number, line in enumerate(lines, 1):
        if len(line) > 2000:
            raise InputError(f"{path}: line {number}: longer than 2,000 characters")
        if line.lstrip().startswith(_BEGINS):
            if begun:
                raise InputError(f"{path}: line {number}: a second run begins here; read each alone")
            continue
        at = None
        if interval := _INTERVAL.match(line):
            rest = line[interval.end() :]
            if CSV_COUNT.match(rest) or _LINE.match(rest):
                at, line = float(interval[1]), rest
        if line.lstrip().startswith("{"):
            if _LOCAL_JSON.search(line):
                raise InputError(
                    f"{path}: line {number}: decimal commas, so no JSON; LC_ALL=C perf stat -j gives points"
                )
            event = _from_json(parse_json(line, f"{path}: line {number}"), number)
        elif match := _ELAPSED.match(line):
            event = _Event(number, match[2], match[1], "s", True, line[match.end() :])
        elif match := CSV_COUNT.match(line):
            event = _Event(number, match[4].strip(), match[1], match[3])
        elif match := _LINE.match(line):
            event = _Event(number, match[3], match[1], match[2] or "", True, line[match.end() :])
        else:
            continue
        begun = True
        if event is not None:
            share = _RUNNING.search(line) or _RUNNING_CSV.search(line) if event.running == 1 else None
            running = float(share[1].replace(",", ".")) / 100 if share else event.running
            yield replace(event, running=running, at=event.at if at is None else at)


def _from_json(entry: Any, line: int) -> _Event | None:
    if isinstance(entry, Mapping) and isinstance(entry.get("event"), str):
        running, at = (entry.get(name) for name in ("pcnt-running", "interval"))
        return _Event(
            line, entry["event"], str(entry.get("counter-value")), str(entry.get("unit") or ""),
            running=running / 100 if isinstance(running, (int, float)) else 1.0,
            at=float(at) if isinstance(at, (int, float)) else None,
        )  # fmt: skip
    return None
