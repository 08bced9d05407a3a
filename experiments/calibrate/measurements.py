"""A user's measurements: a CSV of times with what was set in each run."""

from __future__ import annotations

from slipstick.estimators.core.estimate import Measurement
from slipstick.experiments.question.settings import machine_change, number_of
from slipstick.hwmodels.files.readers import InputError, read_csv_rows, read_number, unknown_name
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

SPACES = ("run", "machine", "workload")
PLAIN = ("time_s", "group", "protocol")
MAX_ROWS = 100_000


def read_measurements(path: str, workload: Workload, machine: Machine) -> tuple[Measurement, ...]:
    """Measurements of one workload on one machine.

    The CSV has a column ``time_s`` and columns named as settings are: ``run.threads``, ``machine.clock``,
    ``workload.batch``; ``group`` says what is held out together, ``protocol`` how it was measured.

    Raises
    ------
    InputError
        Where a column or a value cannot be used; the message names file, line and column.
    """
    measurements: list[Measurement] = []
    seen: dict[tuple[str, ...], int] = {}
    for line, row in read_csv_rows(path, required=("time_s",), limit_rows=MAX_ROWS):
        settings: dict[str, dict[str, float]] = {space: {} for space in SPACES}
        for column, text in row.items():
            space, dot, name = column.partition(".")
            if column in PLAIN:
                continue
            if not dot or space not in SPACES:
                known = [*PLAIN, "run.NAME", "machine.NAME", "workload.NAME"]
                raise unknown_name(f"column in {path}:", column, known)
            try:
                value = machine_change(column, text, machine) if space == "machine" else number_of(column, text)
            except InputError as error:
                raise InputError(f"{path}: line {line}: {error}") from None
            settings[space][name] = value
        time = read_number(row["time_s"], path, line, "time_s", low=1e-12)
        key = tuple(text for column, text in row.items() if column != "time_s")
        if key in seen and len(row) > 1 and "group" not in row:
            raise InputError(
                f"{path}: line {line}: the same settings as line {seen[key]}; average repeats, or "
                "distinguish them by a column 'group'"
            )
        seen[key] = line
        unknown = set(settings["workload"]) - workload.symbols
        if unknown:
            raise unknown_name(f"symbol of workload {workload.name!r}", sorted(unknown)[0], sorted(workload.symbols))
        changes = {
            name: int(value) if isinstance(machine.get(name), int) else value
            for name, value in settings["machine"].items()
        }
        measurements.append(
            Measurement(
                workload.bind_known(settings["workload"]),
                machine.using(changes) if changes else machine,
                time,
                Table(settings["run"]),
                protocol=row.get("protocol", ""),
                group=row.get("group", ""),
            )
        )
    if not measurements:
        raise InputError(f"{path}: no measurements below the header")
    return tuple(measurements)
