"""Cases written as CSV for any program, and its predictions read back."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_text
from slipstick.common.readers import read_csv_rows
from slipstick.common.writer import atomic_write
from slipstick.experiments.scoring.scored_cases import CaseSet, Input, StatedTime

SHOWN = 5
"""Errors of one file that are listed; the rest are counted."""


def write_cases(cases: CaseSet, path: Path) -> None:
    """A row a case: case, group, measured_s, and the inputs in SI units; rows of numbers as JSON lists.

    A prediction for a group is a held-out one only where `measured_s` of that group was not used for it.
    """
    names = list(dict.fromkeys(name for one in cases.measured for name in one.case.inputs))
    with atomic_write(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["case", "group", "measured_s", *names])
        for one in cases.measured:
            values = [_cell(one.case.inputs.get(name, "")) for name in names]
            writer.writerow([csv_text(one.case.name), csv_text(one.case.group), repr(one.time), *values])


def _cell(value: Input) -> str:
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return csv_text(value) if isinstance(value, str) else repr(value)


def read_predictions(cases: CaseSet, path: Path) -> list[StatedTime | None]:
    """Predictions by case, in the order of the cases; None where the file has none.

    Columns: case, time_s, and low_s and high_s where there is a band (both or none).
    Raises InputError, which names the lines of unknown or repeated cases, and of times that are no positive finite
    numbers, all at once.
    """
    places = {one.case.name: place for place, one in enumerate(cases.measured)}
    written = {csv_text(name): name for name in places}
    result: list[StatedTime | None] = [None] * len(places)
    errors = []
    for line, row in read_csv_rows(path, ("case", "time_s")):
        name = written.get(row["case"], row["case"])
        if name not in places:
            errors.append(f"line {line}: case {name!r} is none of the {len(places):,} of {cases.name}")
        elif result[places[name]] is not None:
            errors.append(f"line {line}: case {name!r} stands twice")
        else:
            try:
                result[places[name]] = _prediction(row)
            except (InputError, ValueError) as error:
                errors.append(f"line {line}: {error}")
    if errors:
        raise InputError(_listed(path, errors))
    return result


def _prediction(row: dict[str, str]) -> StatedTime:
    low, high = row.get("low_s", ""), row.get("high_s", "")
    return StatedTime(float(row["time_s"]), float(low) if low else None, float(high) if high else None)


def _listed(path: Path, errors: Sequence[str]) -> str:
    more = f"; and {len(errors) - SHOWN:,} more" if len(errors) > SHOWN else ""
    return f"{path}: {'; '.join(errors[:SHOWN])}{more}"
