"""The default answer: estimator, calibration and precision for a workload on a machine, and one line that says why.

`estimators.routing` says by which law, row by row; here each law is built. Chosen by held-out error; `slipstick
validate defaults` compares the answers with public figures of whole models that none of this was fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.size_column import Sized, by_parts
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.composition.power_capped import cap_was_set
from slipstick.estimators.routing import ALL, ITS_OWN, Route, route
from slipstick.experiments.question import registry
from slipstick.experiments.question.precision import in_served_type, in_type, on_accelerator, precision
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import cached_rewrite
from slipstick.workloads.graph.cost import check_size
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WORK, network_of, workload_kind

if TYPE_CHECKING:
    from slipstick.estimators.base.schedule_model import Schedule
    from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.tpu.systolic_array import SystolicArray
    from slipstick.estimators.tpu.unified_buffer import UnifiedBuffer

IN_COLUMNS = ("kernels", "kernels in programs")
"""Laws that take columns of sizes; under a cap that was set they are asked at single sizes."""
PLAIN = "plain: --estimator roofline"


@dataclass(frozen=True)
class Default:
    """What answers, and why.

    `query`: what it answers; the law that does answers at other sizes too (`spread_at`).
    `workload`: in the requested data type, with the precision that the machine's usual software chooses.
    `machine`: with the runtime that is usual for such a workload, unless one was given.
    `estimator`: with a band.
    `why`: what it is, in words; of a whole answer one line. `reason`: the same with why the table of routes chose it.
    `conditions`: what it takes that the question may set, and what makes its band wider.
    """

    workload: Workload
    machine: Machine
    estimator: Estimator
    why: str
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    query: Asked | None = None


@dataclass(frozen=True)
class Asked:
    """What is asked: a workload as written down, sizes bound; a machine and the numbers of the run, by name.

    `dtype`: the requested data type.
    `chosen`: fields of the machine that the question sets: those stay.
    `row`: of the table of routes.
    """

    workload: Workload
    machine: Machine
    run: Mapping[str, float]
    dtype: str | None
    chosen: Collection[str]
    row: Route


def default(
    workload: Workload,
    machine: Machine,
    run: Mapping[str, float],
    dtype: str | None = None,
    chosen: Collection[str] = (),
) -> Default:
    """The best answer for a workload on a machine; `run`: numbers of one execution, by name; see `Asked`.

    Raises InputError where the data type is unknown.
    """
    row = route_of(workload, machine, run, chosen)
    query = Asked(workload, machine, FrozenDict(run), dtype, tuple(chosen), row)
    made = LAWS.get(row.law, _named)(query)
    declared = WORK in workload.metadata
    taken = "" if declared else f" (by its operations it is a {workload_kind(workload)})"
    what = row.law if row.schedule == ITS_OWN else made.why
    reason = f"answered by {what}, because {row.because}{taken}; {PLAIN}"
    return replace(made, why=f"{made.why}; {PLAIN}", reason=reason, query=query)


def takes_columns(query: Asked | None) -> bool:
    """Whether the law of a default answer takes columns of sizes (`spread_at`)."""
    return (
        query is not None
        and query.row.law in IN_COLUMNS
        and query.machine.runtime.mode != "compiled"
        and not cap_was_set(query.machine, "held")
    )


def spread_at(query: Asked, sizes: Mapping[str, FloatArray]) -> list[FloatArray]:
    """The scatter of a default answer at many sizes, and the part that all answers have alike; shape (points,) each.

    `sizes`: by dotted name, shape (points,), of a law that takes columns (`takes_columns`).
    Raises InputError where a value is no size.
    """
    for name, values in sizes.items():
        for value in np.unique(values).tolist():
            check_size(name.partition(".")[2], value, query.workload.defaults)

    def spread(at: Mapping[str, Sized]) -> tuple[Sized, Sized]:
        run = FrozenDict({**query.run, **{name.partition(".")[2]: value for name, value in at.items()}})
        made = LAWS[query.row.law](replace(query, run=run)).estimator.uncertainty
        return (math.nan, math.nan) if made is None else (made.residual_std, made.common_std)

    return by_parts(sizes, spread)


def route_of(workload: Workload, machine: Machine, run: Collection[str] = (), chosen: Collection[str] = ()) -> Route:
    """The row of the table by which a question is answered; `run` names its numbers, `chosen` as in `Asked`."""
    from slipstick.hwmodels.machine_kind import machine_kind

    conditions: dict[str, Callable[[], Collection[str]]] = {
        "network": lambda: (network_of(workload),),
        "states": lambda: [name for name in ("loops", "spmv") if not registry.named_estimator(name).lacks(machine)],
        "run": lambda: run,
        "sizes": lambda: {*run, *workload.symbols},
        "open": lambda: workload.symbols,
        "links": lambda: ("cores",) if machine.links else (),
        "mode set": lambda: (machine.runtime.mode,) if "runtime.mode" in chosen else (),
    }
    return route(machine_kind(machine), workload_kind(workload), lambda name: conditions[name]())


def kept_open(workload: Workload, machine: Machine, run: Collection[str] = ()) -> frozenset[str]:
    """Sizes that the default answer's schedule reads as well as the operations: they stay numbers of the run."""
    keeps = route_of(workload, machine, run).keeps
    return workload.symbols if ALL in keeps else workload.symbols & frozenset(keeps)


def as_executed(workload: Workload, machine: Machine, chosen: Collection[str] = ()) -> Machine:
    """The machine with the runtime that the workload's user chose, as by `torch.compile`; one that is set stays.

    Accelerators that run only what a compiler made of a program have no eager runtime: theirs is the compiled one,
    unless the file of the machine says otherwise.
    """
    compiled = workload.metadata.get("execution") == "compiled" or _has_no_eager_runtime(machine)
    if compiled and machine.runtime.mode == "eager" and "runtime.mode" not in chosen:
        return machine.using({"runtime.mode": "compiled"})
    return machine


def _has_no_eager_runtime(machine: Machine) -> bool:
    from slipstick.hwmodels.machine_kind import machine_kind

    stated = "mode" in machine.stated.runtime.model_fields_set or "runtime.mode" in machine.sources
    return not stated and machine_kind(machine) in ("systolic", "accelerator", "tpu")


def _named(query: Asked) -> Default:
    """The estimator that was made for such work."""
    converted = in_type(query.workload, query.machine, query.dtype)
    record = registry.named_estimator(query.row.law)
    made = registry.estimator_of(record, query.workload, query.machine)
    return Default(converted, query.machine, made, record.why)


def _on_cpu(query: Asked) -> Default:
    from slipstick.estimators.cpu.cpu_step import cpu_step, cpu_step_on_threads

    converted = in_type(query.workload, query.machine, query.dtype)
    step = cpu_step_on_threads if query.row.schedule == "threads" else cpu_step
    made, conditions = step(query.machine, converted)
    return Default(converted, query.machine, made, "operations as timed networks have them on CPUs", conditions)


def _on_tpu(query: Asked) -> Default:
    from slipstick.estimators.tpu.tpu_board import tpu_step
    from slipstick.experiments.question.estimator_builders import fitted_tpu

    converted = in_type(query.workload, query.machine, query.dtype)
    served(converted, query.machine)
    board = query.row.schedule == "board"
    made = registry.estimator("tpu").model if board else tpu_step(fitted_tpu(), query.machine)
    what = "a TPU's operations as fitted to training steps on a v2-8"
    what += ", the batch divided over its cores" if board and query.machine.cores > 1 else ""
    return Default(converted, query.machine, made, what)


def _served(query: Asked) -> Default:
    """A step of serving by the law that `serve` asks, under the engine that the runtime names.

    Raises InputError where the question sets a runtime's library that is no engine; the known ones are listed.
    """
    from slipstick.estimators.engine_steps.engines import WIDE_CACHE, cache_of, engine_of
    from slipstick.estimators.engine_steps.fitted_steps import engine_on, is_llama_cpp, names_server
    from slipstick.estimators.engine_steps.step_graph import stored_and_multiplied, with_output
    from slipstick.estimators.serving.engine_step import served_step
    from slipstick.workloads.language.language_step import OF_CHECKPOINT, cached_in, in_stored_type
    from slipstick.workloads.language.weight_types import in_gguf

    machine = query.machine
    converted = in_served_type(with_output(query.workload), machine, query.dtype)
    if "runtime.library" in query.chosen and not is_llama_cpp(machine.runtime.library):
        engine_of(machine.runtime.library)
    (weights, compute), under = stored_and_multiplied(converted), ""
    engine = engine_on(machine, weights)
    if is_llama_cpp(engine):
        stored = in_stored_type(converted, in_gguf(weights))
        converted = converted if stored is None else in_type(stored, machine, None)
    else:
        cache, why = cache_of(engine, compute, *(str(converted.metadata.get(name, "")) for name in OF_CHECKPOINT))
        converted = converted if cache == WIDE_CACHE else cached_in(converted, cache)
        under = f", cache {cache} ({why})" if why else ""
    running = machine.using({"runtime.library": engine, "runtime.mode": "graph_replay"})
    named = names_server(machine)
    made = served_step(converted, running, engine, query.run, named=named)
    whose = made.engine if named or is_llama_cpp(engine) else "an engine"
    what = f"a step under {whose}{under}, as `serve` has it"
    return Default(converted, running, made.estimator, what, made.conditions)


@cache
def gpu_kernels() -> DeviceCalibration:
    """The calibration of GPU kernels that ships."""
    from slipstick.estimators.gpu.transfer.devices_file import load_device_calibration

    return load_device_calibration(registry.CALIBRATIONS / "gpus.json")


def _gpu(query: Asked) -> Default:
    from slipstick.estimators.gpu.step_of_kernels import step_of_kernels
    from slipstick.estimators.interconnect.collective_law import nccl
    from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
    from slipstick.estimators.schedules.host_constants import ISSUE
    from slipstick.estimators.schedules.host_issue import HostIssue

    converted = precision(query.workload, query.machine, query.dtype)
    library, unmeasured = _library(query.machine, query.chosen)
    machine = query.machine.using({"runtime.library": library}) if library else query.machine
    replays = machine.runtime.mode == "graph_replay"
    alone = query.row.schedule == "alone"
    issued = "recorded graphs of them" if replays else "a host that issues them"
    schedule: Schedule = HostIssue(alone=alone)
    links = nccl() if query.row.schedule == "streams" else None
    if links:
        schedule = AsynchronousDispatch(0.0 if replays else ISSUE)
    programs = query.row.law == "kernels in programs"
    made, conditions = step_of_kernels(
        gpu_kernels(), machine, converted, query.run, schedule, links, programs=programs, library=unmeasured
    )
    issued = "timed by themselves" if alone else issued
    ran = f" with {library}" if library else ""
    what = f"kernels as measured on {gpu_kernels().devices} GPUs{ran}, {issued}"
    return Default(converted, machine, made, what, conditions)


def _library(machine: Machine, chosen: Collection[str]) -> tuple[str, str]:
    """The kernel library that the machine names if it was measured, else "", and the other way round.

    Raises InputError where the question sets one that was not measured; the known ones are listed.
    """
    named = machine.runtime.library
    if not named:
        return "", ""
    try:
        return gpu_kernels().library(named), ""
    except InputError:
        if "runtime.library" in chosen:
            raise
        return "", named


def served(workload: Workload, machine: Machine) -> None:
    """Raise InputError where an operation computes in a data type that no engine of the machine has."""
    from slipstick.estimators.roofline.roofline import rated_flop

    for op in workload.distinct.operations:
        rated_flop(op, machine)


def _parallel_training(query: Asked) -> Default:
    from slipstick.estimators.gpu.kernels.kernel_classes import class_of
    from slipstick.estimators.gpu.step_of_kernels import measured_kernels
    from slipstick.estimators.interconnect.collective_law import nccl
    from slipstick.estimators.interconnect.collectives import DeviceAndCollectives
    from slipstick.estimators.training.graph_on_devices import FITTED_FAMILY, parallel_training
    from slipstick.hwmodels.machine_kind import machine_kind

    machine, made = query.machine, parallel_training()
    converted = in_type(query.workload, machine, query.dtype)
    what = "kernels as measured on an A100 80 GB, NCCL's collectives, a pipeline of microbatches"
    if machine.family != FITTED_FAMILY and machine_kind(machine) == "gpu":
        classes = {class_of(op) for op in converted.distinct.operations if op.kind != "collective"}
        kernels = measured_kernels(gpu_kernels(), machine, classes)
        made = replace(made, operation=DeviceAndCollectives(kernels.model, nccl()))
        what = "kernels as measured on GPUs, NCCL's collectives, a pipeline of microbatches"
    return Default(converted, machine, made, what)


def _unmeasured(query: Asked) -> Default:
    """Machines that no public measurements speak of: what is usual of the data sheet's rates, and a wide band."""
    from slipstick.estimators.composition.clipped_at_peak import ClippedAtPeak
    from slipstick.estimators.composition.composed_estimator import ComposedEstimator
    from slipstick.estimators.fitting.calibration import Calibration
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.schedules.host_constants import UNSEEN_KIND
    from slipstick.estimators.schedules.sequential import Sequential
    from slipstick.estimators.tpu.systolic_array import SystolicArray, runs_on_array
    from slipstick.hwmodels.machine_kind import machine_kind

    machine, kind = query.machine, machine_kind(query.machine)
    workload = on_accelerator(query.workload, machine, query.dtype)
    systolic = kind == "systolic" and runs_on_array(workload, machine)
    model = SystolicArray() if systolic else Roofline(compute_efficiency=0.7, memory_efficiency=0.75)
    operation, workload, machine = _with_memory_on_chip(model, workload, machine)
    part: ComposedEstimator
    if systolic:
        part = ClippedAtPeak(operation, Sequential(), "systolic array with double-buffered operands, in sequence")
        made = Calibration(part, (), residual_std=UNSEEN_KIND, source="no measurement: a closed form")
        return Default(workload, machine, made, "a systolic array's cycles, no measurement of this machine")
    made_of = ComposedEstimator if kind == "many-core" else ClippedAtPeak  # a base clock, which processors exceed
    part = made_of(operation, Sequential(), "roofline at the usual share of the data sheet's rates")
    source = "no measurement: 70 % of the peaks, 75 % of the bandwidth"
    made = Calibration(part, (), residual_std=UNSEEN_KIND, source=source)
    return Default(workload, machine, made, f"no public measurement of a {kind} machine like this one")


def _with_memory_on_chip(
    model: SystolicArray | Roofline, workload: Workload, machine: Machine
) -> tuple[SystolicArray | Roofline | UnifiedBuffer, Workload, Machine]:
    """The model with an accelerator's on-chip memory in use; as it is where a state of the caches was given."""
    from slipstick.estimators.symbolic.cache_residency import rated_caches
    from slipstick.estimators.tpu.unified_buffer import UnifiedBuffer, with_firsts

    caches = rated_caches(machine)
    if machine.runtime.cache is not None or not caches or not machine.memory[caches[-1]].capacity:
        return model, workload, machine
    trains = "optimizer" in workload.kinds
    marked = cached_rewrite(workload, "firsts", lambda: with_firsts(workload))
    return UnifiedBuffer(model, trains), marked, machine.using({"runtime.cache": "warm"})


LAWS: Mapping[str, Callable[[Asked], Default]] = {
    "kernels": _gpu,
    "kernels in programs": _gpu,
    "kernels in streams": _gpu,
    "kernels in a pipeline": _parallel_training,
    "step of an engine": _served,
    "operations of a CPU": _on_cpu,
    "operations of a TPU": _on_tpu,
    "data sheet": _unmeasured,
}
"""What builds each law of the table that is no estimator by name."""
