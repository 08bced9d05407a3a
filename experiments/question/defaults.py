"""The default answer: estimator, calibration and precision for a workload on a machine, and one line that says why.

Chosen by held-out error, kind of machine by kind of machine; `slipstick validate defaults` compares the answers with
public figures of whole models that none of this was fitted to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from slipstick.common.errors import InputError
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.base.protocols import Estimator
from slipstick.experiments.question import registry
from slipstick.experiments.question.precision import in_served_type, in_type, on_accelerator, precision
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.footprint import attends_to_cache
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import workload_kind

if TYPE_CHECKING:
    from slipstick.estimators.base.schedule_model import Schedule
    from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.tpu.systolic_array import SystolicArray
    from slipstick.estimators.tpu.unified_buffer import UnifiedBuffer

PLAIN = "plain: --estimator roofline"
THREADS = "threads that share the cores: instructions counted and contention, strategy (a) of Viebke et al. 2019"

TORCH_PROGRAM = "kernels of PyTorch as {count:,} times of programs on {devices} show, issued by one host"
LOOPS = "layer conditions of a loop over arrays, on cores that share a saturating memory"


@dataclass(frozen=True)
class Default:
    """What answers, and why.

    `workload`: in the requested data type, with the precision that the machine's usual software chooses.
    `machine`: with the runtime that is usual for such a workload, unless one was given.
    `estimator`: with a band.
    `why`: one line.
    `remarks`: where the band is wider than usual: a line each.
    `conditions`: what it takes that the question may set.
    """

    workload: Workload
    machine: Machine
    estimator: Estimator
    why: str
    remarks: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


def default(
    workload: Workload,
    machine: Machine,
    run: Mapping[str, float],
    dtype: str | None = None,
    chosen: Collection[str] = (),
) -> Default:
    """The best answer for a workload on a machine.

    `workload`: as written down, sizes bound.
    `dtype`: the requested data type.
    `chosen`: fields of the machine that the question sets: those stay.
    `run`: numbers of one execution, by name.
    Raises InputError where the data type is unknown.
    """
    from slipstick.estimators.engine_steps.step_graph import is_step
    from slipstick.estimators.gpu.kernel_model_blend import by_maker
    from slipstick.hwmodels.machine_kind import machine_kind

    kind = machine_kind(machine)
    if record := registry.default_record(workload, machine):
        converted = in_type(workload, machine, dtype)
        return Default(converted, machine, registry.estimator_of(record, workload, machine), f"{record.why}; {PLAIN}")
    if shares_images(workload, machine, run):
        if any(
            "loop" in op.attributes for op in workload.distinct.operations
        ):  # no images that threads share: wide, unseen there
            converted = in_type(workload, machine, dtype)
            return Default(converted, machine, registry.estimator("loops"), f"{LOOPS}; {PLAIN}")
        threads = registry.estimator_of("threads-counted", workload, machine)
        return Default(in_type(workload, machine, dtype), machine, threads, f"{THREADS}; {PLAIN}")
    if "pipeline_parallel" in workload.symbols | set(workload.defaults):
        return _parallel_training(workload, machine, dtype)
    if kind == "gpu":
        if dtype in (None, "float32") and is_torch_program(workload) and _as_timed(machine):
            programs = registry.estimator("torch-program").resolved(workload, machine)
            made, remarks = by_maker(programs, machine)
            converted = precision(workload, machine, dtype)
            return Default(converted, machine, made, f"{_timed_programs()}; {PLAIN}", remarks)
        if is_step(workload) and not ("runtime.mode" in chosen and machine.runtime.mode != "graph_replay"):
            return _served(workload, machine, run, dtype, chosen)
        return _gpu(workload, machine, run, dtype, chosen)
    converted = in_type(workload, machine, dtype)
    if kind == "cpu":
        from slipstick.estimators.cpu.cpu_step import cpu_step, cpu_step_on_threads

        made, remarks = (cpu_step_on_threads if "threads" in run else cpu_step)(machine, converted)
        return Default(converted, machine, made, f"operations as timed networks have them on CPUs; {PLAIN}", remarks)
    if kind == "tpu":
        served(converted, machine)
        if divides_batch(workload, machine):
            why = f"a TPU's operations as fitted to training steps on a v2-8, the batch divided over its cores; {PLAIN}"
            return Default(converted, machine, registry.estimator("tpu").model, why)
        from slipstick.estimators.tpu.tpu_board import tpu_step
        from slipstick.experiments.question.estimator_builders import fitted_tpu

        why = f"a TPU's operations as fitted to training steps on a v2-8; {PLAIN}"
        return Default(converted, machine, tpu_step(fitted_tpu(), machine), why)
    return _unmeasured(on_accelerator(workload, machine, dtype), machine, kind)


@cache
def _timed_programs() -> str:
    """By what float32 programs are answered: how many times were fitted, and of which devices, as the fit says."""
    from slipstick.estimators.fitting.fitted_file import load_fitted

    fitted = load_fitted("programs")
    count = next(one.rows for one in fitted.outer if one.kind == "programs in float32")
    hosts = sorted({host.split("_")[0] for host in fitted.fit("program-kernels").seen("host")})
    return TORCH_PROGRAM.format(count=count, devices=", ".join(hosts))


def _as_timed(machine: Machine) -> bool:
    """Whether a machine's float32 convolutions are those of the timed programs, which were rounded to TF32."""
    from slipstick.estimators.gpu.programs.program_sides import rounds_convolutions

    return rounds_convolutions(machine)


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


def is_torch_program(workload: Workload) -> bool:
    """Whether a graph is a forward pass that torch traced, in float32, without recurrent steps (those programs had
    too few to say how they depend on sizes) and without a cache of keys and values."""
    facts = workload.metadata
    traced = str(facts.get("source", "")).startswith("torch ") and facts.get("purpose") == "inference"
    plain = all(op.dtype in ("float32", "int64", "int32", "bool") for op in workload.distinct.operations)
    plain = plain and "recurrent" not in workload.kinds
    return traced and plain and not any(map(attends_to_cache, workload.distinct.operations))


def shares_images(workload: Workload, machine: Machine, run: Collection[str]) -> bool:
    """Whether the default answer is a run of threads that take one image each, by the names of the run's numbers."""
    from slipstick.hwmodels.machine_kind import machine_kind

    kind = machine_kind(machine)
    return "threads" in run and (kind == "many-core" or (kind == "cpu" and "images" in {*workload.symbols, *run}))


def kept_open(workload: Workload, machine: Machine, run: Collection[str] = ()) -> frozenset[str]:
    """Sizes that the default answer's schedule reads as well as the operations: they stay numbers of the run."""
    if shares_images(workload, machine, run):
        return frozenset({"batch"}) & workload.symbols
    if "pipeline_parallel" in workload.symbols or workload_kind(workload) in ("requests", "training"):
        return workload.symbols
    return frozenset({"batch"}) if divides_batch(workload, machine) else frozenset()


def divides_batch(workload: Workload, machine: Machine) -> bool:
    """Whether the default answer divides the workload's batch over the cores of a board, and feeds them."""
    from slipstick.hwmodels.machine_kind import machine_kind

    board = machine_kind(machine) == "tpu" and bool(machine.links) and machine.cores > 1
    return board and "batch" in workload.symbols and registry.default_record(workload, machine) is None


def _served(
    workload: Workload, machine: Machine, run: Mapping[str, float], dtype: str | None, chosen: Collection[str]
) -> Default:
    """A step of serving by the law that `serve` asks, under the engine that the runtime names.

    Raises InputError where the question sets a runtime's library that is no engine; the known ones are listed.
    """
    from slipstick.estimators.engine_steps.engines import WIDE_CACHE, cache_of, engine_of
    from slipstick.estimators.engine_steps.fitted_steps import engine_on, is_llama_cpp, names_server
    from slipstick.estimators.engine_steps.step_graph import stored_and_multiplied
    from slipstick.estimators.serving.engine_step import served_step
    from slipstick.workloads.language.language_step import OF_CHECKPOINT, cached_in, in_stored_type
    from slipstick.workloads.language.weight_types import in_gguf

    converted = in_served_type(workload, machine, dtype)
    if "runtime.library" in chosen and not is_llama_cpp(machine.runtime.library):
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
    made = served_step(converted, running, engine, run, named=named)
    whose = made.engine if named or is_llama_cpp(engine) else "an engine"
    why = f"a step under {whose}{under}, as `serve` has it; {PLAIN}"
    return Default(converted, running, made.estimator, why, made.remarks, made.conditions)


@cache
def gpu_kernels() -> DeviceCalibration:
    """The calibration of GPU kernels that ships."""
    from slipstick.estimators.gpu.transfer.devices_file import load_device_calibration

    return load_device_calibration(registry.CALIBRATIONS / "gpus.json")


def _gpu(
    workload: Workload, machine: Machine, run: Mapping[str, float], dtype: str | None, chosen: Collection[str]
) -> Default:
    from slipstick.estimators.gpu.gpu_bands import FEW
    from slipstick.estimators.gpu.gpu_step import gpu_step
    from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
    from slipstick.estimators.schedules.host_constants import ISSUE
    from slipstick.estimators.schedules.sequential import Sequential
    from slipstick.estimators.training.graph_on_devices import nccl

    converted = precision(workload, machine, dtype)
    graphs = (
        any(map(attends_to_cache, workload.distinct.operations))
        and machine.runtime.mode == "eager"
        and "runtime.mode" not in chosen
    )
    library, unmeasured = _library(machine, chosen)
    machine = machine.using({"runtime.library": library}) if library else machine
    replaying = machine.using({"runtime.mode": "graph_replay"}) if graphs else machine
    parallel = "collective" in workload.kinds
    kernels = (kind for kind in converted.kinds if kind not in replaying.runtime.free_kinds)
    single = len(list(islice(kernels, FEW))) < FEW
    schedule: Schedule | None = Sequential() if single else None
    if parallel:
        schedule = AsynchronousDispatch(issue=ISSUE if replaying.runtime.mode != "graph_replay" else 0.0)
    made = gpu_step(gpu_kernels(), replaying, converted, run, schedule, nccl() if parallel else None)
    issued = "recorded graphs, as serving engines run them" if graphs else "a host that issues them"
    issued = "timed by themselves" if single else issued
    ran = f" with {library}" if library else ""
    why = f"kernels as measured on {gpu_kernels().devices} GPUs{ran}, {issued}; {PLAIN}"
    return Default(converted, replaying, made.estimator, why, (*unmeasured, *made.remarks))


def _library(machine: Machine, chosen: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """The measured kernel library that the machine names, "" where it names none, and a line where it was not measured.

    Raises InputError where the question sets one that was not measured; the known ones are listed.
    """
    named = machine.runtime.library
    if not named:
        return "", ()
    try:
        return gpu_kernels().library(named), ()
    except InputError as error:
        if "runtime.library" in chosen:
            raise
        return "", (f"{error}: kernels as of any of them",)


def served(workload: Workload, machine: Machine) -> None:
    """Raise InputError where an operation computes in a data type that no engine of the machine has."""
    from slipstick.estimators.roofline.roofline import serving_rate

    for name in sorted({name for op in workload.distinct.operations for name in op.cost if name.startswith("flop.")}):
        serving_rate(machine, *name.split(".")[1:])


def _parallel_training(workload: Workload, machine: Machine, dtype: str | None) -> Default:
    from slipstick.estimators.gpu.gpu_step import measured_kernels
    from slipstick.estimators.gpu.kernels.kernel_classes import class_of
    from slipstick.estimators.interconnect.compute_and_collectives import DeviceAndCollectives
    from slipstick.estimators.training.graph_on_devices import FITTED_FAMILY, nccl, parallel_training
    from slipstick.hwmodels.machine_kind import machine_kind

    converted = in_type(workload, machine, dtype)
    made = parallel_training()
    why = "kernels as measured on an A100 80 GB, NCCL's collectives, a pipeline of microbatches"
    if machine.family != FITTED_FAMILY and machine_kind(machine) == "gpu":
        classes = {class_of(op) for op in converted.distinct.operations if op.kind != "collective"}
        kernels = measured_kernels(gpu_kernels(), machine, classes)
        made = replace(made, operation=DeviceAndCollectives(kernels.model, nccl()))
        why = "kernels as measured on GPUs, NCCL's collectives, a pipeline of microbatches"
    return Default(converted, machine, made, f"{why}; {PLAIN}")


def _unmeasured(workload: Workload, machine: Machine, kind: str) -> Default:
    """Machines that no public measurements speak of: what is usual of the data sheet's rates, and a wide band."""
    from slipstick.estimators.composition.clipped_at_peak import ClippedAtPeak
    from slipstick.estimators.composition.composed_estimator import ComposedEstimator
    from slipstick.estimators.fitting.calibration import Calibration
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.schedules.host_constants import UNMEASURED
    from slipstick.estimators.schedules.sequential import Sequential
    from slipstick.estimators.tpu.systolic_array import SystolicArray, runs_on_array

    systolic = kind == "systolic" and runs_on_array(workload, machine)
    model = SystolicArray() if systolic else Roofline(compute_efficiency=0.7, memory_efficiency=0.75)
    operation, machine = _with_memory_on_chip(model, workload, machine)
    part: ComposedEstimator
    if systolic:
        part = ClippedAtPeak(operation, Sequential(), "systolic array with double-buffered operands, in sequence")
        made = Calibration(part, (), residual_std=UNMEASURED, source="no measurement: a closed form")
        return Default(workload, machine, made, f"a systolic array's cycles, no measurement of this machine; {PLAIN}")
    made_of = ComposedEstimator if kind == "many-core" else ClippedAtPeak  # a base clock, which processors exceed
    part = made_of(operation, Sequential(), "roofline at the usual share of the data sheet's rates")
    source = "no measurement: 70 % of the peaks, 75 % of the bandwidth"
    made = Calibration(part, (), residual_std=UNMEASURED, source=source)
    return Default(workload, machine, made, f"no public measurement of a {kind} machine like this one; {PLAIN}")


def _with_memory_on_chip(
    model: SystolicArray | Roofline, workload: Workload, machine: Machine
) -> tuple[SystolicArray | Roofline | UnifiedBuffer, Machine]:
    """The model with an accelerator's on-chip memory in use; as it is where a state of the caches was given."""
    from slipstick.estimators.symbolic.cache_residency import rated_caches
    from slipstick.estimators.tpu.unified_buffer import UnifiedBuffer, kept_bytes

    caches = rated_caches(machine)
    if machine.runtime.cache is not None or not caches or not machine.memory[caches[-1]].capacity:
        return model, machine
    trains = "optimizer" in workload.kinds
    return UnifiedBuffer(model, kept_bytes(workload), trains), machine.using({"runtime.cache": "warm"})
