"""What the phases of a run are: their share of time, their top operations, the checkpoint to restart them from."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.answer import Event, write_timeline
from slipstick.common.array_types import IntArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.writer import atomic_write, write_json
from slipstick.workloads.runs.step_profiles import Place, StepTable


@dataclass(frozen=True)
class TopOperation:
    """An operation of a phase: total time [s] and invocations over its steps."""

    name: str
    time: float
    count: int


@dataclass(frozen=True)
class Phase:
    """One phase: its label, step numbers, time [s] and share of the run, top operations on host and device, and the
    nearest checkpoint.

    `restart` is the last checkpointed step at or before one of the phase's steps with the smallest distance to it;
    None where the phase comes before the first checkpoint (restart from the beginning).
    """

    label: int
    steps: tuple[int, ...]
    time: float
    share: float
    host: tuple[TopOperation, ...]
    device: tuple[TopOperation, ...]
    checkpoint: int | None
    restart: int | None


@dataclass(frozen=True, eq=False)
class PhaseReport:
    """The phases of a run, longest first."""

    table: StepTable
    labels: IntArray
    phases: tuple[Phase, ...]

    def coverage(self, longest: int = 3) -> float:
        """Share of the run's time in the `longest` longest phases."""
        return sum(phase.share for phase in self.phases[:longest])

    def records(self) -> list[dict[str, Any]]:
        """The phases as plain records, for JSON."""
        return [
            {
                "phase": phase.label,
                "steps": len(phase.steps),
                "first_step": phase.steps[0],
                "last_step": phase.steps[-1],
                "time_s": phase.time,
                "share": phase.share,
                "host": [{"operation": top.name, "time_s": top.time, "count": top.count} for top in phase.host],
                "device": [{"operation": top.name, "time_s": top.time, "count": top.count} for top in phase.device],
                "nearest_checkpoint_step": phase.checkpoint,
                "restart_step": phase.restart,
            }
            for phase in self.phases
        ]

    def events(self) -> Iterator[Event]:
        """Two rows of a timeline, as the paper's Fig. 3 has them: the runs of one phase, and below them the steps."""
        steps, labels = self.table.steps, self.labels.tolist()
        begins = [i for i in range(len(steps)) if i == 0 or labels[i] != labels[i - 1]]
        for first, last in zip(begins, [*(i - 1 for i in begins[1:]), len(steps) - 1], strict=True):
            start, end = steps[first].start, steps[last].start + steps[last].duration
            facts = FrozenDict[float](first_step=steps[first].step, last_step=steps[last].step)
            yield Event(f"phase {labels[first]}", "Phase Breakdown", start, end, "phase", facts)
        for step in steps:
            yield Event(f"step {step.step}", "Profile Breakdown", step.start, step.start + step.duration, "step")

    def save(self, folder: str | Path) -> tuple[Path, Path, Path]:
        """Write `phases.json`, `phases.csv` and `phases.trace.json` into `folder`; returns their paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        summary, table, trace = folder / "phases.json", folder / "phases.csv", folder / "phases.trace.json"
        assignment = {str(step.step): label for step, label in zip(self.table.steps, self.labels.tolist(), strict=True)}
        write_json(summary, {"phases": self.records(), "step_phase": assignment}, indent=1)
        with atomic_write(table) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["phase", "place", "operation", "time_s", "count", "phase_time_s", "phase_share"])
            for phase in self.phases:
                for place, tops in (("host", phase.host), ("device", phase.device)):
                    writer.writerows(
                        [phase.label, place, top.name, top.time, top.count, phase.time, phase.share] for top in tops
                    )
        write_timeline(trace, self.events())
        return summary, table, trace


def report_phases(table: StepTable, labels: Sequence[int] | IntArray, top: int = 5) -> PhaseReport:
    """Describe the phases that `labels` (one a step) make.

    Raises InputError where their number does not match the steps.
    """
    index = np.asarray(labels, dtype=np.int64)
    if len(index) != len(table.steps):
        raise InputError(f"{len(index)} labels for {len(table.steps)} steps")
    durations = table.durations
    numbers = np.array([step.step for step in table.steps])
    checkpoints = np.array([step.step for step in table.steps if step.checkpoint])
    total = float(durations.sum())
    phases = []
    for label in np.unique(index).tolist():
        rows = np.flatnonzero(index == label)
        time = float(durations[rows].sum())
        nearest, restart = _checkpoints(numbers[rows], checkpoints)
        tops = {place: _top_operations(table, rows, place, top) for place in ("host", "device")}
        phases.append(
            Phase(
                label,
                tuple(numbers[rows].tolist()),
                time,
                time / total if total else 0.0,
                tops["host"],
                tops["device"],
                nearest,
                restart,
            )
        )
    return PhaseReport(table, index, tuple(sorted(phases, key=lambda phase: -phase.time)))


def _top_operations(
    table: StepTable, rows: np.ndarray[Any, np.dtype[np.intp]], place: Place, top: int
) -> tuple[TopOperation, ...]:
    times = np.asarray(table.times[rows].sum(axis=0)).ravel()
    counts = np.asarray(table.counts[rows].sum(axis=0)).ravel()
    here = [column for column in np.argsort(-times).tolist() if table.places[column] == place and counts[column] > 0]
    return tuple(TopOperation(table.names[column], float(times[column]), int(counts[column])) for column in here[:top])


def _checkpoints(
    steps: np.ndarray[Any, np.dtype[np.int64]], checkpoints: np.ndarray[Any, np.dtype[np.int64]]
) -> tuple[int | None, int | None]:
    """The checkpoint nearest to any of the steps, and the nearest one from which the phase can be reached by going
    forward.
    """
    if not len(checkpoints):
        return None, None
    distance = steps[:, None] - checkpoints[None, :]
    nearest = int(checkpoints[int(np.argmin(np.abs(distance).min(axis=0)))])
    forward = np.where(distance > 0, distance, np.iinfo(np.int64).max).min(
        axis=0
    )  # the phase's step comes after the checkpoint
    best = int(np.argmin(forward))
    return nearest, int(checkpoints[best]) if forward[best] < np.iinfo(np.int64).max else None
