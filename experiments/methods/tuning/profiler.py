"""A profiler that stays on for a whole training run and keeps statistics only, in the shape of TPUPoint's (Section
III).

Use::

    profiler = Profiler()
    profiler.start(analyzer=duration_scan())
    for batch in loader:
        with profiler.step():
            train(batch)
    report = profiler.stop()

The run is recorded in windows of at most a million events or sixty seconds by `torch.profiler`; a thread of its own
turns each window into counts and total durations per step while training goes on, and hands every step to the
analyzer. The raw events are dropped.

Like the paper's, which requests one profile after the other while the program goes on, it need not see every step: with
`Sampling` it records some steps of every so many. The steps between them run without the profiler; the analyzer is
given the recorded ones, with their own numbers.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch
from slipstick.workloads.runs.event_steps import profile_steps
from slipstick.workloads.runs.event_table import EventTable, TraceNotes
from slipstick.workloads.runs.step_profiles import StepProfile

LARGEST_WINDOW = 1_000_000
"""Events of one profile (TPUPoint, Section III-A)."""
LONGEST_WINDOW = 60.0
"""Seconds of one profile (TPUPoint, Section III-A)."""


class Analyzer(Protocol):
    """What takes the steps one by one as they are known: `slipstick.estimators.sampling.phases.LinearScan` is one."""

    def observe(self, step: StepProfile) -> list[int]:
        """Take the next step; labels of the steps that it settles."""
        ...

    def finish(self) -> list[int]:
        """Labels of the steps that still wait."""
        ...


@dataclass(frozen=True)
class ProfilerReport:
    """All steps, the analyzer's label of each (empty without one), and how many windows it took."""

    steps: tuple[StepProfile, ...]
    labels: tuple[int, ...]
    windows: int


@dataclass(frozen=True)
class Sampling:
    """Which steps are recorded: `recorded` of every `every`, the first ones."""

    recorded: int
    every: int

    def __post_init__(self) -> None:
        if not 1 <= self.recorded <= self.every:
            raise InputError(
                f"sampling: recorded = {self.recorded} of every = {self.every} steps: want 1 to {self.every}"
            )


ALL_STEPS = Sampling(1, 1)


class Profiler:
    """Records steps of a torch program.

    `stop_after`: the breakpoint: steps after which recording ends by itself; None goes on until `stop`.
    `window_events`, `window_seconds`: limits of one window; more than the published ones are refused.
    `sampling`: steps to record; all of them by default.
    `on_step`: called in the analysis thread with every finished step (the tuner listens here).
    """

    def __init__(
        self,
        stop_after: int | None = None,
        window_events: int = LARGEST_WINDOW,
        window_seconds: float = LONGEST_WINDOW,
        sampling: Sampling = ALL_STEPS,
        on_step: Callable[[StepProfile], None] | None = None,
    ) -> None:
        if not 0 < window_events <= LARGEST_WINDOW:
            raise InputError(f"window_events = {window_events}: want 1 to {LARGEST_WINDOW}")
        if not 0 < window_seconds <= LONGEST_WINDOW:
            raise InputError(f"window_seconds = {window_seconds} s: want more than 0, at most {LONGEST_WINDOW:g}")
        self._stop_after, self._window_events, self._window_seconds = stop_after, window_events, window_seconds
        self._sampling, self._on_step = sampling, on_step
        self._steps: list[StepProfile] = []
        self._labels: list[int] = []
        self._marks: dict[int, tuple[str | None, bool, float | None]] = {}
        self._windows: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._analyzer: Analyzer | None = None
        self._session: Any = None
        self._count = self._started = self._closed = 0
        self._ended = True
        self._events_per_step = 0.0
        self._opened = self._origin = 0.0

    def start(self, analyzer: Analyzer | None = None) -> None:
        """Begin to record; `analyzer` takes the steps while the program runs, None keeps them for later.

        Raises InputError where it records already, or torch is not installed.
        """
        if self._thread is not None:
            raise InputError("the profiler records already; stop it first")
        self._analyzer = analyzer
        self._origin = time.perf_counter()
        self._thread = threading.Thread(target=self._analyze, name="slipstick-profiler", daemon=True)
        self._thread.start()
        self._ended = False
        self._open()

    @contextmanager
    def step(self, label: str | None = None) -> Iterator[StepMark]:
        """One step of the program; `label` says what kind of step it is, where that is known."""
        mark = StepMark()
        if self._ended:
            yield mark
            return
        number = self._count
        if number % self._sampling.every >= self._sampling.recorded:
            yield mark
            self._count += 1
            self._end_at_breakpoint()
            return
        if self._session is None:
            self._open()

        began = time.thread_time()
        with torch.profiler.record_function(f"ProfilerStep#{number}"):
            yield mark
        self._marks[number] = (label, mark.checkpoint, time.thread_time() - began)
        self._count += 1
        in_window = self._count - self._started
        full = (
            in_window * self._events_per_step >= 0.9 * self._window_events if self._events_per_step else in_window >= 8
        )
        pauses = self._count % self._sampling.every >= self._sampling.recorded
        if pauses or full or time.perf_counter() - self._opened >= 0.9 * self._window_seconds:
            self._close()  # the next step to be recorded opens a window again
        self._end_at_breakpoint()

    def _end_at_breakpoint(self) -> None:
        if self._stop_after is not None and self._count >= self._stop_after:
            self._ended = True
            if self._session is not None:
                self._close()

    def stop(self) -> ProfilerReport:
        """End the recording, wait for the analysis, and return the steps.

        Raises InputError where it was not started.
        """
        if self._thread is None:
            raise InputError("the profiler was not started")
        self._ended = True
        if self._session is not None:
            self._close()
        self._windows.put(None)
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure
        if self._analyzer is not None:
            self._labels.extend(self._analyzer.finish())
        return ProfilerReport(tuple(self._steps), tuple(self._labels), self._closed)

    def _open(self) -> None:
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self._session = torch.profiler.profile(activities=kinds)
        self._session.start()
        self._started, self._opened = self._count, time.perf_counter()

    def _close(self) -> None:
        session, self._session = self._session, None
        session.stop()
        events = session.profiler.kineto_results.events()
        taken = self._count - self._started
        if taken:
            self._events_per_step = len(events) / taken
        self._closed += 1
        self._windows.put(events)

    def _analyze(self) -> None:
        """The analysis thread: one window at a time, to statistics."""
        try:
            while (events := self._windows.get()) is not None:
                table = events_of(events)
                if not any(name.startswith("ProfilerStep#") for name in table.names):
                    continue
                for step in profile_steps(table):
                    label, checkpoint, worked = self._marks.pop(step.step, (None, False, None))
                    known = replace(
                        step,
                        start=step.start + table.origin,
                        label=label,
                        checkpoint=checkpoint,
                        processor_time=worked,
                    )
                    self._steps.append(known)
                    if self._analyzer is not None:
                        self._labels.extend(self._analyzer.observe(known))
                    if self._on_step is not None:
                        self._on_step(known)
        except BaseException as error:  # re-raised by stop(), in the program's own thread
            self._failure = error


@dataclass
class StepMark:
    """What the program says about the running step."""

    checkpoint: bool = False


def events_of(events: Any) -> EventTable:
    """Events of a torch profiling session (`kineto_results.events()`) as columns; annotations count as operations."""
    from torch.autograd import DeviceType

    on_host = DeviceType.CPU
    names: dict[str, int] = {}
    categories = {"cpu_op": 0, "kernel": 1, "user_annotation": 2}
    rows: list[tuple[int, int, int, int, int]] = []
    for event in events:
        name = event.name()
        device = event.device_type() != on_host
        kind = 1 if device else 0
        if name.startswith("ProfilerStep#"):
            if device:
                continue
            kind = 2
        code = names.setdefault(name, len(names))
        # ids pair a launch with its kernel: a run without a device needs none
        pair = event.correlation_id() if device or name.startswith("cuda") else -1
        rows.append((code, kind, event.start_ns(), event.duration_ns(), pair))
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    origin = int(table[:, 2].min()) if len(table) else 0
    zeros = np.zeros(len(table), dtype=np.int32)
    return EventTable(
        names=tuple(names),
        categories=tuple(categories),
        processes=("0",),
        threads=("0",),
        name=table[:, 0].astype(np.int32),
        category=table[:, 1].astype(np.int32),
        process=zeros,
        thread=zeros,
        start=np.asarray((table[:, 2] - origin) * 1e-9, dtype=np.float64),
        duration=np.asarray(table[:, 3] * 1e-9, dtype=np.float64),
        arguments={"correlation": np.where(table[:, 4] < 0, np.nan, table[:, 4].astype(np.float64))},
        origin=origin * 1e-9,
        notes=TraceNotes(),
    )
