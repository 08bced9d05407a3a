"""Nsight Compute's CSV: `ncu --csv --page details` (or raw), on the screen or from a report.

One line a metric and launch (details), or one line a launch and a column a metric (raw, with a line of units below the
header). Lines of the tool (==PROF==) and of the program stand before it.

Flop are additions, products and twice the fused ones of the SASS counters, and the operations of the matrix units
(`sm__ops_path_tensor_*`); bytes are `dram__bytes*.sum`. Sections give shares of peaks instead.

Source: https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from slipstick.common.errors import InputError, Problems
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import decimal_mark, read_text
from slipstick.workloads.importers.counters.counted import MOST_REGIONS, Counted, counted_number, merged, total

LIMIT_BYTES = 256 * MEGABYTE
KERNEL, METRIC, UNIT, VALUE = "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"
DURATIONS = ("gpu__time_duration.sum", "Duration", "gpu__time_duration")
SHARES = {
    "compute": ("Compute (SM) Throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    "memory": (
        "Memory Throughput", "Compute Memory Throughput",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "main memory": (
        "DRAM Throughput", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
}  # fmt: skip
WHOLE_UNITS = ("inst", "cycle", "byte", "sector", "request", "block", "warp", "thread")
_PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNIT = re.compile(r"([numKkMGT]?)(second|s|byte|hz|inst|cycle)")
_OPERATION = re.compile(r"smsp__sass_thread_inst_executed_op_[dfh](add|mul|fma)_pred_on\.sum")
_TENSOR = re.compile(r"sm__ops_path_tensor_src_\w+\.sum")

Launch = dict[str, tuple[float, str]]


def read_ncu(path: Path) -> tuple[Counted, ...]:
    """Kernels, all launches of one name together.

    Raises InputError where the file is none of these; names the lines whose values are no numbers, all at once.
    """
    launches: dict[tuple[str, str], Launch] = {}
    mark = decimal_mark(((line, *_counts(one)) for line, row in _rows(path) for one in _metrics(row)), path)
    for line, row in _rows(path):
        kernel = row.get(KERNEL, "")[:500]
        key = row.get("ID", "0") if METRIC in row else f"{line}"
        launch = launches.setdefault((key, kernel), {})
        for name, unit, text in _metrics(row):
            where = f"{path}: line {line}: {name}"
            number = counted_number(text, where, mark) if _is_used(name) else None
            if number is not None:
                launch[name] = (number, unit)
        if len(launches) > MOST_REGIONS:
            raise InputError(f"{path}: more than {MOST_REGIONS:,} launches")
    result = merged(_counted(kernel, launch) for (_, kernel), launch in launches.items() if launch)
    if not result:
        raise InputError(f"{path}: no launch has a metric with a number")
    return result


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Lines below the header by column; a line may end before its last columns."""
    lines = read_text(path, LIMIT_BYTES).splitlines()
    start = next((i for i, line in enumerate(lines) if f'"{KERNEL}"' in line or line.startswith(f"ID,{KERNEL}")), None)
    if start is None:
        raise InputError(f"{path}: no header with the column {KERNEL!r}")
    reader = csv.reader(lines[start:], strict=False)
    header = next(reader)
    if METRIC in header and VALUE not in header:
        raise InputError(f"{path}: line {start + 1}: no column {VALUE!r} (columns: {', '.join(header[:20])})")
    units: Mapping[str, str] = {}
    wrong = Problems(path)
    try:
        for number, cells in enumerate(reader):
            line = start + 2 + number
            if not cells or cells[0].startswith("=="):
                continue
            if cells == header:
                raise InputError(f"{path}: line {line}: the header again: two reports in one file; read each alone")
            if len(cells) > len(header):
                wrong.append(f"line {line}: {len(cells)} values for {len(header)} columns")
                continue
            row = dict(zip(header, cells, strict=False))
            if METRIC not in header and not units and not row.get(KERNEL):  # the line of units
                units = {f"{name} unit": cell for name, cell in row.items()}
                continue
            yield line, {**row, **units}
    except csv.Error as error:
        raise InputError(f"{path}: line {start + reader.line_num}: not CSV ({error})") from None
    wrong.refuse()


def _metrics(row: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Name, unit and text of the metrics in a line: one of the page "details", all columns of the page "raw"."""
    if METRIC in row:
        yield row[METRIC], row.get(UNIT, ""), row.get(VALUE, "")
    else:
        yield from ((name, row.get(f"{name} unit", ""), value) for name, value in row.items() if "__" in name)


def _is_used(name: str) -> bool:
    """Whether a metric is a sum, a time or a share of a peak: others may be negative, and nothing is made of them."""
    return name.endswith(".sum") or name in DURATIONS or any(name in names for names in SHARES.values())


def _counts(metric: tuple[str, str, str]) -> tuple[str, bool]:
    """The text of a metric, and whether it counts whole things."""
    name, unit, text = metric
    return text, name.endswith(".sum") and unit in WHOLE_UNITS


def _si(value: float, unit: str) -> float:
    """The value in seconds, bytes or a plain count, from ncu's units (nsecond, us, Mbyte, inst)."""
    match = _UNIT.fullmatch(unit)
    return value * _PREFIXES[match.group(1)] if match else value


def _counted(kernel: str, launch: Launch) -> Counted:
    values = {name: _si(*one) for name, one in launch.items()}
    seconds = next((values[name] for name in DURATIONS if name in values), None)
    moved = values.get("dram__bytes.sum")
    if moved is None:
        moved = total(values.get(f"dram__bytes_{way}.sum") for way in ("read", "write"))
    counted = [
        value * (2 if match.group(1) == "fma" else 1)
        for name, value in values.items()
        if (match := _OPERATION.fullmatch(name))
    ]
    counted += [value for name, value in values.items() if _TENSOR.fullmatch(name)]
    shares = {
        what: launch[name][0] / 100
        for what, names in SHARES.items()
        for name in names
        if name in launch and launch[name][1] in ("%", "")
    }
    kept = {name: value for name, value in values.items() if name.endswith(".sum")}
    return Counted(kernel, 1, seconds, sum(counted) if counted else None, moved, shares, kept)
