"""The verbs `replay` and `read` as functions: files and names of machines in, answers with their rows out.

Between them stands a recorded step, whatever wrote it: its graph, what its kernels compute, the machine that it ran on,
and what changes in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstick.common.answer import Answer, PlainAnswer, Provenance
from slipstick.common.errors import InputError
from slipstick.common.formatting import ends_shown, shortened, shown
from slipstick.common.readers import read_json, require_mapping, unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.gpu.kernels.traced_kernels import between_vendors, dtype_on
from slipstick.estimators.schedules.trace_replay import graph_of
from slipstick.experiments.replay.read_files import TOP, Holding, ReadOptions, read_any
from slipstick.experiments.replay.trace_whatif import COLUMNS, TERMS, TraceChange, trace_whatif
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.catalog import machine_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.importers.formats.registry import identify
from slipstick.workloads.importers.timeline import READERS, graph_of_events, read_timeline
from slipstick.workloads.importers.traces.chakra_graph import LIMIT_BYTES, chakra_graph, has_durations
from slipstick.workloads.importers.traces.kernel_shapes import ARGUMENTS, LISTS, kernel_operations
from slipstick.workloads.importers.traces.trace_graph import TraceGraph
from slipstick.workloads.transforms.dtype import rewritten


@dataclass(frozen=True, eq=False)
class LoadedTrace:
    """A step as it was recorded.

    Parameters
    ----------
    operations
        What kernels compute, by their correlation number; only where their shapes are known.
    machine
        The machine it ran on; None where neither the trace nor the user says it.
    provenance
        "estimated" where the trace has no durations.
    """

    graph: TraceGraph
    operations: Mapping[int, Op]
    machine: Machine | None
    note: str
    provenance: Provenance = "measured"


def read_recorded(path: str, machine: Machine | None = None, step_pattern: str | None = None) -> LoadedTrace:
    """A profiler's timeline, or a Chakra trace with durations or without (then estimated on `machine`).

    What a file is, its content says: Chrome traces (Kineto), Nsight Systems' SQLite, rocprofv3's JSON and CSV.
    `step_pattern` is the pattern of its steps (see `graph_of_events`).

    Raises
    ------
    InputError
        Where the file is none of these, or has no durations and no machine is given.
    """
    kind = identify(path)
    if kind is None or kind.key != "chakra":
        table = read_timeline(path, ARGUMENTS, LISTS)
        graph = graph_of_events(table, path, step_pattern)
        kernels = graph.columns.correlation[graph.of_kind("kernel")].tolist()
        operations = {} if kind and kind.key in READERS else kernel_operations(table, path)
        sized = sum(number in operations for number in kernels)
        note = (
            f"{len(graph.nodes)} stretches of host, device and loading read off {path}; every delay that is not "
            "explained by a launch, a stream or a wait stays as measured; "
            f"shapes known for {sized} of {len(kernels)} kernels"
        )
        note = "; ".join([note, *graph.notes])
        return LoadedTrace(graph, operations, machine or machine_of_device(graph.device), note)
    document = require_mapping(read_json(path, LIMIT_BYTES), path, "the document")
    if has_durations(document):
        graph = chakra_graph(document, path)
        return LoadedTrace(graph, {}, machine, f"{len(graph.nodes) - 2} nodes of a Chakra trace with its durations")
    if machine is None:
        raise InputError(f"{path}: no durations (duration_micros): say --recorded-on MACHINE, and they are estimated")
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.workloads.importers.traces.execution_trace import import_execution_trace

    read = import_execution_trace(path).bound()
    workload = replace(read, operations=tuple(_as_run(op, machine) for op in read))
    graph = graph_of(workload, Roofline().times(workload.operations, machine), machine)
    places = {node.name: node.correlation for node in graph.nodes if node.correlation >= 0}
    operations = {places[op.name]: op for op in workload}
    note = (
        f"{len(workload)} operations of a Chakra trace without durations: estimated by the roofline of {machine.name}"
    )
    return LoadedTrace(graph, operations, machine, note, "estimated")


def step_named(path: str, read: LoadedTrace) -> str:
    """Which step the answer is of: ``a.json.gz, the median of 3 steps``."""
    count = len(read.graph.steps)
    return f"{shortened(Path(path).name, 60)}, " + ("one step" if count == 1 else f"the median of {count} steps")


def _as_run(op: Op, machine: Machine) -> Op:
    """The operation in the dtype that the frameworks run it in there: convolutions of float32 are rounded on some."""
    return rewritten(op, dtype_on(machine, op.name, op.dtype)) if op.kind == "convolution" else op


RUNTIMES = ("compiled", "graph_replay")


def measured_rows(
    graph: TraceGraph,
    changes: Sequence[TraceChange],
    operations: Mapping[int, Op] | None = None,
    timeline: str | None = None,
) -> list[dict[str, Any]]:
    """One row a change: ratio to the trace first, then the step with its 80 % band and the account.

    `timeline`: a file to which the first is written as a Chrome trace.
    """
    lines = []
    for number, change in enumerate(changes):
        answer = trace_whatif(graph, change, operations=operations)
        if timeline and not number:
            answer.write_trace(timeline)
        lines.append(
            {
                "workers": change.workers,
                "machine": change.other.name if change.other else None,
                "host_ratio": change.host_ratio,
                "runtime": change.runtime,
                **answer.rows()[0],
            }
        )
    return lines


def changes(
    vary: Sequence[str], today: Machine | None, other: Machine | None, set_: Sequence[str] = ()
) -> list[TraceChange]:
    """Changes from ``run.workers=0..8`` and ``run.host_ratio=0.5,1``: every combination, on one other machine.

    `set_`: settings of the other machine (today's where none is named): ``machine.clock=1.2GHz``,
        ``machine.runtime.mode=compiled``.
    Raises InputError where another quantity is named, or another machine without today's.
    """
    from slipstick.experiments.question.axes import axis
    from slipstick.experiments.question.settings import assignments

    if other is not None and today is None:
        raise InputError("--on another machine needs --recorded-on: the machine that the trace was recorded on")
    settings = assignments(set_, ["machine"])["machine"]
    runtime = settings.pop("runtime.mode", None)
    if runtime == "eager":
        runtime = None
    if runtime not in (None, *RUNTIMES):
        raise unknown_name("machine.runtime.mode", str(runtime), ["eager", *RUNTIMES])
    if settings:
        base = other or today
        if base is None:
            raise InputError("--set machine.* needs --recorded-on: the machine that the trace was recorded on")
        other = base.using(settings)
    result = [TraceChange(today, other, runtime=runtime)]
    for text in vary:
        if today is None:
            from slipstick.hwmodels.catalog import machine, machine_names

            target = machine(machine_names()[0])  # run.* quantities are read alike on every machine
        else:
            target = today
        name, values = axis(text, target)
        if name == "run.workers":
            result = [replace(change, workers=int(value)) for change in result for value in values]
        elif name == "run.host_ratio":
            result = [replace(change, host_ratio=float(value)) for change in result for value in values]
        else:
            field = name if name.startswith("machine.") else "machine.clock"
            raise InputError(
                f"{name}: a trace can vary run.workers and run.host_ratio; --set {field}=VALUE (with --recorded-on, "
                "and --on for another machine) changes the machine of a replay"
            )
    return result


BETWEEN_VENDORS = "between vendors: kernels whose time should change little are taken to change less still"


@checked
def replay(
    trace: str,
    machine: str | Machine | None = None,
    vary: Sequence[str] = (),
    *,
    recorded_on: str | Machine | None = None,
    settings: Sequence[str] = (),
    step_pattern: str | None = None,
    timeline: str | None = None,
) -> Answer:
    """Replay a recorded step: as it was, on another machine, under another runtime, or with other loading workers.

    Parameters
    ----------
    trace
        Of PyTorch's profiler, Nsight Systems, rocprofv3 or Chakra.
    machine
        The target; None: the machine that it was recorded on.
    vary
        ``run.workers=0..8``, ``run.host_ratio=0.5,1``.
    recorded_on
        Where the trace does not say it.
    settings
        Of the target: ``machine.runtime.mode=compiled``, ``machine.clock=1.2GHz``.
    step_pattern
        Pattern of the ranges that are steps: ``iteration (\\d+)``.
    timeline
        A file to which the first row's replay is written as a Chrome trace.

    Returns
    -------
    Answer
        One row a change: time_ratio, step_s with its 80 % band (low_s, high_s), and the account in seconds.

    Raises
    ------
    InputError
        Where the file is no trace, or another machine is given and nothing says which one it was recorded on.
    """
    target, today = (machine_by_name(one) if isinstance(one, str) else one for one in (machine, recorded_on))
    read = read_recorded(trace, today, step_pattern)
    wanted = changes(vary, read.machine, target, settings)
    notes = [f"assuming: {read.note}"]
    if read.machine is not None:
        where = "" if recorded_on else f" (the trace says {read.graph.device!r})"
        notes.append(f"recorded on {read.machine.name}{where}")
    far = target is not None and read.machine is not None and between_vendors(read.machine, target)
    remarks = (BETWEEN_VENDORS,) if far else ()
    rows = tuple(measured_rows(read.graph, wanted, read.operations, timeline))
    first, ran_on = rows[0], target or read.machine
    step = f"{shown(first['step_s'], 's')} (80 %: {ends_shown(first['low_s'], first['high_s'])})"
    same = not any(f"{term}_s" in row for term in TERMS for row in rows)
    if not same:
        step = step if len(rows) == 1 else f"{len(rows)} replays"
        step += f", {shown(first['measured_step_s'], 's')} {read.provenance}"
    heads = (f"{step_named(trace, read)}{f' on {ran_on.name}' if ran_on else ''}: {step}",)
    provenance = read.provenance if same or read.provenance == "estimated" else "calibrated"
    return PlainAnswer(rows, COLUMNS, heads=heads, notes=(*notes, *remarks), remarks=remarks, provenance=provenance)


@checked
def read(
    file: str,
    machine: str | None = None,
    *,
    model: str | None = None,
    devices: int | None = None,
    dtype: str | None = None,
    engine: str = "vllm",
    top: int = TOP,
) -> Holding:
    """What a file of a profiler or a benchmark is, what it holds, and which commands go on with it.

    Parameters
    ----------
    machine
        Whose estimate stands beside what was measured.
    model, devices, dtype, engine
        Of a server's benchmark, where the file does not say them.
    top
        How many operations to list, slowest first.

    Raises
    ------
    InputError
        Where nothing is known of the file, or it is broken.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "runs.csv")
    ...     _ = path.write_text("threads,time_s\\n1,10\\n2,5.2\\n4,2.9\\n")
    ...     read(str(path)).kind.key
    'times'
    """
    return read_any(file, ReadOptions(machine, model, devices, dtype, engine, top))
