"""Dividing the events of a trace among its steps, and counting what belongs to none.

Steps are the spans of a marker (PyTorch's ProfilerStep#N), or what events say by themselves: a number of their step
among their arguments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray, Mask
from slipstick.common.errors import InputError
from slipstick.workloads.runs.event_table import EventTable
from slipstick.workloads.runs.step_profiles import Operation, StepProfile, add_operation

MARKER = r"ProfilerStep#(\d+)"
STEP_ARGUMENTS = ("step", "step_num", "step_number", "iteration")
"""Arguments of an event that number its step, first come first served."""
DEVICE_CATEGORIES = frozenset({"kernel", "memcpy", "memset", "gpu_memcpy", "gpu_memset", "gpu_op"})
"""Event categories (lower case) of work on the accelerator."""
SKIPPED_CATEGORIES = frozenset(
    {"python_function", "user_annotation", "gpu_user_annotation", "trace", "overhead", "ac2g", "fwdbwd"}
)
"""Event categories that are no operations of their own. Events without a category are operations of the host."""
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{]")


@dataclass(frozen=True)
class DividedEvents:
    """Steps of a trace, and how many events belong to none, by why."""

    steps: list[StepProfile]
    left_out: Mapping[str, int]

    def lines(self) -> list[str]:
        """What was left out, in words; nothing where all events belong to a step."""
        return [f"{count:,} {what}" for what, count in self.left_out.items() if count]


def step_marker(text: str) -> re.Pattern[str]:
    """A regular expression for the names of markers, whose first group with a number says the step.

    Raises InputError where it is none, has no group, or repeats a group as a whole.
    """
    where = f"--step-pattern {text[:60]!r}"
    if _REPEATED_GROUP.search(text):  # such as (a+)+$: may take for ever on a name of forty letters
        raise InputError(f"{where}: a group may not be repeated as a whole")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"{where}: no regular expression ({error})") from None
    if pattern.groups < 1:
        raise InputError(f"{where}: want a group that holds the step's number, such as Step#(\\d+)")
    return pattern


def profile_steps(events: EventTable, marker: str = MARKER) -> list[StepProfile]:
    """The steps of `divided_events`, without what was left out.

    Raises InputError as `divided_events`.
    """
    return divided_events(events, marker).steps


def divided_events(events: EventTable, marker: str = MARKER) -> DividedEvents:
    """Divide the events of a trace among its steps.

    Steps are the events whose name matches `marker` (its group is the number); of several markers of one number
    (host and device show the same step) the first in the file counts. An operation on the host belongs to the step
    in which it starts; one on the device to the step in which it was launched, known by the `correlation` argument,
    else to the step in which it starts. Where there is no marker, events that number their step by an argument (one of
    `STEP_ARGUMENTS`, read with the table) make the steps: each from the first of its events to the end of the last.
    Events outside all steps, and of categories that are no operations, are counted.
    Raises InputError where there is neither a marker with a number nor such an argument, or it repeats a group as a
    whole.
    """
    marked = _marked(events, marker)
    skipped = np.array([category.lower() in SKIPPED_CATEGORIES for category in events.categories], dtype=bool)
    on_device = np.array([category.lower() in DEVICE_CATEGORIES for category in events.categories], dtype=bool)
    is_step = np.zeros(len(events), dtype=bool)
    if marked is None:
        steps, begins, ends, step = _numbered(events, skipped, marker)
        inside = step >= 0
    else:
        steps, rows, is_step = marked
        begins = events.start[rows]
        ends = begins + events.duration[rows]
        moment = _launch_times(events, on_device[events.category])
        step = np.searchsorted(begins, moment, side="right") - 1
        inside = (step >= 0) & (moment < ends[step])
    operation = ~skipped[events.category] & ~is_step
    operations = _operations(events, step, inside & operation, on_device, len(steps))
    no_operation = Counter(events.category[skipped[events.category] & ~is_step].tolist())
    left_out = {
        f"spans of category {events.categories[code]!r} are no operations": count
        for code, count in sorted(no_operation.items())
    }
    left_out["operations outside all steps are left out"] = int((operation & ~inside).sum())
    left_out["events without a usable start or duration are left out"] = events.notes.skipped
    others = {phase: count for phase, count in events.notes.phases.items() if phase not in ("X", "B", "E", "M")}
    kinds = ", ".join(f"{phase}: {count:,}" for phase, count in sorted(others.items()))
    left_out[f"events are no spans and have no duration ({kinds})"] = sum(others.values())
    profiles = [
        StepProfile(number, float(begin), float(end - begin), ops)
        for number, begin, end, ops in zip(steps, begins, ends, operations, strict=True)
    ]
    return DividedEvents(profiles, left_out)


def _marked(events: EventTable, marker: str) -> tuple[list[int], IntArray, Mask] | None:
    """Numbers and rows of the markers by time, and which events are markers; None where no name fits."""
    pattern = step_marker(marker)
    matches = ((code, pattern.fullmatch(name)) for code, name in enumerate(events.names))
    numbers = {code: step_number(match) for code, match in matches if match}
    if not numbers:
        return None
    is_step = np.isin(events.name, list(numbers))
    where: dict[int, int] = {}
    for row in np.flatnonzero(is_step).tolist():
        where.setdefault(numbers[int(events.name[row])], row)
    if not where:
        raise InputError(f"no event named like {marker!r} has a finite start and a duration: the trace has no steps")
    rows = np.array([row for _, row in sorted(where.items(), key=lambda each: events.start[each[1]])])
    return [numbers[int(events.name[row])] for row in rows], rows, is_step


def _numbered(events: EventTable, skipped: Mask, marker: str) -> tuple[list[int], FloatArray, FloatArray, IntArray]:
    """Steps by an argument of their events: numbers, begins and ends, and each event's step (-1: none)."""
    for name in STEP_ARGUMENTS:
        stated = events.arguments.get(name)
        if stated is None:
            continue
        usable = (
            ~np.isnan(stated)
            & ~skipped[events.category]
            & (stated >= 0)
            & (stated < 1e15)
            & (stated == np.floor(stated))
        )
        if usable.any():
            break
    else:
        known = f"known names: {', '.join(events.names[:5])}, ..." if events.names else "it holds no complete events"
        raise InputError(
            f"no event named like {marker!r}, and none with an argument {' or '.join(STEP_ARGUMENTS)}: the trace has "
            f"no steps ({known})"
        )
    numbers, place = np.unique(stated[usable], return_inverse=True)
    begins, ends = np.full(len(numbers), np.inf), np.full(len(numbers), -np.inf)
    np.minimum.at(begins, place, events.start[usable])
    np.maximum.at(ends, place, (events.start + events.duration)[usable])
    order = np.argsort(begins, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    step = np.full(len(events), -1, dtype=np.int64)
    step[usable] = rank[place]
    return [int(number) for number in numbers[order]], begins[order], ends[order], step


def _operations(
    events: EventTable,
    step: IntArray,
    inside: Mask,
    on_device: Mask,
    steps: int,
) -> list[dict[str, Operation]]:
    """How often and how long each operation ran in each step."""
    device = on_device[events.category[inside]]
    key = step[inside].astype(np.int64) * len(events.names) * 2 + events.name[inside].astype(np.int64) * 2 + device
    groups, inverse = np.unique(key, return_inverse=True)
    counts = np.bincount(inverse, minlength=len(groups))
    times = np.bincount(inverse, weights=events.duration[inside], minlength=len(groups))
    operations: list[dict[str, Operation]] = [{} for _ in range(steps)]
    for group, count, time in zip(groups.tolist(), counts.tolist(), times.tolist(), strict=True):
        index, rest = divmod(group, len(events.names) * 2)
        one = Operation(count, time, "device" if rest % 2 else "host")
        add_operation(operations[index], events.names[rest // 2], one)
    return operations


def step_number(match: re.Match[str]) -> int:
    """The number of the step that a marker's name holds, in the first group of its pattern that holds one.

    Raises InputError where none does.
    """
    numbers = [text for text in match.groups() if text and text.isdecimal() and len(text) < 19]
    if not numbers:
        held = ", ".join(repr(str(text)[:40]) for text in match.groups()[:4])
        raise InputError(f"step marker {match.group()[:60]!r}: no group of --step-pattern holds a number ({held})")
    return int(numbers[0])


def _launch_times(events: EventTable, device: Mask) -> FloatArray:
    """When each event was caused [s]: its start; for device work the start of the host call that launched it, where
    that is known.
    """
    moment = events.start.copy()
    correlation = events.arguments.get("correlation")
    if correlation is None or not device.any():
        return moment
    known = ~np.isnan(correlation)
    host = np.flatnonzero(known & ~device)
    if not len(host):
        return moment
    order = host[np.argsort(correlation[host], kind="stable")]
    sorted_keys = correlation[order]
    launched = np.flatnonzero(known & device)
    place = np.minimum(np.searchsorted(sorted_keys, correlation[launched]), len(order) - 1)
    hit = sorted_keys[place] == correlation[launched]
    moment[launched[hit]] = events.start[order[place[hit]]]
    return moment
