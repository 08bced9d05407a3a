"""`perf stat`: the text on the screen, `-x,` (any separator) and `-j`; counters of one run.

Flop are the retired floating-point instructions of Intel's counters times their width (fp_arith_inst_retired.*); bytes
those of the memory controllers (uncore_imc*/data_reads, data_writes, cas_count_*), where they were counted.

Source: https://man7.org/linux/man-pages/man1/perf-stat.1.html, "CSV FORMAT" and "JSON FORMAT"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slipstick.hwmodels.files.readers import InputError, parse_json, read_text
from slipstick.workloads.importers.counters.counted import Counted

MOST_LINES = 200_000
_LINE = re.compile(r"\s*(<not \w+>|[\d.,]+)\s+(?:(msec|ns|MiB|GiB|KiB|Joules|Bytes|%)\s+)?([A-Za-z_][\w./:\-=@]*)")
_ELAPSED = re.compile(r"\s*([\d.,]+)\s*(?:\+-\s*[\d.,]+\s*)?seconds time elapsed")
_CSV = re.compile(r"\s*(<not \w+>|[\d.]+)([,;|\t])((?!\d)[\w%/]*)\2((?!\d)[^,;|\t]{1,200})(?:\2|$)")
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
    text = read_text(path)
    if text.count("\n") > MOST_LINES:
        raise InputError(f"{path}: more than {MOST_LINES:,} lines")
    values: dict[str, float] = {}
    missing: list[str] = []
    elapsed = None
    for event, value, unit in _events(text, path):
        if value is None:
            missing.append(event)
            continue
        if event == "seconds time elapsed":
            elapsed = value
            continue
        values[event] = values.get(event, 0.0) + value * _UNITS.get(unit, 1.0)
    if not values:
        raise InputError(f"{path}: no event was counted (not counted: {', '.join(missing[:8]) or 'none'})")
    if elapsed is None:
        elapsed = next((values[name] for name in ("duration_time", "user_time") if name in values), None)
        if elapsed is None and (clock := values.get("task-clock")) is not None:
            elapsed = clock
    flop = [
        values[name] * _WIDTHS[match.group(1).lower()]
        for name in values
        if (match := _FLOP.fullmatch(name)) and match.group(1).lower() in _WIDTHS
    ]
    moved = [value for name, value in values.items() if _MOVED.fullmatch(name)]
    return (Counted("the run", 1, elapsed, sum(flop) if flop else None, sum(moved) if moved else None, {}, values),)


def _events(text: str, path: Path) -> Iterator[tuple[str, float | None, str]]:
    """(event, value or None, unit) of each line."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > 2000:
            raise InputError(f"{path}: line {number}: longer than 2,000 characters")
        if line.lstrip().startswith("{"):
            yield from _from_json(parse_json(line, f"{path}: line {number}"))
        elif match := _ELAPSED.match(line):
            yield "seconds time elapsed", _value(match.group(1)), ""
        elif match := _CSV.match(line):
            yield match.group(4).strip(), _value(match.group(1)), match.group(3)
        elif match := _LINE.match(line):
            yield match.group(3), _value(match.group(1)), match.group(2) or ""


def _from_json(entry: Any) -> Iterator[tuple[str, float | None, str]]:
    if isinstance(entry, Mapping) and isinstance(entry.get("event"), str):
        yield entry["event"], _value(str(entry.get("counter-value"))), str(entry.get("unit") or "")


def _value(text: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if 0 <= value < 1e30 else None
