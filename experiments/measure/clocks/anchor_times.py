"""Operations that a calibration across devices wants of a machine, timed one by one where torch sees the machine.

A GPU is timed by its events around calls that a graph replays, so that no host stands between two kernels, and data
stay where the call before left them: what the public times of the calibration that ships were taken by. Where a call
cannot be captured, it is launched again and again. A processor is timed by wall time on all threads of torch. The
value is the median over repeats.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch
from slipstick.common.readers import read_csv_rows, read_number
from slipstick.common.writer import write_text
from slipstick.experiments.measure.clocks.timing import Protocol as Timed
from slipstick.experiments.measure.clocks.timing import Task, measure
from slipstick.experiments.measure.clocks.torch_calls import call_of
from slipstick.workloads.graph.kinds import operation

CAPTURED = 20
"""Calls in one replayed graph."""
SAMPLE_SECONDS, MOST_CALLS = 5e-3, 2000
LEADING = ("kind", "dtype", "causal", "time_s")

Sizes: TypeAlias = tuple[tuple[str, float], ...]
"""Dims of an operation by name, sorted by it."""


@dataclass(frozen=True)
class AnchorOperation:
    """An operation to time: kind and data type by the taxonomy, and its dims by name, sorted (`of`)."""

    kind: str
    dtype: str
    sizes: Sizes

    @classmethod
    def of(cls, name: str, sizes: Iterable[tuple[str, float]]) -> AnchorOperation:
        """From a class of operations ("gemm.bfloat16") and its dims (numbers of elements) in any order."""
        kind, dtype = name.split(".")[:2]
        return cls(kind, dtype, tuple(sorted(sizes)))

    @property
    def causal(self) -> str:
        """As the CSV has it: "" where the kind has no mask."""
        sizes = dict(self.sizes)
        return "" if "queries" not in sizes else "yes" if sizes["queries"] > 1 else "no"


class Stopwatch(Protocol):
    """Times one call."""

    def samples(self, task: Task) -> Sequence[float]:
        """Seconds of one call, several times."""


@dataclass(frozen=True)
class EventStopwatch:
    """A GPU's events around replays of a captured graph, where the device has graphs.

    `cuda`: torch.cuda, or what has its `Event` and `synchronize`, and `CUDAGraph` and `graph` where it has graphs.
    """

    cuda: Any
    repeats: int = 11
    warmups: int = 3

    def samples(self, task: Task) -> Sequence[float]:
        """Seconds of one call, `repeats` of them."""
        for _ in range(self.warmups):
            task()
        self.cuda.synchronize()
        launch, held = self._captured(task)
        once = self._elapsed(launch, 1)
        calls = max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / max(once, 1e-9))))
        return [self._elapsed(launch, calls) / (calls * held) for _ in range(self.repeats)]

    def _captured(self, task: Task) -> tuple[Callable[[], object], int]:
        """What launches the work, and how many calls of the task that is."""
        if not hasattr(self.cuda, "CUDAGraph"):
            return task, 1
        try:
            graph = self.cuda.CUDAGraph()
            with self.cuda.graph(graph):
                for _ in range(CAPTURED):
                    task()
        except RuntimeError:  # torch: an operation that cannot be captured
            self.cuda.synchronize()
            return task, 1
        graph.replay()
        return graph.replay, CAPTURED

    def _elapsed(self, launch: Callable[[], object], calls: int) -> float:
        start, end = self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)
        self.cuda.synchronize()
        start.record()
        for _ in range(calls):
            launch()
        end.record()
        self.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3


@dataclass(frozen=True)
class WallStopwatch:
    """A processor: wall time, all threads of torch."""

    repeats: int = 11

    def samples(self, task: Task) -> Sequence[float]:
        """Seconds of one call, at most `repeats` of them."""
        timed = Timed(clock="wall", repeats=self.repeats, sample_seconds=SAMPLE_SECONDS, budget_seconds=20.0)
        return measure({"row": task}, timed)["row"].samples


def stopwatch(device: str) -> tuple[Stopwatch, str]:
    """What times calls on a device ("cpu", "cuda", "rocm", "mps"), and what the device calls itself.

    Raises InputError where the name is unknown, or torch sees no such device here.
    """
    from slipstick.experiments.measure.clocks.torch_device import torch_device

    place = torch_device(device)
    if not place.launches:
        return WallStopwatch(), "this host's processor"

    return EventStopwatch(torch.mps if place.place == "mps" else torch.cuda), place.model


def torch_call(wanted: AnchorOperation, place: str) -> Task:
    """The operation as a call of torch on a device (`torch_calls`)."""
    sizes = {name: round(size) for name, size in wanted.sizes}
    return call_of(operation("anchor", wanted.kind, sizes, wanted.dtype, {"causal": wanted.causal == "yes"}), place)


def timed(
    rows: Sequence[AnchorOperation],
    path: Path,
    watch: Stopwatch,
    call: Callable[[AnchorOperation], Task],
    progress: Callable[[str], None] = lambda text: None,
) -> dict[AnchorOperation, float]:
    """Seconds of each row, kept in a CSV for ``--measured`` as soon as they are known.

    Rows that the file has already are not measured again, so that a stopped measurement goes on where it was; rows that
    cannot be measured are named and left out.

    `path`: written whole after each row.
    `call`: makes a row something to call (`torch_call`).
    `progress`: hears a line a row.
    Raises InputError where the file holds something else, or no row could be measured.
    """
    known = read_rows(path) if path.exists() else {}
    for place, row in enumerate(rows, 1):
        label = f"{place} of {len(rows)}: {row.kind}.{row.dtype} " + ", ".join(f"{n} = {s:g}" for n, s in row.sizes)
        if row in known:
            progress(f"{label}: {known[row]:.4g} s, in {path.name} already")
            continue
        try:
            samples = watch.samples(call(row))
        except (InputError, RuntimeError) as error:  # torch's own: a shape without a kernel, no memory left
            progress(f"{label}: left out: {str(error)[:160]}")
            continue
        known[row] = statistics.median(samples)
        write_rows(path, known)
        progress(f"{label}: {known[row]:.4g} s, repeats from {min(samples):.4g} to {max(samples):.4g}")
    if not known:
        raise InputError("no row could be measured here (the lines above say why)")
    return known


def read_rows(path: Path) -> dict[AnchorOperation, float]:
    """Rows that a stopped measurement wrote, in seconds.

    Raises InputError, which names file, line and column.
    """
    known = {}
    for line, cells in read_csv_rows(path, required=["kind", "dtype", "time_s"], limit_rows=10_000):
        sizes = tuple((n, read_number(t, path, line, n)) for n, t in cells.items() if t and n not in LEADING)
        if cells["time_s"]:
            row = AnchorOperation.of(f"{cells['kind']}.{cells['dtype']}", sizes)
            known[row] = read_number(cells["time_s"], path, line, "time_s", low=1e-12)
    return known


def write_rows(path: Path, rows: Mapping[AnchorOperation, float | None]) -> None:
    """The CSV that ``--measured`` reads, times in seconds [s]; a time of None is left to fill in."""
    dims = list(dict.fromkeys(dim for row in rows for dim, _ in row.sizes))
    lines = [",".join([*LEADING, *dims])]
    for row, time in rows.items():
        sizes = dict(row.sizes)
        cells = [f"{sizes[dim]:.12g}" if dim in sizes else "" for dim in dims]
        lines.append(",".join([row.kind, row.dtype, row.causal, "" if time is None else f"{time:.6g}", *cells]))
    write_text(path, "\n".join(lines) + "\n")
