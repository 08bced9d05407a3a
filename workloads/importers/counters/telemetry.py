"""What devices report while they run: `nvidia-smi --query-gpu=... --format=csv`, its `dmon`, rocm-smi's CSV.

Source: nvidia-smi's manual, "--query-gpu" and "dmon"; units stand in the header, in a row below it (dmon) or in cells.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import number_written, read_lines
from slipstick.workloads.importers.counters.counted import counted_number

LIMIT_BYTES = 256 * MEGABYTE
MOST_LINES = 2_000_000
DEVICES = ("index", "gpu", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "device")
"""Columns that tell devices apart."""
_QUERIED = re.compile(
    r"(utilization\.\w+|power\.\w+|temperature\.\w+|clocks\.\w+(\.\w+)*|memory\.\w+|enforced\.\w+)( \[[\w%]+\])?"
)
_UNIT = re.compile(r"(.*?)\s*[\[(]([\w%]+)[\])]")


@dataclass
class Reported:
    """A column of one device; `missing` counts cells without a value ("[N/A]")."""

    device: str
    quantity: str
    unit: str
    values: list[float] = field(default_factory=list)
    missing: int = 0


def is_telemetry(lines: Sequence[str]) -> bool:
    """Whether the lines begin as one of these."""
    first = next((line for line in lines if line.strip()), "")[:20_000]
    if first.startswith("#"):
        return first.lstrip("# ").startswith(("gpu ", "Date ", "gpu\t")) and any(" Idx" in line for line in lines[:5])
    names = [name.strip() for name in first.split(",")]
    smi = any(_QUERIED.fullmatch(name) for name in names)
    return smi or (names[0] == "device" and any(re.search(r"\((W|C|%|MHz)\)", name) for name in names))


def read_telemetry(path: Path) -> tuple[Reported, ...]:
    """Columns of numbers by device, in the order of the file.

    Raises InputError where a row has another number of cells than the header, or nothing was reported.
    """
    made: dict[tuple[str, str], Reported] = {}
    for line, names, units, cells in _rows(path):
        if len(cells) != len(names):
            raise InputError(f"{path}: line {line}: {len(cells)} values for {len(names)} columns")
        row = dict(zip(names, cells, strict=True))
        device = " ".join(row[name] for name in DEVICES if name in row)[:120]
        for name, unit, cell in zip(names, units, cells, strict=True):
            if name in DEVICES or name in ("timestamp", "Date", "Time"):
                continue
            value = number_written(cell.split()[0]) if cell else None
            if value is not None and "temp" not in name:
                value = counted_number(cell.split()[0], f"{path}: line {line}: {name}")
            named_unit = cell.split()[1] if value is not None and len(cell.split()) == 2 else unit
            one = made.setdefault((device, name), Reported(device, name, named_unit))
            if value is None:
                one.missing += 1
            else:
                one.unit = one.unit or named_unit
                one.values.append(value)
    known = tuple(one for one in made.values() if one.values)
    if not known:
        raise InputError(f"{path}: no device reported a number")
    return known


def _rows(path: Path) -> Iterator[tuple[int, list[str], list[str], list[str]]]:
    lines = read_lines(path, MOST_LINES, LIMIT_BYTES)
    first, names, units = "", list[str](), list[str]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if line.startswith("#"):  # dmon repeats its two lines of header
            words = line.lstrip("# ").split()
            if "Idx" in words:
                units = ["" if word in ("Idx", "-") else word.replace("C", "°C", 1) for word in words]
                units = [*[""] * (len(names) - len(units)), *units]
            else:
                names = words
        elif names and lines[0].startswith("#"):
            if len(units) > len(names):
                raise InputError(f"{path}: line {number}: {len(units)} units for {len(names)} columns above it")
            yield number, names, units or [""] * len(names), line.split()
        elif names and first == line:
            raise InputError(f"{path}: line {number}: the header again: two files in one; read each alone")
        elif not names:
            first = line
            header = [name.strip() for name in line.split(",")]
            split = [_UNIT.fullmatch(name) for name in header]
            names = [match[1] if match else name for match, name in zip(split, header, strict=True)]
            units = [match[2] if match else "" for match in split]
        else:
            yield number, names, units, [cell.strip() for cell in next(csv.reader([line[:20_000]]), [])]
