"""What a user measured of a job: a CSV of runs, iterations, requests or services, with what was set in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError, Problems
from slipstick.common.readers import read_csv_rows, read_number, unknown_columns, whole_of
from slipstick.estimators.simulation.run_quantities import TIME, quantities

MAX_ROWS, MAX_STEPS = 100_000, 1_000_000
RUN, NUMBER = "run", "step"


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """One run that was measured.

    `settings`: what was set in it, as ``job.NAME=VALUE``.
    `series`: quantity -> (values [s], their places in the run from 0).
    """

    settings: tuple[str, ...]
    series: Mapping[str, tuple[FloatArray, npt.NDArray[np.intp]]]

    @property
    def steps(self) -> int | None:
        """Iterations until the last one that was measured; None where only the whole run was."""
        last = [int(places[-1]) + 1 for name, (_, places) in self.series.items() if name != TIME]
        return max(last, default=None)


@dataclass
class _Collected:
    values: dict[str, list[float]] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=dict)


def read_job_measurements(path: str, stages: Sequence[str]) -> tuple[MeasuredRun, ...]:
    """Measured runs of a job.

    A row is an iteration (``step_s``, from the end of the one before; the first from the start of the run), a request
    (``latency_s``), a service of a stage (``STAGE.service_s``) or a whole run (``time_s``); cells may be empty. ``run``
    tells runs apart, ``step`` is the iteration's number from 1 (else they count from the first row of the run), and
    ``job.NAME`` is what was set.
    Raises InputError where a column or a value cannot be used; the message names file, line and column.
    """
    known = quantities(tuple(stages))
    collected: dict[tuple[tuple[str, ...], str], _Collected] = {}
    wholes: list[MeasuredRun] = []
    problems = Problems(path)
    for index, (line, row) in enumerate(read_csv_rows(path, limit_rows=MAX_ROWS)):
        measured = [name for name in row if name in known]
        if not index:
            plain = (name for name in row if not name.startswith("job."))
            problems += unknown_columns(plain, [*known, RUN, NUMBER, "job.NAME"])
            if not measured:
                problems.append(f"no measured column: want one of {', '.join(known)}")
                problems.refuse()
        with problems:
            settings = tuple(f"{name}={text}" for name, text in row.items() if name.startswith("job.") and text)
            key = settings, row.get(RUN, "")
            place = None
            if row.get(NUMBER):
                place = whole_of(row[NUMBER], f"{path}: line {line}: step", 1, MAX_STEPS) - 1
            one, empty = collected.setdefault(key, _Collected()), True
            for name in measured:
                if not row[name]:
                    continue
                empty = False
                value = read_number(row[name], path, line, name, low=0.0 if name != TIME else 1e-12, high=1e9)
                if name == TIME:
                    wholes.append(MeasuredRun(settings, {TIME: (np.array([value]), np.zeros(1, dtype=np.intp))}))
                    continue
                places = one.places.setdefault(name, [])
                if place is not None and places and place <= places[-1]:
                    raise InputError(
                        f"{path}: line {line}: step = {place + 1} comes after step {places[-1] + 1}: want rising "
                        "numbers, or a column 'run' that tells runs apart"
                    )
                places.append(place if place is not None else len(places))
                one.values.setdefault(name, []).append(value)
            if empty:
                raise InputError(f"{path}: line {line}: nothing was measured (all of {', '.join(measured)} are empty)")
    problems.refuse()
    runs = [_run(path, settings, one) for (settings, _), one in collected.items() if one.values]
    if not runs and not wholes:
        raise InputError(f"{path}: no measurements below the header")
    return (*runs, *wholes)


def _run(path: str, settings: tuple[str, ...], one: _Collected) -> MeasuredRun:
    series = {}
    for name, values in one.values.items():
        if not any(values):
            raise InputError(f"{path}: {name}: all of its {len(values)} values are 0 s")
        series[name] = np.array(values), np.array(one.places[name], dtype=np.intp)
    return MeasuredRun(settings, series)
