"""What to measure first on a machine for one's own workload: whole steps of serving, or operations of a program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.writer import write_text
from slipstick.estimators.engine_steps.measured_steps import NextStep, next_steps
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.next_measurements import STATED, NextRow, next_rows, program
from slipstick.experiments.calibrate.measured_steps import SIZES, step_lines, steps_of
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.language_catalog import language_model_names


def is_served(name: str) -> bool:
    """Whether words mean a language model that is served: a name, a configuration, or one of its steps."""
    purpose, colon, _ = name.partition(":")
    return (
        (bool(colon) and purpose in SIZES) or name.endswith((".gguf", "config.json")) or name in language_model_names()
    )


@dataclass(frozen=True)
class NextMeasurements:
    """Rows to measure on a machine, the most informative first.

    `rows`: each with what it is, its sizes, seconds predicted, and the standard deviation of log time now and of all
        that is wanted afterwards.
    `lines`: the lines of the CSV to fill in.
    `notes`: what else to know.
    """

    machine: str
    rows: tuple[dict[str, Any], ...]
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def lines_above(self, path: str) -> list[str]:
        """What to do with them: the first lines of the answer."""
        return [f"{self.machine}: measure these, warm, medians of many runs; then --measured {path}", *self.notes]

    def write(self, path: str | os.PathLike[str]) -> None:
        """The CSV that `read_calibration(..., measured=path)` reads, its time_s to be filled in."""
        write_text(Path(path), "\n".join(self.lines) + "\n")


def steps_to_measure(
    model: str, machine: Machine, count: int = 2, dtype: str | None = None, engine: str = "", tensor: int = 1
) -> NextMeasurements:
    """The steps of a served model after which its other steps are known best.

    `model`: decode:MODEL, prompt:MODEL, or the model alone for both.
    `tensor`: devices that share each product.
    Raises InputError where a name is unknown or nothing fits the machine.

    Examples
    --------
    >>> from slipstick.hwmodels.catalog import machine
    >>> [row["sizes"] for row in steps_to_measure("decode:llama-3.1-8b", machine("h100-sxm")).rows]
    ['decodes = 16, context = 256', 'decodes = 64, context = 1024']
    """
    offered, names = steps_of(model, machine, dtype, engine, tensor)
    best = next_steps(offered, count)
    rows = tuple(_row(names[one.step], _sizes(one), one.seconds, one.spread, one.left) for one in best)
    return NextMeasurements(machine.name, rows, tuple(step_lines([one.step for one in best], names)))


def operations_to_measure(
    workload: Workload, machine: Machine, known: DeviceCalibration, count: int = 5
) -> NextMeasurements:
    """The operations of a workload after which its whole time is known best; its sizes are bound.

    Raises InputError where a size is open, none of its operations was fitted, or the machine was measured itself.
    """
    forecast = known.forecast(machine, anchors=())
    if not forecast.belief.roots.any():
        raise InputError(f"{machine.name} was measured for the calibration: its own rows say more than a few others")
    mine = program(workload.bound(), machine, {one.name for one in known.classes})
    if not mine.offered:
        raise InputError(f"{workload.name}: no operation of a class that was fitted (has: {', '.join(mine.unknown)})")
    best = next_rows(forecast.belief, mine.offered, count, mine.times)
    rows = tuple(map(operation_row, best))
    notes = (f"not among the classes that were fitted: {', '.join(mine.unknown)}",) if mine.unknown else ()
    return NextMeasurements(machine.name, rows, tuple(_operation_lines(best)), notes)


def operation_row(one: NextRow) -> dict[str, Any]:
    """An operation to measure as a row of the answer."""
    return _row(one.name, ", ".join(f"{dim} = {size:g}" for dim, size in one.dims), one.time, one.spread, one.left)


def _operation_lines(rows: Sequence[NextRow]) -> list[str]:
    dims = list(dict.fromkeys(dim for row in rows for dim, _ in row.dims))
    stated = [name for name in STATED if any(name in dict(row.attributes) for row in rows)]
    lines = [",".join(["kind", "dtype", *stated, *dims, "time_s"])]
    for row in rows:
        kind, _, dtype = row.name.partition(".")
        facts, sizes = dict(row.attributes), dict(row.dims)
        words = [_word(facts[name]) if name in facts else "" for name in stated]
        lines.append(",".join([kind, dtype, *words, *(f"{sizes[d]:.12g}" if d in sizes else "" for d in dims), ""]))
    return lines


def _word(value: object) -> str:
    """An attribute as a file of measured times has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _sizes(one: NextStep) -> str:
    batch = one.step.batch
    return (
        f"decodes = {batch.decodes:g}, context = {batch.context:g}" if batch.decodes else f"prompt = {batch.prompt:g}"
    )


def _row(name: str, sizes: str, seconds: float, spread: float, left: float) -> dict[str, Any]:
    return {
        "operation": name,
        "sizes": sizes,
        "predicted_s": seconds,
        "spread_now": spread,
        "mean_spread_after": left,
    }
