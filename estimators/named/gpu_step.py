"""A workload on a GPU: kernels as public measurements have them, issued by one host or shared out over many devices.

What a calibration across devices says of one machine, class by class, goes under any schedule; classes that nobody
measured take the nearest one's fit with a wider band (`named.class_sharing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slipstick.estimators.across_devices.bands import Scatter
from slipstick.estimators.across_devices.beliefs import DEFAULT
from slipstick.estimators.across_devices.devices import DeviceCalibration
from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.composites.composite import Composite, as_compiled
from slipstick.estimators.core.estimate import Estimate
from slipstick.estimators.core.operation_model import FormulaModel
from slipstick.estimators.core.parameters import declared
from slipstick.estimators.core.schedule_model import Schedule
from slipstick.estimators.named.class_sharing import standing_for
from slipstick.estimators.operation.by_kind import DeviceAndLinks
from slipstick.estimators.operation.collectives import Collectives
from slipstick.estimators.operation.gpu.kernel_classes import KernelParameters
from slipstick.estimators.operation.gpu.recurrences import recurrent_kernels
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.estimators.schedule.host_issue import HostIssue
from slipstick.estimators.tuned.tuned_defaults import HOST, LINKS, OTHER_TYPE, WHOLE
from slipstick.estimators.tuned.tuned_devices import UNKNOWN
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

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
    said
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
    forecast = known.forecast(machine)
    belief = forecast.belief
    bounds = declared(KernelParameters)
    kernels: dict[str, KernelParameters] = {}
    scatter: dict[str, Scatter] = {}
    notes: dict[str, str] = {}
    for kind, dtype in sorted(set(classes)):
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


def gpu_step(
    known: DeviceCalibration,
    machine: Machine,
    workload: Workload,
    run: Mapping[str, float] | None = None,
    schedule: Schedule | None = None,
    links: Collectives | None = None,
) -> Calibration:
    """The estimator of a workload on a GPU, or on many: measured kernels under a schedule, with a band.

    Parameters
    ----------
    schedule
        `HostIssue` where None.
    links
        What collectives take, where the workload has some.
    """
    free = machine.runtime.free_kinds
    operations = as_compiled(workload, machine).operations
    classes = {(op.kind, op.dtype) for op in operations if op.kind not in (*free, "collective")}
    kernels = measured_kernels(known, machine, classes)
    model: FormulaModel = kernels.model if links is None else DeviceAndLinks(kernels.model, links)
    estimator = Composite(model, schedule or HostIssue(), "measured kernels under a schedule")
    words = _grouped(kernels.notes)
    made = Calibration(
        estimator, (), residual_std=UNKNOWN, fingerprint=known.fingerprint, source="; ".join([known.source, *words])
    )
    if workload.bind_known({**workload.defaults, **(run or {})}).symbols:
        return made
    answer = estimator.estimate(workload, machine, run)
    return replace(made, residual_std=band(kernels.scatter, answer, operations_of(workload, machine)))


def operations_of(workload: Workload, machine: Machine) -> tuple[str, ...]:
    """The class of each operation as the machine runs it."""
    return tuple(f"{op.kind}.{op.dtype}" for op in as_compiled(workload, machine).operations)


def band(scatter: Mapping[str, Scatter], answer: Estimate, names: tuple[str, ...]) -> float:
    """Standard deviation of log time of a whole: of one class as if all its operations erred alike, of several
    classes independently; the host's scatter as far as the device waits for it."""
    errors: dict[str, float] = {}
    whole = 0.0
    for name, part in zip(names, answer.parts, strict=True):
        std = float(scatter[name].of(np.array(part.time))) if name in scatter else LINKS
        errors[name] = errors.get(name, 0.0) + std * part.contribution
        whole += part.contribution
    kernels = float(np.sqrt(sum(error**2 for error in errors.values())) / (whole or 1.0))
    busy = min(1.0, answer.metrics.get("device_busy", 1.0))
    waiting = HOST if busy < 1.0 - 1e-6 else 0.0
    return float(np.hypot(np.hypot(kernels * busy, waiting * (1 - busy)), WHOLE))


def _grouped(notes: Mapping[str, str]) -> list[str]:
    """Classes that the same words are said of, together."""
    by_text: dict[str, list[str]] = {}
    for name, text in notes.items():
        by_text.setdefault(text, []).append(name)
    return [f"{', '.join(names)}: {text}" for text, names in by_text.items()]
