"""Summaries of the TensorBoard profiler (input_pipeline.json, overview_page.json) as step profiles.

They are tables of the Google chart format: `cols` with ids, `rows` of cells `{"v": value}`. Source of the columns:
tensorflow/profiler and openxla/xprof, the input-pipeline analyzer.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

from slipstick.hwmodels.files.readers import InputError, read_json
from slipstick.workloads.runs.step_profiles import Operation, StepProfile

INFEED, COMPUTE = "infeed", "compute"
_STEP_COLUMNS = ("stepnum", "noninfeedTimeMs", "infeedTimeMs")


def read_input_pipeline(path: str | os.PathLike[str]) -> list[StepProfile]:
    """Steps of an input-pipeline summary: seconds that the device computes, and waits for input.

    Raises
    ------
    InputError
        Where the file holds no table of steps, or a cell is no number.
    """
    for table in _tables(path):
        if all(name in table for name in _STEP_COLUMNS):
            break
    else:
        raise InputError(f"{path}: no table with the columns {', '.join(_STEP_COLUMNS)}")
    steps, clock = [], 0.0
    for number, compute, infeed in zip(*(table[name] for name in _STEP_COLUMNS), strict=True):
        times = {COMPUTE: _milliseconds(compute, path), INFEED: _milliseconds(infeed, path)}
        operations = {name: Operation(1, time, "device") for name, time in times.items()}
        duration = sum(times.values())
        steps.append(StepProfile(int(_number(number, path)), clock, duration, operations))
        clock += duration
    return steps


def read_top_operations(path: str | os.PathLike[str]) -> dict[str, float]:
    """Share of device self time by operation, of an overview page; largest first.

    Raises
    ------
    InputError
        Where the file holds no such table.
    """
    for table in _tables(path):
        if "selfTimePercent" in table and "operation" in table:
            shares = {
                str(name): _number(share, path)
                for name, share in zip(table["operation"], table["selfTimePercent"], strict=True)
            }
            return dict(sorted(shares.items(), key=lambda each: -each[1]))
    raise InputError(f"{path}: no table with the columns selfTimePercent, operation")


def _tables(path: str | os.PathLike[str]) -> Iterator[dict[str, list[Any]]]:
    """Tables of the document as columns by id; what has another form is passed over."""
    document = read_json(path)
    for table in document if isinstance(document, list) else [document]:
        if not (
            isinstance(table, dict) and isinstance(table.get("cols"), list) and isinstance(table.get("rows"), list)
        ):
            continue
        names = [str(column.get("id")) if isinstance(column, dict) else "" for column in table["cols"]]
        cells = [row.get("c") if isinstance(row, dict) else None for row in table["rows"]]
        if not all(isinstance(row, list) and len(row) == len(names) for row in cells):
            raise InputError(f"{path}: a row has another number of cells than the {len(names)} columns")
        values = [[cell.get("v") if isinstance(cell, dict) else None for cell in row or ()] for row in cells]
        yield {name: [row[i] for row in values] for i, name in enumerate(names)}


def _number(value: Any, path: object) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{path}: {str(value)[:40]!r} is no number") from None
    if not math.isfinite(number):
        raise InputError(f"{path}: {str(value)[:40]!r} is no finite number")
    return number


def _milliseconds(value: Any, path: object) -> float:
    number = _number(value, path)
    if not 0 <= number < 1e12:
        raise InputError(f"{path}: {number:g} ms is no duration")
    return number * 1e-3
