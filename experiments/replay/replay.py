"""The verbs `replay` and `read` as functions: files and names of machines in, answers with their rows out.

What changes in a trace, and the answers as rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slipstick.common.answer import Answer, PlainAnswer
from slipstick.common.errors import InputError
from slipstick.common.formatting import ends_shown, shown
from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.gpu.kernels.traced_kernels import between_vendors
from slipstick.experiments.replay.loaded_trace import read_recorded, step_named
from slipstick.experiments.replay.read_files import TOP, Holding, ReadOptions, read_any
from slipstick.experiments.replay.trace_whatif import COLUMNS, TERMS, TraceChange, trace_whatif
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.importers.traces.trace_graph import TraceGraph

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
