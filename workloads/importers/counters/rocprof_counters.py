"""rocprofv3's counters as CSV (`rocprofv3 --pmc ...`): one line a dispatch and counter.

Flop are those of the vector and matrix units that were counted (SQ_INSTS_VALU_*, 64 lanes each;
SQ_INSTS_VALU_MFMA_MOPS_*, 512 operations each), bytes FETCH_SIZE and WRITE_SIZE (KiB).

Source: https://rocm.docs.amd.com/projects/rocprofiler-sdk (counter collection) and AMD's "MI300 and MI200 series
performance counters" for the sizes.
"""

from __future__ import annotations

import re
from pathlib import Path

from slipstick.common.errors import InputError, Problems
from slipstick.common.opener import MEGABYTE
from slipstick.common.readers import read_csv_rows, whole_number
from slipstick.workloads.importers.counters.counted import MOST_REGIONS, Counted, counted_number, merged

LIMIT_BYTES = 1024 * MEGABYTE
_VALU = re.compile(r"SQ_INSTS_VALU_(ADD|MUL|FMA|TRANS)_F(16|32|64)")
_MFMA = re.compile(r"SQ_INSTS_VALU_MFMA_MOPS_\w+")
LANES, MFMA_FLOP, KIB = 64, 512, 1024


def read_rocprof_counters(path: Path) -> tuple[Counted, ...]:
    """Kernels, all dispatches of one name together.

    Raises InputError where columns are missing; names the lines whose numbers are wrong, all at once.
    """
    launches: dict[tuple[str, str], dict[str, float]] = {}
    times: dict[tuple[str, str], float] = {}
    wrong = Problems(f"{path}: want numbers, and ends after starts")
    for line, row in read_csv_rows(path, ("Kernel_Name", "Counter_Name", "Counter_Value"), LIMIT_BYTES):
        value = counted_number(row["Counter_Value"], f"{path}: line {line}: {row['Counter_Name'][:80]}")
        if value is None:
            wrong.append(f"line {line}: Counter_Value = {row['Counter_Value'][:30]!r}")
            continue
        key = row.get("Dispatch_Id", ""), row["Kernel_Name"][:500]
        counters = launches.setdefault(key, {})
        counters[row["Counter_Name"][:200]] = counters.get(row["Counter_Name"][:200], 0.0) + value
        start, end = (whole_number(row.get(f"{side}_Timestamp", "")) for side in ("Start", "End"))
        if start is not None and end is not None:
            if end < start:
                wrong.append(f"line {line}: End_Timestamp = {end} lies before Start_Timestamp = {start}")
            times[key] = (end - start) * 1e-9
        if len(launches) > MOST_REGIONS:
            raise InputError(f"{path}: more than {MOST_REGIONS:,} dispatches")
    wrong.refuse()
    if not launches:
        raise InputError(f"{path}: no rows below the header")
    return merged(
        Counted(key[1], 1, times.get(key), _flop(counters), _moved(counters), {}, counters)
        for key, counters in launches.items()
    )


def _flop(counters: dict[str, float]) -> float | None:
    parts = [
        value * LANES * (2 if match.group(1) == "FMA" else 1)
        for name, value in counters.items()
        if (match := _VALU.fullmatch(name))
    ]
    parts += [value * MFMA_FLOP for name, value in counters.items() if _MFMA.fullmatch(name)]
    return sum(parts) if parts else None


def _moved(counters: dict[str, float]) -> float | None:
    sizes = [counters[name] * KIB for name in ("FETCH_SIZE", "WRITE_SIZE") if name in counters]
    return sum(sizes) if len(sizes) == 2 else None
