"""Public measurements of training steps on a Cloud TPU v2-8 (ParaDnn): step rates, and shares from profiles."""

from __future__ import annotations

from pathlib import Path

from slipstick.common.readers import read_csv_rows, read_number

STEPS = "tpu/paradnn_tpu_fc.csv"
TRACES = "tpu/paradnn_tpu_fc_trace.csv"
KEY = ("layer", "node", "input", "output", "bs")
SYMBOLS = ("layers", "width", "inputs", "outputs", "batch")
"""What the workload calls the columns of `KEY`."""
BOUND = 5.0
"""Infeed share [%] above which a step is called infeed-bound; no measured share lies between 1 and 5 %."""

Row = tuple[float, ...]


def read_steps(path: Path) -> dict[Row, float]:
    """Measured step times [s] by (layers, width, inputs, outputs, batch)."""
    steps = {}
    for line, row in read_csv_rows(path, (*KEY, "step_per_sec")):
        key = tuple(read_number(row[name], path, line, name, low=1) for name in KEY)
        steps[key] = 1 / read_number(row["step_per_sec"], path, line, "step_per_sec", low=1e-9)
    return steps


def read_traces(path: Path) -> dict[Row, tuple[float, float]]:
    """Mean infeed share and matrix share [%] of the profiled runs, by the same key."""
    traces = {}
    for line, row in read_csv_rows(path, (*KEY, "infeed_m", "flops_perc_m")):
        key = tuple(read_number(row[name], path, line, name, low=1) for name in KEY)
        infeed = read_number(row["infeed_m"], path, line, "infeed_m", 0, 100)
        traces[key] = (infeed, read_number(row["flops_perc_m"], path, line, "flops_perc_m", 0, 100))
    return traces
