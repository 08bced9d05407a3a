"""Logs of MLPerf training: lines that hold ":::MLLOG" and a JSON object each, read to one run.

The keys are those of mlcommons/logging (mlperf_logging/mllog/constants.py). A run is its settings, when it was
initialised, trained and evaluated, and what a step took: from per-step statistics where they are logged, else from the
samples between two losses, else from blocks. Evaluation is never part of a step.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, head, opened
from slipstick.common.readers import parse_json
from slipstick.common.records import FrozenDict
from slipstick.workloads.importers.mllog.training_log import LoggedSteps, LogSpan, TrainingLog

MARK = ":::MLLOG"
LIMIT_BYTES, LONGEST_LINE, MOST_EVENTS, MOST_STEPS = 512 * MEGABYTE, 1_000_000, 2_000_000, 2_000_000
HEAD_BYTES = 1 << 20
SPANS = {"init": "initialisation", "block": "training", "epoch": "training", "eval": "evaluation"}
COUNTS_SAMPLES = ("bert", "gpt", "llama", "mixtral", "deepseek", "flux", "stable_diffusion")
"""Benchmarks whose epoch numbers count samples; "gpt3" counts tokens. Others count passes over train_samples."""
STEP_KEYS = ("train_step_time", "step_time")
LATEST = 1e15
"""Milliseconds: the year 33,000."""


def is_mllog(path: str | os.PathLike[str]) -> bool:
    """Whether a file is such a log: the mark stands in its first megabyte."""
    return Path(path).is_file() and MARK in head(path, HEAD_BYTES)


def read_mllog(path: str | os.PathLike[str]) -> TrainingLog:
    """The run of a log; text around its lines (ranks, progress bars) is passed over.

    Raises InputError, which names the file and the line: JSON that is broken, an event without a time or a key, a stop
    without a start, a second run.
    """
    state = _State(str(path))
    for line, event in _events(path):
        state.take(line, event)
    if not state.count:
        raise InputError(f"{path}: no line holds {MARK}")
    return state.finished()


def _events(path: str | os.PathLike[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    mark = MARK.encode()
    with opened(path, LIMIT_BYTES) as stream:
        for number in range(1, 10**9):
            raw = stream.readline(LONGEST_LINE)
            if not raw:
                return
            if len(raw) >= LONGEST_LINE:
                raise InputError(f"{path}: line {number}: longer than {LONGEST_LINE:,} bytes")
            place = raw.find(mark)
            if place < 0:
                continue
            text = raw[place + len(mark) :].decode("utf-8", errors="replace").strip()
            where = f"{path}: line {number}"
            try:
                event = parse_json(text[: text.rfind("}") + 1], where)
            except InputError as error:
                raise InputError(str(error).replace(": line 1:", ":")) from None
            if not isinstance(event, Mapping):
                raise InputError(f"{where}: want an object after {MARK}")
            yield number, event


@dataclass
class _State:
    """What has been read of a log so far."""

    source: str
    count: int = 0
    origin: float | None = None
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    open: dict[str, tuple[int, float, Mapping[str, Any]]] = field(default_factory=dict)
    spans: list[LogSpan] = field(default_factory=list)
    statistics: list[tuple[float, float]] = field(default_factory=list)
    losses: list[tuple[float, float]] = field(default_factory=list)
    run: list[float] = field(default_factory=list)
    status: str = ""

    def take(self, line: int, event: Mapping[str, Any]) -> None:
        """One event."""
        where = f"{self.source}: line {line}"
        key, value = event.get("key"), event.get("value")
        if not isinstance(key, str) or not key:
            raise InputError(f"{where}: an event without a key")
        time = self._time(event.get("time_ms"), where)
        notes = event.get("metadata")
        notes = notes if isinstance(notes, Mapping) else {}
        self.count += 1
        if self.count > MOST_EVENTS:
            raise InputError(f"{where}: more than {MOST_EVENTS:,} events")
        name, _, end = key.rpartition("_")
        if key in ("run_start", "run_stop"):
            self._run(key, time, notes, where)
        elif end == "start" and name in SPANS:
            if name in self.open:
                raise InputError(f"{where}: {key} again; the one of line {self.open[name][0]} has not stopped")
            self.open[name] = (line, time, notes)
        elif end in ("stop", "end") and name in SPANS:
            self._close(name, time, notes, where)
        elif key == "tracked_stats" and isinstance(value, Mapping):
            self._statistics(value, time)
        elif key in ("train_loss", "train_loss_value"):
            samples = self._samples(notes)
            if samples is not None:
                self.losses.append((time, samples))
        elif isinstance(value, str):
            self.texts.setdefault(key, value[:200])
        elif (number := _number(value)) is not None:
            self.numbers.setdefault(key, number)

    def _time(self, given: object, where: str) -> float:
        number = _number(given)
        if number is None or not 0 <= number <= LATEST:
            raise InputError(f"{where}: time_ms = {str(given)[:40]!r}: want milliseconds from 0 to {LATEST:g}")
        if self.origin is None:
            self.origin = number
        return (number - self.origin) / 1e3

    def _run(self, key: str, time: float, notes: Mapping[str, Any], where: str) -> None:
        if key == "run_start" and self.run:
            raise InputError(f"{where}: a second run begins; want one run a file")
        if key == "run_stop" and len(self.run) != 1:
            raise InputError(f"{where}: run_stop without a run_start before it")
        if self.run and time < self.run[0]:
            raise InputError(f"{where}: run_stop {self.run[0] - time:g} s before its run_start")
        self.run.append(time)
        if key == "run_stop":
            self.status = str(notes.get("status", ""))[:40]

    def _close(self, name: str, time: float, notes: Mapping[str, Any], where: str) -> None:
        if name not in self.open:
            raise InputError(f"{where}: {name}_stop without a {name}_start before it")
        line, start, begun = self.open.pop(name)
        if time < start:
            raise InputError(f"{where}: {name}_stop {start - time:g} s before its {name}_start (line {line})")
        first, last = self._samples(begun), self._samples(notes)
        trained = self._scaled(_number(begun.get("epoch_count")))
        if first is not None and last is not None and last > first:
            trained = last - first
        if name == "epoch" and any(span.kind == "training" and span.stop > start for span in self.spans):
            return  # blocks within it say the same
        self.spans.append(LogSpan(SPANS[name], start, time, trained if SPANS[name] == "training" else None))

    def _statistics(self, value: Mapping[str, Any], time: float) -> None:
        seconds = next((number for key in STEP_KEYS if (number := _number(value.get(key))) is not None), None)
        rate, batch = _number(value.get("throughput")), self.numbers.get("global_batch_size")
        if seconds is None and rate and batch:
            seconds = batch / rate
        if seconds is not None and 0 < seconds < 1e9:
            self.statistics.append((time, seconds))

    def _samples(self, notes: Mapping[str, Any]) -> float | None:
        """Samples that were trained until now, by the metadata of an event."""
        if (samples := _number(notes.get("samples_count"))) is not None:
            return self._tokens(samples)
        if (step := _number(notes.get("step"))) is not None and "global_batch_size" in self.numbers:
            return step * self.numbers["global_batch_size"]
        return self._scaled(_number(notes.get("epoch_num", notes.get("first_epoch_num"))))

    def _scaled(self, epochs: float | None) -> float | None:
        if epochs is None:
            return None
        benchmark = self.texts.get("submission_benchmark", "").lower()
        if any(word in benchmark for word in COUNTS_SAMPLES):
            return self._tokens(epochs)
        whole = self.numbers.get("train_samples")
        return epochs * whole if whole else None

    def _tokens(self, count: float) -> float:
        if self.texts.get("submission_benchmark", "").lower() == "gpt3":
            return count / self.numbers.get("max_sequence_length", 2048.0)
        return count

    def finished(self) -> TrainingLog:
        """The run."""
        steps, origin = self._steps()
        return TrainingLog(
            self.source,
            self.texts.get("submission_benchmark", ""),
            self.texts.get("submission_org", ""),
            self.texts.get("submission_platform", ""),
            FrozenDict(self.numbers),
            self.run[1] - self.run[0] if len(self.run) == 2 else None,
            self.status,
            tuple(sorted(self.spans, key=lambda span: span.start)),
            steps,
            origin,
        )

    def _steps(self) -> tuple[tuple[LoggedSteps, ...], str]:
        batch = self.numbers.get("global_batch_size")
        if self.statistics:
            each = [LoggedSteps(max(0.0, time - seconds), 1, seconds) for time, seconds in self.statistics]
            return tuple(each), "statistics of steps"
        if not batch or not math.isfinite(batch) or batch < 1:
            return (), ""
        evaluated = _Seconds([span for span in self.spans if span.kind == "evaluation"])
        between = []
        for (start, before), (stop, after) in zip(self.losses, self.losses[1:], strict=False):
            count = round((after - before) / batch)
            paused = evaluated.within(start, stop)
            if 1 <= count <= MOST_STEPS and stop - start - paused > 0:
                between.append(LoggedSteps(start, count, (stop - start - paused) / count))
        if between:
            return tuple(between), "losses"
        blocks = []
        for span in self.spans:
            count = round(span.samples / batch) if span.kind == "training" and span.samples else 0
            paused = evaluated.within(span.start, span.stop)
            if 1 <= count <= MOST_STEPS and span.seconds - paused > 0:
                blocks.append(LoggedSteps(span.start, count, (span.seconds - paused) / count))
        return tuple(blocks), "blocks" if blocks else ""


class _Seconds:
    """Seconds of some spans that lie between two times, however many spans there are."""

    def __init__(self, spans: Sequence[LogSpan]) -> None:
        self._starts, self._stops = (np.sort([getattr(span, end) for span in spans]) for end in ("start", "stop"))
        self._sums = [np.concatenate([[0.0], np.cumsum(ends)]) for ends in (self._starts, self._stops)]

    def within(self, start: float, stop: float) -> float:
        """What every span has before `stop` less what it has before `start`."""
        return max(0.0, self._before(stop) - self._before(start))

    def _before(self, time: float) -> float:
        started, stopped = (int(np.searchsorted(ends, time)) for ends in (self._starts, self._stops))
        return float(time * (started - stopped) - self._sums[0][started] + self._sums[1][stopped])


def _number(value: object) -> float | None:
    """A finite number, also one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
