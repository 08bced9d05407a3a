"""A workload by measured kernels, issued by one host or shared out over many devices: the default answer of GPUs.

What a calibration across devices says of one machine, class by class, goes under any schedule; classes that nobody
measured take the nearest one's fit with a wider band (`kernel_class.fallback_class_for`). A user's calibration may be
of machines of any kind. Beside GPUs' kernels that were timed one by one stand whole programs, which decide the times
class by class (`shared_kernels.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.formatting import ratio_shown, shown
from slipstick.common.records import FrozenDict, Same
from slipstick.common.size_column import Sized, hypot, is_column, log, number, smallest, where
from slipstick.estimators.base.conditions import LEAST_WIDENING, UNMEASURED, Condition, uncounted_condition, widening
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.operation_model import FormulaModel
from slipstick.estimators.base.schedule_model import Schedule
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.composition.workload_cache import as_compiled, bound_with
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.gpu.gpu_bands import (
    LEAST_SHARE,
    LIBRARY,
    ROWS,
    UNEVEN,
    band,
    of_libraries,
    outside,
    spent_on,
    uneven,
    uneven_share,
)
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters, class_of, of_step
from slipstick.estimators.gpu.kernels.recurrent_law import PYTORCH, recurrent_kernels, stack_of
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.programs.program_kernels import (
    ProgramRuntimes,
)
from slipstick.estimators.gpu.programs.torch_program import TorchProgram, lowered_graph
from slipstick.estimators.gpu.shared_kernels import (
    PLAIN,
    SharedKernels,
    in_programs,
    of_others,
    program_shares,
    programs_spread,
)
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.kernel_class import DEFAULT, Scatter, fallback_class_for
from slipstick.estimators.gpu.transfer.pooling_constants import UNKNOWN
from slipstick.estimators.gpu.transfer.residual_by_shape import ResidualByShape, ShapeFactor
from slipstick.estimators.interconnect.collectives import Collectives, DeviceAndCollectives
from slipstick.estimators.roofline.roofline import on_vector_units
from slipstick.estimators.schedules.host_issue import HostIssue
from slipstick.estimators.symbolic.formula import declared
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.kinds import PRODUCT, family_of
from slipstick.workloads.graph.workload import Workload

SECOND = "second model"
CERTAIN = 1.0
"""No efficiency above: a fit to kernels timed one by one may exceed it, a bound must hold."""


@dataclass(frozen=True)
class MeasuredKernels:
    """What is known of one machine's kernels.

    `model`: with parameters for each requested class.
    `scatter`: by class (``gemm.bfloat16``).
    `notes`: by class: whose measurements those are, in words.
    """

    model: TiledRoofline
    scatter: FrozenDict[Scatter]
    notes: FrozenDict[str]


def measured_kernels(
    known: DeviceCalibration, machine: Machine, classes: Iterable[str], stack: str = PYTORCH
) -> MeasuredKernels:
    """Kernels of the classes (`class_of`) that a workload has, launches hidden behind the kernel before.

    An operation that was timed by itself shows its whole launch; in a row of operations the host's part of it is the
    schedule's, and the device's is the machine's `runtime.launch_overhead`. `stack` is the software of recurrent steps
    (`recurrent_law.stack_of`).
    """
    return _measured_kernels(Same(known), machine, frozenset(classes), stack)


@lru_cache(maxsize=32)
def _measured_kernels(
    known: Same[DeviceCalibration], machine: Machine, classes: frozenset[str], stack: str
) -> MeasuredKernels:
    forecast = known.it.forecast(machine)
    measured = [one.name for one in known.it.classes if one.fits]
    kernels: dict[str, KernelParameters] = {}
    factors: dict[str, ShapeFactor] = {}
    scatter: dict[str, Scatter] = {}
    notes: dict[str, str] = {}
    _require_kind(known.it, machine, DEFAULT)
    for name in sorted(classes):
        kind, dtype = name.split(".")[:2]
        computed = f"{kind}.float32" if family_of(kind) is PRODUCT and on_vector_units(machine, dtype) else name
        substitute = fallback_class_for(computed, measured, forecast.similarity)
        if (
            substitute is None and kind == "recurrent" and _queues_kernels(machine)
        ):  # one library call a layer: its launches are its own
            steps = recurrent_kernels(machine, stack)
            kernels[name], scatter[name], notes[name] = steps.kernels, Scatter(steps.spread, steps.spread), steps.note
            continue
        source = substitute.measured if substitute else DEFAULT
        _require_kind(known.it, machine, source)
        fitted = forecast.parameters_of(source)
        kernels[name] = KernelParameters(**_in_a_row(source, fitted.values, machine))
        if substitute is None:
            scatter[name], notes[name] = Scatter(UNKNOWN, UNKNOWN), "not measured on any machine"
            continue
        rule = forecast.rule(source)
        factor, weighted = rule.factor, rule.factor.weighted
        if weighted:
            before, after = (_in_a_row(source, values, machine) for values in (weighted.before, weighted.after))
            factor = replace(factor, weighted=replace(weighted, before=before, after=after), known={})
        if factor.shares or weighted:
            factors[name] = factor
        scatter[name] = rule.scatter.wider(substitute.spread)
        notes[name] = ("" if source == name else f"as {source}, ") + fitted.note
    kernels.setdefault(DEFAULT, KernelParameters())
    parts = FrozenDict(kernels)
    model = ResidualByShape(parts, FrozenDict(factors)) if factors else TiledRoofline(parts)
    return MeasuredKernels(model, FrozenDict(scatter), FrozenDict(notes))


def _require_kind(known: DeviceCalibration, machine: Machine, source: str) -> None:
    """Raise InputError where the fits of a class, or all that there are (`DEFAULT`), are of other kinds of machines."""
    fits = [fit for one in known.classes if source in (one.name, DEFAULT) for fit in one.fits]
    kinds = sorted({machine_kind(known.machines[fit.machine]) for fit in fits})
    if kinds and (kind := machine_kind(machine)) not in kinds:
        words = "" if source == DEFAULT else f" of {source}"
        raise InputError(
            f"calibration {known.source!r}: its fits{words} are of machines of kind {' or '.join(kinds)}, "
            f"{machine.name} is of kind {kind}: calibrate times of that kind, or ask without a calibration"
        )


def _in_a_row(name: str, values: Mapping[str, float], machine: Machine) -> dict[str, float]:
    """A class's parameters where other kernels run before it: inside their bounds, the launch hidden on a GPU.

    Kernels of a step (`of_step`) are several, of which the fit's overhead is the time of the small ones: it stays.
    """
    ends = {
        n: (one.low, CERTAIN if n.endswith("_efficiency") else one.high)
        for n, one in declared(KernelParameters).items()
    }
    known = {n: float(np.clip(value, *ends[n])) for n, value in values.items()}
    return {**known, "overhead": known["overhead"] if of_step(name) or not _queues_kernels(machine) else 0.0}


def _queues_kernels(machine: Machine) -> bool:
    """Whether launches hide behind the kernel before: on GPUs, whose programs and recurrent layers were timed too.

    On other machines an operation's fixed time is its own, and nothing else carries it.
    """
    return machine_kind(machine) == "gpu"


def step_of_kernels(
    known: DeviceCalibration,
    machine: Machine,
    workload: Workload,
    run: Mapping[str, float] | None = None,
    schedule: Schedule | None = None,
    links: Collectives | None = None,
    *,
    programs: bool = False,
    library: str = "",
) -> tuple[Calibration, tuple[Condition, ...]]:
    """The estimator of a workload on a machine, or on many, and what its band depends on: measured kernels, scheduled.

    `schedule`: `HostIssue` where None.
    `links`: what collectives take, where the workload has some.
    `run`: numbers of one execution, by name.
    `programs`: see `program_shares`.
    `library`: the one that the machine names and that was not measured, else "".
    """
    free = machine.runtime.free_kinds
    lowered = lowered_graph(workload, machine)
    operations = lowered.distinct.operations
    computed = [op for op in operations if op.kind not in (*free, "collective")]
    columns = any(map(is_column, (run or {}).values()))
    classes = {class_of(op) for op in computed}
    if columns:  # where a size is 1 another class may answer
        bound = bound_with(Same(lowered), FrozenDict(run or {}))
        classes |= {class_of(op) for op in bound.distinct.operations if op.kind not in (*free, "collective")}
    kernels = measured_kernels(
        known, machine, classes, stack_of(operations, machine) if "recurrent" in lowered.kinds else PYTORCH
    )
    schedule = schedule or HostIssue()
    alone = isinstance(schedule, HostIssue) and schedule.alone
    shares = program_shares(known, machine, computed, programs=programs)
    device = SharedKernels(kernels.model, ProgramRuntimes(known.programs), shares)
    model: FormulaModel = device if links is None else DeviceAndCollectives(device, links)
    estimator = TorchProgram(model, schedule, "measured kernels under a schedule")
    words = [*_grouped(kernels.notes), *in_programs(device.shares)]
    made = Calibration(
        estimator, (), residual_std=UNKNOWN, fingerprint=known.fingerprint, source="; ".join([known.source, *words])
    )
    if not workload.symbols <= {*workload.defaults, *(run or {})}:
        return made, ()
    time, bound = estimator.time(workload, machine, run), estimator.bound(workload, machine, FrozenDict(run or {}))
    spent = spent_on(bound, estimator.once(bound, machine), device.share)
    eager = machine.runtime.mode == "eager"
    odd = UNEVEN * (uneven_share(spent) >= LEAST_SHARE) if eager else 0.0
    host = _host_seconds(estimator.schedule, workload, machine)
    stored = known.similarity_weights.spreads["stored"]
    scatters = {False: kernels.scatter, True: {name: one.unshared for name, one in kernels.scatter.items()}}

    def kernels_band(*names: str) -> Sized:
        spread = programs_spread(known, machine, spent, names)
        return band(scatters[LIBRARY in names], spent, stored, host, spread, network=not alone, without=names)

    every, unshared = kernels_band(), kernels_band(LIBRARY)
    second = TorchProgram(device.programs, estimator.schedule)
    types, shares_taken = {one.op.dtype for one in spent}, {*map(device.share, computed)}
    compared = not links and types <= {*PLAIN, *HALF} and shares_taken != {1.0}  # of them alone it is the same model
    other = _by_programs(second, workload, machine, run) if compared else None
    apart = 0.0 if other is None else abs(log(other / time)) / quantile(DEFAULT_LEVEL, None)
    leaves = apart > hypot(every, odd) * (1 + LEAST_WIDENING)
    linked, crossing = _by_dies(estimator, workload, machine, run, time)

    def width(without: Collection[Condition]) -> Sized:
        names = [one.name for one in without]
        between = 0.0 if DIES in names else crossing
        kernels = every if set(names) <= {SECOND, ROWS, DIES} else kernels_band(*names)
        known = hypot(kernels, between, 0.0 if ROWS in names else odd)
        return known if SECOND in names else where(leaves, hypot(apart, between), known)

    common = np.sqrt(np.maximum(every**2 - unshared**2, 0.0))
    made = replace(made, residual_std=width(()), common_std=number(common))
    if columns:
        return made, ()
    second_says = f"a second model, fitted to PyTorch programs, says {shown(other or 0.0, 's')}" if leaves else ""
    candidates = [
        *linked,
        *([Condition(SECOND, second_says, UNMEASURED)] if leaves else []),
        *outside(spent),
        *of_libraries(known.forecast(machine), spent, library),
    ]
    candidates += [*(uneven(spent) if eager else []), *of_others(known, machine, spent)]
    candidates += [uncounted_condition(workload)] if workload.uncounted else []
    return made, widening(candidates, width)


DIES = "machine.dies"
"""The condition that a link joins a machine's dies, of which no measured row tells what crosses it."""


def _by_dies(
    estimator: TorchProgram, workload: Workload, machine: Machine, run: Mapping[str, float] | None, time: Sized
) -> tuple[list[Condition], Sized]:
    """That nobody says which share of the traffic with memory crosses a link between dies, and the standard deviation
    of the log of what that may change: an 80 % band from memory that is interleaved, as it is answered, to a die's own,
    or to another die's."""
    dies = machine.dies
    if dies.bandwidth is None or dies.local is not None or dies.count < 2:
        return [], 0.0
    apart = abs(log(time / estimator.time(workload, machine.using({"dies.local": 1.0}), run)))
    # all traffic crosses, where the mean is all but a part
    off = smallest(apart, math.log(dies.count / (dies.count - 1)))
    if is_column(apart):
        return [], off / quantile(DEFAULT_LEVEL, None)
    words = f"{dies.count} dies share memory over a link, all of it interleaved"
    note = f"x{ratio_shown(math.exp(-apart))} of the time where each reads its own; machine.dies.local says which"
    return [Condition(DIES, words, UNMEASURED, note)], off / quantile(DEFAULT_LEVEL, None)


def _by_programs(
    second: ComposedEstimator, workload: Workload, machine: Machine, run: Mapping[str, float] | None
) -> Sized | None:
    """Seconds that a second model says; None where it says nothing.

    The second model was fitted to other measurements (whole programs of KernelBench in float32, image networks in 16
    bits, issued by a host), so it says nothing of recorded graphs, and of other types.
    """
    if machine.runtime.mode == "graph_replay" or not isinstance(second.schedule, HostIssue):
        return None
    try:
        return second.time(workload, machine, run)
    except InputError:
        return None  # a kind or data type that those programs lack


def _host_seconds(schedule: Schedule, workload: Workload, machine: Machine) -> float:
    """What a host takes to issue the operations; 0 where it issues none one by one, or open sizes decide how many."""
    pace = schedule.pace(as_compiled(workload, machine), machine) if isinstance(schedule, HostIssue) else None
    return 0.0 if pace is None else pace[0] * pace[1]


def _grouped(notes: Mapping[str, str]) -> list[str]:
    """Classes with the same note, together."""
    by_text: dict[str, list[str]] = {}
    for name, text in notes.items():
        by_text.setdefault(text, []).append(name)
    return [f"{', '.join(names)}: {text}" for text, names in by_text.items()]
