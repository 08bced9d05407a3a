"""What changes in a trace, and the answers as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.experiments.replay.trace_whatif import Change, trace_whatif
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.importers.traces.trace_graph import TraceGraph

RUNTIMES = ("compiled", "graph_replay")


def rows(
    graph: TraceGraph, changes: Sequence[Change], operations: Mapping[int, Op] | None = None
) -> list[dict[str, Any]]:
    """One row a change: ratio to the trace first, then the step with its 80 % band and the account."""
    lines = []
    for change in changes:
        answer = trace_whatif(graph, change, operations=operations)
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
) -> list[Change]:
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
    result = [Change(today, other, runtime=runtime)]
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
