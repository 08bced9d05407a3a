"""One run that a user metered without a power limit: a CSV with its seconds and its mean watts."""

from __future__ import annotations

import os

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_number
from slipstick.estimators.power.power_limit_run import LimitedRun
from slipstick.workloads.importers.formats.look import look

COLUMNS = ("time_s", "power_W")
MOST_ROWS, LONGEST, MOST_WATTS = 1000, 1e9, 1e6


def holds_run(path: str | os.PathLike[str]) -> bool:
    """Whether a CSV holds the time and the power of a run, and nothing else."""
    return look(path).columns == set(COLUMNS)


def read_run(path: str | os.PathLike[str]) -> LimitedRun:
    """A run measured without a limit, as the estimator of it under limits.

    `path`: a CSV of one line: `time_s` (seconds) and `power_W` (mean watts of the device).
    Raises InputError, which names the file, the line and the column.
    """
    rows = list(read_csv_rows(path, required=list(COLUMNS), limit_rows=MOST_ROWS))
    if len(rows) != 1:
        raise InputError(f"{path}: {len(rows)} lines: want one run, its time_s and power_W")
    ((line, cells),) = rows
    time = read_number(cells["time_s"], path, line, "time_s", 1e-9, LONGEST)
    return LimitedRun(time, read_number(cells["power_W"], path, line, "power_W", 1e-3, MOST_WATTS))
