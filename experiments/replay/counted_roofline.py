"""Counted kernels and regions beside a machine: arithmetic intensity, reached rates, and which roof is nearer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstick.common.readers import unknown_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.importers.counters.counted import Counted
from slipstick.workloads.importers.counters.likwid import read_likwid
from slipstick.workloads.importers.counters.ncu import read_ncu
from slipstick.workloads.importers.counters.perf_script import read_perf_script
from slipstick.workloads.importers.counters.perf_stat import read_perf_stat
from slipstick.workloads.importers.counters.rocprof_counters import read_rocprof_counters

WITHOUT = ("float64", "float32")
"""Data types tried where none is named."""
READERS: Mapping[str, Callable[[Path], tuple[Counted, ...]]] = {
    "ncu": read_ncu,
    "rocprof-counters": read_rocprof_counters,
    "likwid": read_likwid,
    "perf-stat": read_perf_stat,
    "perf-script": read_perf_script,
}
"""Readers of counters by the name of the format."""


def rooflines(
    regions: Sequence[Counted], machine: Machine | None, dtype: str | None, most: int
) -> list[dict[str, Any]]:
    """One row a kernel or region, longest first.

    `machine`: whose peaks the reached rates are divided by; None for the counts alone.
    `dtype`: of the arithmetic, which says the peak; the first of `WITHOUT` where it is not given.
    Raises InputError where the machine has no unit for the dtype.
    """
    ordered = sorted(regions, key=lambda one: -(one.seconds or one.shares.get("samples", 0.0)))[:most]
    return [_row(one, machine, dtype) for one in ordered]


def _row(one: Counted, machine: Machine | None, dtype: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {"region": one.name[:100], "count": one.count, "time_s": one.seconds}
    row |= {f"{what.replace(' ', '_')}_share": share for what, share in one.shares.items()}
    if one.flop is not None or one.moved is not None:
        row |= {"flop": one.flop, "bytes": one.moved, "flop_per_byte": one.intensity}
    if machine is None or not one.seconds:
        return row
    bandwidth = machine.bandwidth(machine.main_memory)
    shares: dict[str, float] = {}
    if one.moved is not None:
        row["bytes_per_s"] = one.moved / one.seconds
        shares["memory"] = one.moved / one.seconds / bandwidth
    elif "main memory" in one.shares:
        shares["memory"] = one.shares["main memory"]
    if one.flop is not None:
        peak = peak_of(machine, dtype)
        row["flop_per_s"] = one.flop / one.seconds
        shares["compute"] = one.flop / one.seconds / peak
        row["machine_flop_per_byte"] = peak / bandwidth
    elif "compute" in one.shares:
        shares["compute"] = one.shares["compute"]
    if shares:
        nearer = max(shares, key=lambda what: shares[what])
        row |= {f"of_peak_{what}": share for what, share in shares.items()}
        row["nearer_roof"] = nearer
        row["faster_at_most"] = 1 / shares[nearer] if shares[nearer] > 0 else None
    return row


def peak_of(machine: Machine, dtype: str | None) -> float:
    """The highest flop/s of any unit in a dtype; without one, in the first of `WITHOUT` that the machine has.

    Raises InputError where no unit computes in it.
    """
    known = {name: unit for unit, engine in machine.engines.items() for name in engine.flop_per_cycle}
    chosen = dtype or next((name for name in WITHOUT if name in known), next(iter(known), ""))
    units = [unit for unit, engine in machine.engines.items() if chosen in engine.flop_per_cycle]
    if not units:
        raise unknown_name(f"dtype of {machine.name}:", chosen, sorted(known))
    return max(machine.peak(unit, chosen) for unit in units)
