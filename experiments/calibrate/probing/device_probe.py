"""A minute on a GPU that torch sees: the operations that teach most about it, timed and kept for ``--measured``.

What is not yet known of the machine is what the law across devices believes of it; the planner of that law says which
operation narrows it most (`estimators.gpu.transfer.next_measurements`), and as many are timed as the seconds allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.next_measurements import GRIDS, NextRow, candidates, next_rows
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.experiments.measure.clocks.anchor_times import AnchorOperation, Stopwatch, timed
from slipstick.experiments.measure.clocks.timing import Task
from slipstick.hwmodels.catalog import machine_of_device
from slipstick.hwmodels.machine import Machine

MOST = 40
"""Operations of one probe: the planner looks no further."""
SHARE = 1 / 400
"""Of the seconds, what one call may take by its forecast: a row is called some dozens of times."""
TYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class DeviceProbe:
    """What a probe of a GPU found.

    `rows`: operations in the order of the planner with their measured times [s].
    `offered`: how many there were to choose from.
    `seconds`: that it took.
    """

    machine: Machine
    rows: tuple[tuple[NextRow, float], ...]
    offered: int
    seconds: float

    def table(self) -> list[dict[str, object]]:
        """One row an operation: seconds measured and as forecast before, their ratio, what it was known to."""
        return [
            {
                "operation": row.name,
                "sizes": ", ".join(f"{dim} = {size:g}" for dim, size in row.dims),
                "measured_s": measured,
                "predicted_s": row.time,
                "ratio": measured / row.time,
                "mean_spread_after": row.left,
            }
            for row, measured in self.rows
        ]


def machine_called(device: str) -> Machine:
    """The machine of the catalogue that a device calls itself.

    Raises InputError where the catalogue has none of that name.
    """
    named = machine_of_device(device)
    if named is None:
        raise InputError(f"{device}: no machine of the catalogue has this name: give --on MACHINE (or its YAML file)")
    return named


def probe_device(
    known: DeviceCalibration,
    machine: Machine,
    watch: Stopwatch,
    call: Callable[[AnchorOperation], Task],
    out: Path,
    seconds: float = 60.0,
    progress: Callable[[str], None] = lambda text: None,
) -> DeviceProbe:
    """Time the operations that teach most about a GPU.

    `known`: the law across devices.
    `watch`, `call`: times a call; makes an operation one (`anchor_times.torch_call`).
    `out`: the CSV for ``--measured``, written after each row; rows that it has are not timed again.
    `seconds`: about how long; one operation is always timed.
    Raises InputError where the machine's own rows are in the law already, or no operation can be timed.
    """
    begin = time.perf_counter()
    forecast = known.forecast(machine, anchors=())
    if not forecast.belief.roots.any():
        raise InputError(
            f"{machine.name} was measured for the law that ships, whose rows say more than a minute does: a run "
            "of your own corrects it, --measured 23.4ms or its log"
        )
    offered: list[OperationTimes] = []
    for one in known.classes:
        kind, dtype = one.name.split(".")[:2]
        if dtype in TYPES and kind in GRIDS:
            with suppress(InputError):  # the machine has no engine for the type
                rows = candidates([one.name], machine)
                offered += [row for row in rows if float(forecast.predict([row]).time[0]) <= SHARE * seconds]
    if not offered:
        raise InputError(
            f"--budget-seconds {seconds:g}: every operation is predicted to take longer than {SHARE:.4g} of it"
        )
    taken: list[tuple[NextRow, float]] = []
    for row in next_rows(forecast.belief, offered, min(MOST, len(offered))):
        if taken and time.perf_counter() - begin > seconds:
            break
        wanted = AnchorOperation.of(row.name, row.dims)
        measured = timed([wanted], out, watch, call, progress).get(wanted)
        if measured is not None:
            taken.append((row, measured))
    return DeviceProbe(machine, tuple(taken), len(offered), time.perf_counter() - begin)
