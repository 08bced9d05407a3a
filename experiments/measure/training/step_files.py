"""Measured training steps as files: operations timed alone beside the whole step, of `slipstick measure steps`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_number, whole_of
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.workload import Attribute, Op, Workload


@dataclass(frozen=True)
class Step:
    """One network: its step as operations that the host waits for, what each takes alone, and the measured step.

    Operations of one phase and kind are one, done as often as they are, with their mean time: the host runs them one by
    one, so that their order does not matter.
    """

    name: str
    workload: Workload
    seconds: Mapping[str, float]
    measured: float
    repeat: float
    alone: float


def read_steps(path: Path) -> list[Step]:
    """Steps of a CSV of `slipstick measure steps`; seconds of an operation without the call of it."""
    columns = ("model", "phase", "operation", "kind", "count", "time_s")
    by_model: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line, row in read_csv_rows(path, required=columns):
        by_model.setdefault(row["model"], []).append((row, read_number(row["time_s"], path, line, "time_s", 0, 1e4)))
    return [_step(name, rows, path) for name, rows in by_model.items()]


def _step(name: str, rows: list[tuple[dict[str, str], float]], path: Path) -> Step:
    calls = [time for row, time in rows if row["operation"] == "call"]
    steps = [time for row, time in rows if row["operation"] == "step"]
    if not calls or not steps or min(steps) <= 0:
        raise InputError(f"{path}: model {name[:60]!r}: want a row 'call', and rows 'step' of more than 0 s")
    call = min(calls)
    counts: dict[str, int] = {}
    totals: dict[str, float] = {}
    alone = 0.0
    for row, time in rows:
        if row["operation"] not in ("call", "step"):
            key, count = (
                f"{name}: {row['phase']} {row['kind']}",
                whole_of(row["count"], f"{path}: model {name[:60]!r}: count", 1),
            )
            counts[key] = counts.get(key, 0) + count
            totals[key] = totals.get(key, 0.0) + max(0.0, time - call) * count
            alone += time * count
    operations = [
        Op(key, "uncounted", times=count, attributes=FrozenDict[Attribute]({"measured_as": key, "synchronise": True}))
        for key, count in counts.items()
    ]
    seconds = {key: total / counts[key] for key, total in totals.items()}
    measured = float(np.mean(steps))
    return Step(name, Workload(name, tuple(operations)), seconds, measured, max(steps) / min(steps) - 1, alone)
