"""Levels of GPUs' memory on public microbenchmarks, each device left out (te42kyfo/gpu-benches)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.frames import csv_frame
from slipstick.estimators.gpu.kernels.memory_hierarchy import GpuMemory
from slipstick.estimators.symbolic.cache_residency import missed, rated_caches
from slipstick.estimators.symbolic.formula import Parameter
from slipstick.experiments.scoreboards.gpu.kernels_by_size import DATASET as BY_SIZE
from slipstick.experiments.scoreboards.gpu.kernels_by_size import kernels_by_size
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine, machine_of_device
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

FILE = "portability/gpu_benches.csv.gz"
DEVICES: Mapping[str, str] = {
    "a100_80": "a100-pcie-80gb",
    "a100_40": "a100-pcie-40gb",
    "a40": "a40",
    "h100_pcie": "h100-pcie",
    "mi100": "mi100",
    "rx6900xt": "rx-6900-xt",
    "v100": "v100-pcie",
}
READ = 8
"""Bytes that each thread of the stream kernel `read` has in flight: one double."""
GOAL = 15.0
DATASET = "gpu-benches"
INSIDE = "bandwidth inside the last cache over beyond it"


@dataclass(frozen=True)
class MemoryCurves(GpuMemory):
    """Beside the plateaus their knees, and the bytes in flight that fill the bandwidth.

    A working set is read at the rate of the nearest level that holds it. Below saturation a level gives what is in
    flight over its latency (Little's law); caches hold somewhat more than their capacity's worth before half of the
    gain is lost, since lines are reused before all of them are thrown out.
    """

    near_knee: Annotated[float, Parameter("1", "knee of the nearest cache over its capacity", 0.1, 10.0)] = 1.4
    cache_knee: Annotated[float, Parameter("1", "knee of the last cache over its capacity", 0.1, 10.0)] = 1.0
    latency: Annotated[float, Parameter("s", "of a read from main memory that waits for nobody", 1e-9, 1e-5)] = 3.1e-7
    sharpness: Annotated[float, Parameter("1", "how suddenly reads in flight saturate a level", 1.0, 50.0)] = 3.0

    def knee(self, machine: Machine, level: str) -> float:
        """Bytes of the working set (of one core, for a core's own cache) at which half of the level's gain is lost."""
        memory = machine.memory[level]
        return memory.capacity * (self.near_knee if memory.per == "core" else self.cache_knee)

    def rate(self, machine: Machine, size: npt.ArrayLike) -> FloatArray:
        """Bytes a second of all cores that read the same `size` bytes again and again.

        Levels of capacity 0 are not there: what they would hold is read from the next one.
        """
        sizes = np.asarray(size, dtype=np.float64)
        levels = [name for name in rated_caches(machine) if machine.memory[name].capacity > 0]
        rates = np.full(sizes.shape, self.reached(machine, machine.main_memory))
        for level in reversed(levels):
            level_rate, knee = self.reached(machine, level), self.knee(machine, level)
            beyond = missed(sizes, np.asarray(knee))
            rates = 1 / ((1 - beyond) / level_rate + beyond / rates)
        return rates

    def in_flight(self, machine: Machine, size: npt.ArrayLike) -> FloatArray:
        """Bytes a second from main memory with `size` bytes of reads on their way (threads x bytes of each)."""
        sizes = np.asarray(size, dtype=np.float64)
        ideal, most = sizes / self.latency, self.reached(machine, machine.main_memory)
        return np.asarray((ideal**-self.sharpness + most**-self.sharpness) ** (-1 / self.sharpness))


@dataclass(frozen=True)
class Seen:
    """What a device's curves show: plateaus [byte/s], knees [byte]; None where its files lack them."""

    near: float | None
    cache: float | None
    main: float | None
    near_knee: float | None
    cache_knee: float | None
    flights: tuple[tuple[float, float], ...]
    """(bytes in flight, byte/s) of the stream kernel `read`."""
    latency: float | None


def seen(frame: pd.DataFrame, device: str, machine: Machine) -> Seen:
    """Plateaus are medians well inside a level, knees where a curve crosses the geometric mean of two plateaus."""
    caches = [name for name in machine.memory if name != machine.main_memory]
    first, last = (machine.memory[name].capacity for name in (caches[0], caches[-1]))
    rows = frame[frame.device == device].sort_values("size_bytes")
    near_curve, cache_curve = rows[rows.benchmark == "gpu-cache"], rows[rows.benchmark == "gpu-l2-cache"]
    stream = rows[(rows.benchmark == "gpu-stream") & (rows.quantity == "read")].sort_values("threads")
    near = _median(near_curve, 0, first / 2)
    cache = _median(cache_curve, 0, last / 2) or _median(near_curve, 3 * first, last / 3)
    main = float(stream.value.max()) if len(stream) else None
    beyond = _median(cache_curve, 8 * last, math.inf)
    behind = _median(near_curve, 3 * first, 8 * first)
    return Seen(
        near,
        cache,
        main,
        _crossing(near_curve, near, behind),
        _crossing(cache_curve, cache, beyond),
        tuple(zip((stream.threads * READ).astype(float), stream.value.astype(float), strict=True)),
        float(stream.threads.iloc[0] * READ / stream.value.iloc[0]) if len(stream) else None,
    )


def _median(curve: pd.DataFrame, low: float, high: float) -> float | None:
    inside = curve[(curve.size_bytes >= low) & (curve.size_bytes <= high)]
    return float(inside.value.median()) if len(inside) else None


def _crossing(curve: pd.DataFrame, high: float | None, low: float | None) -> float | None:
    """Where the curve falls through the geometric mean of two plateaus, between two sizes by their logs."""
    if high is None or low is None or not len(curve):
        return None
    middle = math.sqrt(high * low)
    sizes, values = curve.size_bytes.to_numpy(dtype=float), curve.value.to_numpy(dtype=float)
    below = np.flatnonzero(values < middle)
    if not len(below) or below[0] == 0:
        return None
    at = int(below[0])
    share = math.log(values[at - 1] / middle) / math.log(values[at - 1] / values[at])
    return float(sizes[at - 1] * (sizes[at] / sizes[at - 1]) ** share)


def fitted(known: Mapping[str, Seen], machines: Mapping[str, Machine]) -> MemoryCurves:
    """Medians over devices."""
    result: dict[str, float] = {}

    def middle(name: str, ratio: Callable[[Seen, Machine], float | None]) -> None:
        values = [value for device, one in known.items() if (value := ratio(one, machines[device])) is not None]
        if values:
            result[name] = float(np.median(values))

    def first(machine: Machine) -> str:
        return next(iter(machine.memory))

    middle("main", lambda s, m: s.main / m.bandwidth(m.main_memory) if s.main else None)
    middle("over_main", lambda s, m: s.cache / s.main if s.cache and s.main else None)
    middle("near_knee", lambda s, m: s.near_knee / m.memory[first(m)].capacity if s.near_knee else None)
    middle("latency", lambda s, m: s.latency)
    return MemoryCurves(**result)


def _quantities(data: Data) -> Iterator[ValidationRow]:
    """One row a quantity over devices, each predicted from other chips (the two A100 are left out together)."""
    machines = {device: machine(name) for device, name in DEVICES.items()}
    known, frame = csv_frame(data.known(FILE)), csv_frame(data.judged(FILE))
    every = {device: seen(known, device, target) for device, target in machines.items()}
    for device in sorted(set(frame["device"]) - set(machines)):
        if (target := machine_of_device(str(device))) is None:
            yield skipped(DATASET, f"the catalogue lacks {device}")
        else:
            machines[device] = target
    errors: dict[str, list[tuple[str, float, float]]] = {}
    for device in sorted(set(frame["device"]) & set(machines)):
        target = machines[device]
        others = {name: one for name, one in every.items() if machines[name].family != target.family}
        model = fitted(others, machines)
        for name, value, ours, plain in _compared(seen(frame, device, target), target, model):
            errors.setdefault(name, []).append((device, math.log(ours / value), math.log(plain / value)))
    yield from (_row(name, entries) for name, entries in errors.items())
    level = [entry for name, entries in errors.items() if name.startswith(("plateau", "knee")) for entry in entries]
    if level:
        yield _row("plateaus and knees, all", level, GOAL)


def _compared(one: Seen, machine: Machine, model: MemoryCurves) -> list[tuple[str, float, float, float]]:
    """(quantity, seen, ours, the data sheet's) of a device."""
    caches = [name for name in machine.memory if name != machine.main_memory]
    near, cache, main = caches[0], caches[-1], machine.main_memory
    rated = {name: machine.bandwidth(name) for name in machine.memory}
    inside = one.cache / one.main if one.cache and one.main else None
    pairs: list[tuple[str, float | None, float, float]] = [
        ("plateau of the nearest cache", one.near, model.reached(machine, near), rated[near]),
        ("plateau of the last cache", one.cache, model.reached(machine, cache), rated[cache]),
        ("plateau of main memory", one.main, model.reached(machine, main), rated[main]),
        ("knee of the nearest cache", one.near_knee, model.knee(machine, near), machine.memory[near].capacity),
        ("knee of the last cache", one.cache_knee, model.knee(machine, cache), machine.memory[cache].capacity),
        (INSIDE, inside, model.reached(machine, cache) / model.reached(machine, main), rated[cache] / rated[main]),
    ]
    what = "main memory by bytes in flight"
    flights = [(what, value, float(model.in_flight(machine, flying)), rated[main]) for flying, value in one.flights]
    return [(name, value, ours, plain) for name, value, ours, plain in [*pairs, *flights] if value]


def _row(name: str, entries: list[tuple[str, float, float]], goal: float | None = None) -> ValidationRow:
    ours = 100 * float(np.median([abs(error) for _, error, _ in entries]))
    plain = 100 * float(np.median([abs(error) for *_, error in entries]))
    goal = GOAL if name == INSIDE else goal
    devices = sorted({device for device, *_ in entries})
    reason = f"{len(devices)} devices"
    if len(entries) == len(devices):
        reason = "signed, in %: " + ", ".join(f"{device} {100 * error:+.0f}" for device, error, _ in entries)
    metric, ok = "median |log ratio| x 100", None if goal is None else ours <= goal
    return ValidationRow(
        DATASET, name, "each chip", len(entries), metric, "%", ours, {"data sheet": plain}, goal, ok, reason=reason
    )


BOARD = Board(
    "What do the levels of a GPU's memory reach that nobody measured?", {DATASET: _quantities, BY_SIZE: kernels_by_size}
)
