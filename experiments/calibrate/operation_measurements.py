"""A user's measurements of single operations on many machines: a CSV, a line a measured time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError, errors_at
from slipstick.common.readers import read_csv_rows, read_number, unknown_name, whole_number
from slipstick.estimators.gpu.transfer.operation_times import FIXED, OperationTimes
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import KINDS

PLAIN = ("machine", "kind", "dtype", "time_s")
TRUTHS = ("causal", "bias", "transposed")
PAIRS = ("stride",)
WORDS = ("pass", "function", "kv_dtype")
MAX_ROWS, LONGEST = 500_000, 1e5
"""Of a file; seconds of an operation, more than a day: no machine is measured for longer on one."""
ONE = dict.fromkeys((*FIXED[:4], "batch"), "1")
"""Dims that are 1 where a file does not say."""


def read_operation_times(
    path: str | Path, machines: Mapping[str, Machine] | None = None, defaults: Mapping[str, str] | None = None
) -> list[OperationTimes]:
    """Measured times of single operations, by machine and form.

    Columns: ``machine`` (of the catalogue, or a YAML file beside the CSV), ``kind``, ``dtype``, ``time_s``, the dims of
    the kinds by their names (empty where a kind has no such dim), and attributes: ``causal`` (yes, no), ``stride``
    (1x1), ``pass``, ``function``.

    `machines`: already known ones by the name that stands in the file.
    `defaults`: columns that the file may lack because all rows have the same.
    Raises InputError, which names file, line and column.
    """
    path = Path(path)
    known = dict(machines or {})
    given = dict(defaults or {})
    dims = {dim for kind in KINDS.values() for dim in kind.dims}
    columns = {*PLAIN, *dims, *TRUTHS, *PAIRS, *WORDS}
    groups: dict[tuple[Any, ...], list[tuple[dict[str, float], float]]] = {}
    required = [name for name in PLAIN if name not in given]
    for line, cells in read_csv_rows(path, required=required, limit_rows=MAX_ROWS):
        row = {**ONE, **given, **{name: text for name, text in cells.items() if text}}
        for name in cells:
            if name not in columns:
                raise unknown_name(f"column in {path}:", name, sorted(columns))
        for name in PLAIN:
            if name not in row:
                raise InputError(f"{path}: line {line}: {name} is empty")
        if row["kind"] not in KINDS:
            raise InputError(f"{path}: line {line}: {unknown_name('kind of operation', row['kind'], list(KINDS))}")
        if row["machine"] not in known:
            known[row["machine"]] = _machine(row["machine"], path, line)
        entry = KINDS[row["kind"]]
        missing = [dim for dim in entry.dims if dim not in row]
        if missing:
            raise InputError(f"{path}: line {line}: {row['kind']}: no value for {', '.join(missing)}")
        sizes = {dim: read_number(row[dim], path, line, dim, low=1e-9) for dim in entry.dims}
        time = read_number(row["time_s"], path, line, "time_s", low=1e-12, high=LONGEST)
        fixed = tuple(sizes[dim] for dim in FIXED if dim in sizes)
        key = (row["machine"], row["kind"], row["dtype"], tuple(sorted(_attributes(row, path, line).items())), fixed)
        groups.setdefault(key, []).append((sizes, time))
    if not groups:
        raise InputError(f"{path}: no measurements below the header")
    forms = []
    for (name, kind, dtype, attributes, _), rows in groups.items():
        table = {dim: np.array([sizes[dim] for sizes, _ in rows]) for dim in KINDS[kind].dims}
        times = np.array([time for _, time in rows])
        with errors_at(str(path)):
            forms.append(OperationTimes.of(known[name], kind, dtype, table, times, dict(attributes), path.name))
    return forms


def _machine(name: str, path: Path, line: int) -> Machine:
    with errors_at(f"{path}: line {line}"):
        is_file = name.endswith((".yaml", ".yml")) or "/" in name
        return machine(str(path.parent / name) if is_file else name)


def _attributes(row: Mapping[str, str], path: Path, line: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {name: row[name] for name in WORDS if name in row}
    for name in TRUTHS:
        if name in row:
            if row[name] not in ("yes", "no"):
                raise InputError(f"{path}: line {line}: {name} = {row[name][:40]!r}: want yes or no")
            attributes[name] = row[name] == "yes"
    for name in PAIRS:
        if name in row:
            sides = [whole_number(side) for side in row[name].split("x")]
            if None in sides or len(sides) > 3:
                raise InputError(f"{path}: line {line}: {name} = {row[name][:40]!r}: want whole numbers such as 1x1")
            attributes[name] = tuple(sides)
    return attributes
