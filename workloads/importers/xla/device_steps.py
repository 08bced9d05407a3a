"""Steps of profiles that XLA wrote (TPUs, JAX, TensorFlow): what each step did, from lines of events.

A profile has planes (a device, or the host) with lines (threads, streams, "Steps", "XLA Ops"); both its forms, XPlane
and the trace of TensorBoard, hand the same events here. Steps are the line "Steps" of a device; without one the host's
step annotations (argument step_num, as `jax.profiler.StepTraceAnnotation` writes); without those the runs of modules on
the line "XLA Modules". Operations are those of the lines "XLA Ops", or any event that names its hlo_op; an operation
that holds others (a loop) counts its own time alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.workloads.runs.step_profiles import Operation, Place, StepProfile

STEP_LINES, OPERATION_LINES, MODULE_LINES = ("Steps",), ("XLA Ops", "Async XLA Ops"), ("XLA Modules",)
FEEDING = re.compile(r"infeed|outfeed|TransferBuffer|Linearize|IteratorGetNext|DecodeAndCrop", re.IGNORECASE)
"""Events of the host that feed the device: counted where they start."""
MOST_STEPS = 2_000_000
_NUMBER = re.compile(r"(\d{1,18})\s*$")


@dataclass(frozen=True)
class ProfiledEvent:
    """One event: where it is shown, its name, start and duration [s], and what its arguments say of it."""

    plane: str
    line: str
    name: str
    start: float
    duration: float
    step: int | None = None
    operation: str | None = None

    @property
    def on_device(self) -> bool:
        """Whether the plane is an accelerator's."""
        return self.plane.startswith("/device:") and "CPU" not in self.plane


def steps_of(events: Iterable[ProfiledEvent], source: str) -> list[StepProfile]:
    """Step profiles of a profile's events.

    Raises InputError where the profile shows no steps.
    """
    steps: dict[str, list[ProfiledEvent]] = defaultdict(list)
    noted: list[ProfiledEvent] = []
    modules: dict[str, list[ProfiledEvent]] = defaultdict(list)
    work: dict[tuple[str, str], list[ProfiledEvent]] = defaultdict(list)
    host: list[ProfiledEvent] = []
    for event in events:
        if event.on_device and event.line in STEP_LINES:
            steps[event.plane].append(event)
        elif event.on_device and event.line in MODULE_LINES:
            modules[event.plane].append(event)
        elif (event.on_device and event.line in OPERATION_LINES) or event.operation is not None:
            work[event.plane, event.line].append(event)
        elif event.step is not None:
            noted.append(event)
        elif FEEDING.search(event.name):
            host.append(event)
    chosen, device = _steps(steps, noted, modules, work)
    if not chosen:
        raise InputError(
            f"{source}: shows no steps: no line 'Steps', no event with step_num, no 'XLA Modules' "
            "(profile with jax.profiler.StepTraceAnnotation)"
        )
    if len(chosen) > MOST_STEPS:
        raise InputError(f"{source}: {len(chosen)} steps: more than {MOST_STEPS}")
    ops = [
        operation for (plane, _), lines in work.items() if device in (None, plane) for operation in _own_times(lines)
    ]
    return _divided(chosen, ops, [(event.name, event.start, event.duration) for event in host])


def _steps(
    steps: dict[str, list[ProfiledEvent]],
    noted: list[ProfiledEvent],
    modules: dict[str, list[ProfiledEvent]],
    work: dict[tuple[str, str], list[ProfiledEvent]],
) -> tuple[list[tuple[int, float, float]], str | None]:
    """Number, start and end of every step, and the device they are of; the busiest of several stands for all."""

    def busy(plane: str) -> float:
        return sum(event.duration for (device, _), lines in work.items() if device == plane for event in lines)

    if steps:
        device = max(sorted(steps), key=busy)
        return _numbered(steps[device]), device
    if noted:
        return _numbered(noted), None
    if modules:
        device = max(sorted(modules), key=busy)
        runs = sorted(modules[device], key=lambda event: event.start)
        return [(i, event.start, event.start + event.duration) for i, event in enumerate(runs)], device
    return [], None


def _numbered(events: Sequence[ProfiledEvent]) -> list[tuple[int, float, float]]:
    """Steps by start; of several events of one number (host threads) the first counts."""
    steps: dict[int, tuple[int, float, float]] = {}
    for place, event in enumerate(sorted(events, key=lambda event: event.start)):
        match = _NUMBER.search(event.name)
        number = event.step if event.step is not None else int(match.group(1)) if match else place
        steps.setdefault(number, (number, event.start, event.start + event.duration))
    return sorted(steps.values(), key=lambda step: step[1])


def _own_times(events: Sequence[ProfiledEvent]) -> list[tuple[str, float, float]]:
    """Name, start and own time of the events of one line: what an event holds is its own where it is shown."""
    ordered = sorted(events, key=lambda event: (event.start, -event.duration))
    durations = [event.duration for event in ordered]
    open_: list[int] = []
    for index, event in enumerate(ordered):
        while open_ and _end(ordered[open_[-1]]) <= event.start:
            open_.pop()
        if open_ and _end(event) <= _end(ordered[open_[-1]]) * (1 + 1e-12):
            durations[open_[-1]] -= event.duration
        open_.append(index)
    names = (short_name(event.operation or event.name) for event in ordered)
    return [(name, event.start, max(0.0, time)) for name, event, time in zip(names, ordered, durations, strict=True)]


def _end(event: ProfiledEvent) -> float:
    return event.start + event.duration


def short_name(name: str) -> str:
    """The name of an operation shown as its whole text: what stands before ` = `, without `%`."""
    return name.partition(" = ")[0].lstrip("%").strip() or "unnamed"


def _divided(
    steps: list[tuple[int, float, float]],
    device: Iterable[tuple[str, float, float]],
    host: Iterable[tuple[str, float, float]],
) -> list[StepProfile]:
    """Operations by the step in which they start."""
    begins = [begin for _, begin, _ in steps]
    sums: list[dict[tuple[str, Place], list[float]]] = [{} for _ in steps]
    kinds: tuple[tuple[Place, Iterable[tuple[str, float, float]]], ...] = (("device", device), ("host", host))
    for place, events in kinds:
        for name, start, time in events:
            at = bisect_right(begins, start) - 1
            if at >= 0 and start < steps[at][2]:
                entry = sums[at].setdefault((name, place), [0.0, 0.0])
                entry[0] += 1
                entry[1] += time
    profiles = []
    for (number, begin, end), totals in zip(steps, sums, strict=True):
        operations: dict[str, Operation] = {}
        for (name, place), (count, time) in totals.items():
            label = name if name not in operations else f"{name} ({place})"
            operations[label] = Operation(int(count), time, place)
        profiles.append(StepProfile(number, begin, end - begin, operations))
    return profiles
