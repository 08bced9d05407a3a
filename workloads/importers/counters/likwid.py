"""likwid-perfctr's CSV (`likwid-perfctr -O -g MEM_DP ...`, with -m for regions): blocks of tables, a column a core.

A region's time is the longest of its cores, its flop are MFLOP/s times that time, its bytes the memory data volume that
the group states; both are sums over cores.

Source: RRZE-HPC/likwid, src/applications/likwid.lua (`printOutput`): STRUCT,Info / TABLE,[Region NAME,]Group N Raw or
Metric[ STAT],GROUP,lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import read_text
from slipstick.workloads.importers.counters.counted import MOST_REGIONS, Counted, counted_number, total

_TABLE = re.compile(r"TABLE,(?:Region ([^,]{1,200}),)?Group (\d{1,6}) (Raw|Metric)( STAT)?,([^,]{0,80})")
_TIME = re.compile(r"Runtime \(RDTSC\) \[s\]")
_RATE = re.compile(r"(?:(?:DP|SP) )?\[?MFLOP/s\]?(?: \(.{0,40}\))?", re.IGNORECASE)
_VOLUME = re.compile(r"Memory data volume \[GBytes\]", re.IGNORECASE)
WHOLE = "the run"


@dataclass
class _Region:
    calls: int = 1
    seconds: float | None = None
    rates: list[float] = field(default_factory=list)
    volume: float | None = None
    values: dict[str, float] = field(default_factory=dict)


def read_likwid(path: Path) -> tuple[Counted, ...]:
    """Regions of the file, or the whole run; `values` are the raw counts, summed over cores.

    Raises InputError where the file holds no tables of likwid-perfctr, or no region has a number.
    """
    regions: dict[str, _Region] = {}
    name, kind = WHOLE, ""
    for line, cells in _lines(path):
        if cells[:2] == ["STRUCT", "Info"] and regions:
            raise InputError(f"{path}: line {line}: a second run begins here; read each alone")
        match = _TABLE.match(",".join(cells[:4]))
        if match:
            name = match.group(1) or WHOLE
            kind = f"{match.group(3)}{match.group(4) or ''}"
            if len(regions) > MOST_REGIONS:
                raise InputError(f"{path}: line {line}: more than {MOST_REGIONS:,} regions")
            regions.setdefault(name, _Region())
        elif kind and not kind.endswith("STAT"):
            _take(regions[name], kind, cells, f"{path}: line {line}: {cells[0][:80]}")
    counted = [_counted(name, region) for name, region in regions.items() if region.values or region.seconds]
    if not counted:
        raise InputError(f"{path}: no table of likwid-perfctr holds a number; want the output of likwid-perfctr -O")
    return tuple(counted)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        for line, cells in enumerate(csv.reader(read_text(path).splitlines()), 1):
            if cells:
                yield line, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError(f"{path}: not CSV ({error})") from None


def _take(region: _Region, kind: str, cells: Sequence[str], where: str) -> None:
    name = cells[0]
    wanted = kind == "Raw" or _TIME.match(name) or _RATE.fullmatch(name) or _VOLUME.match(name)
    first = 1 if kind != "Raw" or name == "call count" else 2
    known = (counted_number(cell, where) for cell in cells[first:]) if wanted else ()
    numbers = [value for value in known if value is not None]
    if not numbers:
        return
    if name == "call count":
        region.calls = int(max([1.0, *numbers]))
    elif kind == "Raw":
        if name != "RDTSC Runtime [s]":
            region.values[name] = region.values.get(name, 0.0) + sum(numbers)
    elif _TIME.match(name):
        region.seconds = max(numbers)
    elif _RATE.fullmatch(name):
        region.rates.append(sum(numbers))
    else:
        region.volume = sum(numbers)


def _counted(name: str, region: _Region) -> Counted:
    flop = total(rate * 1e6 * region.seconds for rate in region.rates) if region.seconds is not None else None
    moved = None if region.volume is None else region.volume * 1e9
    return Counted(name, region.calls, region.seconds, flop, moved, {}, region.values)
