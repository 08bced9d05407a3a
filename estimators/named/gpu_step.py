"""A workload on a GPU: kernels as public measurements have them, issued by one host or shared out over many devices.

What a calibration across devices says of one machine, class by class, goes under any schedule; classes that nobody
measured take the nearest one's fit with a wider band (`named.class_sharing`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from slipstick.estimators.across_devices.bands import Scatter
from slipstick.estimators.across_devices.beliefs import DEFAULT
from slipstick.estimators.across_devices.devices import DeviceCalibration
from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.composites.kept_workloads import as_compiled
from slipstick.estimators.core.estimate import DEFAULT_LEVEL, Estimate, quantile
from slipstick.estimators.core.operation_model import FormulaModel
from slipstick.estimators.core.parameters import declared
from slipstick.estimators.core.parts import Parts
from slipstick.estimators.core.schedule_model import Schedule
from slipstick.estimators.named.class_sharing import WEIGHTS_ALONE, Beyond, beyond, standing_for, stored_narrower
from slipstick.estimators.operation.by_kind import DeviceAndLinks
from slipstick.estimators.operation.gpu.kernel_classes import KernelParameters
from slipstick.estimators.operation.gpu.programs.program_kernels import trained
from slipstick.estimators.operation.gpu.recurrences import recurrent_kernels
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.operation.links.collectives import Collectives
from slipstick.estimators.schedule.host_issue import HostIssue
from slipstick.estimators.tuned.tuned_defaults import CONVOLUTIONAL, HOST, LINKS, OTHER_TYPE, WHOLE
from slipstick.estimators.tuned.tuned_devices import UNKNOWN
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.records import Same, Table
from slipstick.hwmodels.files.shown import format_quantity
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.mixed import HALF

FEW = 3
"""Fewer operations are kernels to be timed by themselves, not a step that a host issues."""
NODES = 15
"""Points of the quadrature over a normal law: the third digit of its moments."""
ROW = 8
"""16-bit numbers of the widest load, 16 bytes."""
UNEVEN = 0.17
"""Added where rows do not fill it: nanoGPT ran 25 % faster with 50,304 words than with 50,257 (A. Karpathy, 2023,
https://x.com/karpathy/status/1621578354024677377), taken as an end of the 80 % band; compilers pad such products."""
NOTICED = 0.05
"""Share of the time from which operations outside the measured shapes are named."""
CERTAIN = 1.0
"""No efficiency above: a fit to kernels timed one by one may exceed it, a bound must hold."""


@dataclass(frozen=True)
class MeasuredKernels:
    """What is known of one machine's kernels.

    Parameters
    ----------
    model
        With parameters for each requested class.
    scatter
        By class (``gemm.bfloat16``).
    notes
        By class: whose measurements those are, in words.
    """

    model: TiledRoofline
    scatter: Table[Scatter]
    notes: Table[str]


def measured_kernels(known: DeviceCalibration, machine: Machine, classes: Iterable[tuple[str, str]]) -> MeasuredKernels:
    """Kernels of the classes (kind, dtype) that a workload has, launches hidden behind the kernel before.

    An operation that was timed by itself shows its whole launch; in a row of operations the host's part of it is the
    schedule's, and the device's is the machine's `runtime.launch_overhead`.
    """
    return _measured_kernels(Same(known), machine, frozenset(classes))


@lru_cache(maxsize=32)
def _measured_kernels(
    known: Same[DeviceCalibration], machine: Machine, classes: frozenset[tuple[str, str]]
) -> MeasuredKernels:
    forecast = known.it.forecast(machine)
    belief = forecast.belief
    bounds = declared(KernelParameters)
    kernels: dict[str, KernelParameters] = {}
    scatter: dict[str, Scatter] = {}
    notes: dict[str, str] = {}
    for kind, dtype in sorted(classes):
        name, standing = f"{kind}.{dtype}", standing_for(kind, dtype, belief.noise)
        if standing is None and kind == "recurrent":  # one library call a layer: its launches are its own
            recurrent = recurrent_kernels(machine)
            spread = float(np.hypot(recurrent.spread, 0.0 if dtype == "float32" else OTHER_TYPE))
            kernels[name], scatter[name], notes[name] = recurrent.kernels, Scatter(spread, spread), recurrent.note
            continue
        source = standing.measured if standing else DEFAULT
        values = {n: float(np.clip(v, bounds[n].low, bounds[n].high)) for n, v in belief.values(source).items()}
        values |= {n: min(values[n], CERTAIN) for n in ("compute_efficiency", "memory_efficiency") if n in values}
        kernels[name] = KernelParameters(**{**values, "overhead": 0.0})
        if standing is None:
            scatter[name], notes[name] = Scatter(UNKNOWN, UNKNOWN), "not measured on any machine"
            continue
        rule = forecast.rule(source).scatter
        ends = (float(np.hypot(end, standing.spread)) for end in (rule.short, rule.long))
        scatter[name] = Scatter(*ends)
        notes[name] = ("" if source == name else f"as {source}, ") + belief.notes[source]
    kernels.setdefault(DEFAULT, KernelParameters())
    return MeasuredKernels(TiledRoofline(Table(kernels)), Table(scatter), Table(notes))


@dataclass(frozen=True)
class GpuStep:
    """An estimator, and where its band is wider than usual: a line each."""

    estimator: Calibration
    remarks: tuple[str, ...] = ()


def gpu_step(
    known: DeviceCalibration,
    machine: Machine,
    workload: Workload,
    run: Mapping[str, float] | None = None,
    schedule: Schedule | None = None,
    links: Collectives | None = None,
) -> GpuStep:
    """The estimator of a workload on a GPU, or on many: measured kernels under a schedule, with a band.

    Parameters
    ----------
    schedule
        `HostIssue` where None.
    links
        What collectives take, where the workload has some.
    run
        Numbers of one execution, by name.
    """
    free = machine.runtime.free_kinds
    operations = as_compiled(workload, machine).distinct.operations
    classes = {(op.kind, op.dtype) for op in operations if op.kind not in (*free, "collective")}
    kernels = measured_kernels(known, machine, classes)
    model: FormulaModel = kernels.model if links is None else DeviceAndLinks(kernels.model, links)
    estimator = Composite(model, schedule or HostIssue(), "measured kernels under a schedule")
    words = _grouped(kernels.notes)
    made = Calibration(
        estimator, (), residual_std=UNKNOWN, fingerprint=known.fingerprint, source="; ".join([known.source, *words])
    )
    if not workload.symbols <= {*workload.defaults, *(run or {})}:
        return GpuStep(made)
    answer = estimator.estimate(workload, machine, run)
    spent = _spent(answer, estimator.bound(workload, machine, run))
    uneven = _uneven(spent) if machine.runtime.mode == "eager" else ""
    host = _host_seconds(estimator.schedule, workload, machine)
    width = float(np.hypot(band(kernels.scatter, spent, len(answer.parts), host), UNEVEN if uneven else 0.0))
    other = None if links else _by_programs(workload, machine, run, estimator.schedule, answer.time, width)
    remarks = [*outside(spent), *([uneven] if uneven else []), *([other[1]] if other else [])]
    return GpuStep(replace(made, residual_std=other[0] if other else width), tuple(remarks))


@dataclass(frozen=True)
class Spent:
    """On an operation and all that are like it: seconds of one execution, and of the whole that they account for."""

    op: Op
    time: float
    contribution: float


def _spent(answer: Estimate, bound: Workload) -> list[Spent]:
    """By distinct operation; `bound` has the operations of which the answer has parts."""
    place = bound.distinct.place
    parts = Parts.of(answer.parts)
    whole = np.bincount(place, parts.contributions, len(bound.distinct.operations)).tolist()
    _, firsts = np.unique(place, return_index=True)
    times = parts.seconds[firsts].tolist()
    return list(map(Spent, bound.distinct.operations, times, whole))


def _by_programs(
    workload: Workload,
    machine: Machine,
    run: Mapping[str, float] | None,
    schedule: Schedule,
    time: float,
    width: float,
) -> tuple[float, str] | None:
    """The band that holds what a second model says, and a line on it; None where that lies in the band already.

    The second model was fitted to other measurements (whole programs of KernelBench in float32, issued by a host), so
    it says nothing of recorded graphs and steps that attend to a cache.
    """
    if machine.runtime.mode == "graph_replay" or not isinstance(schedule, HostIssue):
        return None
    try:
        second = Composite(trained()[0], schedule).time(workload, machine, run)
    except InputError:
        return None  # a kind or data type that those programs lack
    apart = abs(math.log(second / time)) / quantile(DEFAULT_LEVEL, None)
    if apart <= width:
        return None
    return apart, f"a second model, fitted to PyTorch programs, says {format_quantity(second, 's')}: wider band"


def _uneven(spent: Sequence[Spent]) -> str:
    """A line on products of 16-bit numbers whose rows do not fill the widest loads; "" where they take little time."""
    times: dict[int, float] = {}
    for one in spent:
        half = one.op.kind == "gemm" and one.op.dtype in HALF
        # the gradient of weights reads its other operand by rows of n, the gradient of the result
        names = ("m", "k", "n") if one.op.attributes.get("phase") == "backward" else ("m", "k")
        sizes = [int(one.op.dims[name]) for name in names] if half else []
        if odd := [size for size in sizes if size > ROW and size % ROW]:
            times[max(odd)] = times.get(max(odd), 0.0) + one.contribution
    share = sum(times.values()) / (sum(one.contribution for one in spent) or 1.0)
    if share < NOTICED:
        return ""
    rows = ", ".join(f"{size:,}" for size in sorted(times, reverse=True)[:3])
    return f"16-bit products with rows of {rows}, no multiple of {ROW} ({share:.0%} of the time): wider band"


def outside(spent: Sequence[Spent]) -> list[str]:
    """A line each on shapes and on stored weights that were not measured, where they take a noticeable time."""
    whole = sum(one.contribution for one in spent) or 1.0
    shares: dict[tuple[str, str], tuple[float, Beyond]] = {}
    for one in spent:
        place = beyond(one.op) if one.contribution > 0 else None
        if place is None:
            continue
        name = f"{one.op.kind}.{one.op.dtype}"
        share, farthest = shares.get((name, place.dim), (0.0, place))
        worse = max(place, farthest, key=lambda each: each.octaves)
        shares[name, place.dim] = share + one.contribution / whole, worse
    places = [
        f"{name} {dim} {place.value:,.0f} ({_range(place)}) {share:.0%} of the time"
        for (name, dim), (share, place) in sorted(shares.items(), key=lambda entry: -entry[1][0])
        if share >= NOTICED
    ]
    narrow = sum(one.contribution for one in spent if stored_narrower(one.op))
    lines = [f"shapes beyond the measured, wider band: {'; '.join(places)}"] if places else []
    if narrow / whole >= NOTICED:
        taken = f"{narrow / whole:.0%} of the time"
        lines.append(f"weights stored narrower than multiplied ({taken}): not measured, wider band")
    return lines


def _range(place: Beyond) -> str:
    return f"{place.low:,.0f}" if place.low == place.high else f"{place.low:,.0f}..{place.high:,.0f}"


def _host_seconds(schedule: Schedule, workload: Workload, machine: Machine) -> float:
    """What a host takes to issue the operations; 0 where it issues none one by one, or open sizes decide how many."""
    pace = schedule.pace(as_compiled(workload, machine), machine) if isinstance(schedule, HostIssue) else None
    return 0.0 if pace is None else pace[0] * pace[1]


def band(scatter: Mapping[str, Scatter], spent: Sequence[Spent], operations: int, host: float = 0.0) -> float:
    """Standard deviation of log time of a whole: of one class as if all its operations erred alike, of several
    classes independently; wider beyond the measured shapes, for weights stored narrower than they are multiplied and in
    networks of convolutions. Where a host issues the operations, in `host` seconds, either may be the longer
    (`longer_of`)."""
    errors: dict[str, float] = {}
    whole = convolutions = 0.0
    for one in spent:
        op = one.op
        name, place = f"{op.kind}.{op.dtype}", beyond(op) if one.contribution > 0 else None
        std = float(scatter[name].of(np.array(one.time))) if name in scatter else LINKS
        std = float(np.hypot(std, place.spread)) if place else std
        std = float(np.hypot(std, WEIGHTS_ALONE)) if stored_narrower(op) else std
        errors[name] = errors.get(name, 0.0) + std * one.contribution
        whole += one.contribution
        convolutions += one.contribution if op.kind == "convolution" else 0.0
    kernels = float(np.sqrt(sum(error**2 for error in errors.values())) / (whole or 1.0))
    if operations >= FEW:
        kernels = float(np.hypot(kernels, CONVOLUTIONAL * min(1.0, 4 * convolutions / (whole or 1.0))))
    return float(np.hypot(longer_of(whole, kernels, host, HOST), WHOLE))


def longer_of(device: float, of_device: float, host: float, of_host: float) -> float:
    """Root mean square of log(longer / the longer of two times), each of a normal logarithm.

    Parameters
    ----------
    device, host
        Seconds.
    of_device, of_host
        Standard deviations of their logs.

    Examples
    --------
    A device that takes much longer than its host, a host that takes much longer, and both alike:

    >>> [round(longer_of(one, 0.1, other, 0.6), 2) for one, other in ((1.0, 0.01), (0.01, 1.0), (1.0, 1.0))]
    [0.1, 0.6, 0.43]
    """
    if host <= 0 or device <= 0:
        return of_device
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    logs = math.log(device) + of_device * points[:, None], math.log(host) + of_host * points[None, :]
    longer = np.maximum(*logs)
    squares = (longer - math.log(max(device, host))) ** 2
    return float(np.sqrt(np.sum(weights[:, None] * weights[None, :] * squares) / (2 * np.pi)))


def _grouped(notes: Mapping[str, str]) -> list[str]:
    """Classes with the same note, together."""
    by_text: dict[str, list[str]] = {}
    for name, text in notes.items():
        by_text.setdefault(text, []).append(name)
    return [f"{', '.join(names)}: {text}" for text, names in by_text.items()]
