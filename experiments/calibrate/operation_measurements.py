"""A user's measurements of single operations on many machines: a CSV, a line a measured time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError, Problems, errors_at
from slipstick.common.readers import number_of, read_csv_rows, unknown_columns, unknown_name, whole_number
from slipstick.estimators.gpu.transfer.operation_times import FIXED, OperationTimes
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import KINDS
from slipstick.workloads.transforms.dtype import SPELLINGS

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
    Raises InputError, which names file, lines and columns of all that is wrong.
    """
    path = Path(path)
    known = dict(machines or {})
    given = dict(defaults or {})
    dims = {dim for kind in KINDS.values() for dim in kind.dims}
    columns = sorted({*PLAIN, *dims, *TRUTHS, *PAIRS, *WORDS})
    groups: dict[tuple[Any, ...], list[tuple[int, dict[str, float]]]] = {}
    required = [name for name in PLAIN if name not in given]
    problems, refused = Problems(path), dict[str, InputError]()
    for index, (line, cells) in enumerate(read_csv_rows(path, required=required, limit_rows=MAX_ROWS)):
        if not index:
            problems += unknown_columns(cells, columns)
        row = {**ONE, **given, **{name: text for name, text in cells.items() if text}}
        row["dtype"] = SPELLINGS.get(row.get("dtype", "").lower(), row.get("dtype", ""))
        where, sizes, before = f"{path}: line {line}", dict[str, float](), len(problems)
        for name in [*PLAIN, *(KINDS[row["kind"]].dims if row.get("kind") in KINDS else ())]:
            with problems:
                if not row.get(name):
                    raise InputError(f"{where}: {name} is empty, which {row.get('kind', 'each line')} needs")
                if name == "kind" and row[name] not in KINDS:
                    raise InputError(f"{where}: {unknown_name('kind of operation', row[name], list(KINDS))}")
                if name == "machine" and row[name] not in known:
                    known[row[name]] = _machine(row[name], path, where, refused)
                if name == "time_s":
                    sizes[name] = number_of(row[name], f"{where}: {name}", 1e-12, LONGEST)
                elif name not in PLAIN:
                    sizes[name] = number_of(row[name], f"{where}: {name}", 1e-9)
        with problems:
            attributes = tuple(sorted(_attributes(row, where).items()))
            fixed = tuple(sizes[dim] for dim in FIXED if dim in sizes)
            if len(problems) == before:
                key = (row["machine"], row["kind"], row["dtype"], attributes, fixed)
                groups.setdefault(key, []).append((line, sizes))
    forms = []
    for (name, kind, dtype, attributes, _), rows in groups.items():
        table = {dim: np.array([sizes[dim] for _, sizes in rows]) for dim in ("time_s", *KINDS[kind].dims)}
        with problems, errors_at(f"{path}: line {rows[0][0]}"):
            forms.append(
                OperationTimes.of(known[name], kind, dtype, table, table.pop("time_s"), dict(attributes), path.name)
            )
    problems.refuse()
    if not forms:
        raise InputError(f"{path}: no measurements below the header")
    return forms


def _machine(name: str, path: Path, where: str, refused: dict[str, InputError]) -> Machine:
    """`refused`: what was wrong with names of the lines before, which is said once."""
    if name in refused:
        raise refused[name]
    try:
        with errors_at(where):
            is_file = name.endswith((".yaml", ".yml")) or "/" in name
            return machine(str(path.parent / name) if is_file else name)
    except InputError as error:
        refused[name] = error
        raise


def _attributes(row: Mapping[str, str], where: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {name: row[name] for name in WORDS if name in row}
    for name in TRUTHS:
        if name in row:
            if row[name] not in ("yes", "no"):
                raise InputError(f"{where}: {name} = {row[name][:40]!r}: want yes or no")
            attributes[name] = row[name] == "yes"
    for name in PAIRS:
        if name in row:
            sides = [whole_number(side) for side in row[name].split("x")]
            if None in sides or len(sides) > 3:
                raise InputError(f"{where}: {name} = {row[name][:40]!r}: want whole numbers such as 1x1")
            attributes[name] = tuple(sides)
    return attributes
