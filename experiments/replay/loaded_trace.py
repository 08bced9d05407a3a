"""A recorded step, whatever wrote it: its graph, what its kernels compute, and the machine it ran on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slipstick.common.answer import Provenance
from slipstick.common.errors import InputError
from slipstick.common.formatting import shortened
from slipstick.common.readers import read_json, require_mapping
from slipstick.estimators.gpu.kernels.traced_kernels import dtype_on, in_dtype
from slipstick.estimators.schedules.trace_replay import graph_of
from slipstick.hwmodels.catalog import machine_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.importers.formats.registry import identify
from slipstick.workloads.importers.timeline import READERS, graph_of_events, read_timeline
from slipstick.workloads.importers.traces.chakra_graph import LIMIT_BYTES, chakra_graph, has_durations
from slipstick.workloads.importers.traces.kernel_shapes import ARGUMENTS, LISTS, kernel_operations
from slipstick.workloads.importers.traces.trace_graph import TraceGraph


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
    dtype = dtype_on(machine, op.name, op.dtype) if op.kind == "convolution" else op.dtype
    return in_dtype(op, dtype)
