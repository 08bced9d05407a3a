"""Simulated logs of training iterations, and files of those that stand for a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.writer import write_json
from slipstick.estimators.sampling.iteration_choice import RepresentativeSet
from slipstick.estimators.sampling.length_law import LEAST, LengthLaw
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.importers.iteration_logs import read_log
from slipstick.workloads.runs.iterations import Iterations


def simulated_log(
    workload_name: str,
    machine_name: str,
    lengths: FloatArray,
    estimator_name: str | None = None,
    settings: Sequence[str] = (),
) -> Iterations:
    """Iterations of these lengths with the times that an estimator gives for a workload on a machine.

    The workload's length is its symbol `seq_len`; `settings` are `namespace.name=value` as for the other verbs.
    Raises InputError where a name is unknown, or the workload has no sequence length.
    """
    from slipstick.experiments.question.question import question

    query = question(workload_name, machine_name, estimator_name, settings)
    if "seq_len" not in query.workload.symbols:
        raise InputError(f"workload {query.workload.name!r}: has no symbol seq_len, so all its iterations are alike")
    unique, place = np.unique(lengths, return_inverse=True)
    compiled = query.estimator.compile(query.workload, query.machine, ("workload.seq_len",), query.run)
    times = np.asarray(compiled({"workload.seq_len": unique}))
    source = f"{query.workload.name} on {query.machine.name}, simulated"
    return Iterations(np.asarray(lengths, dtype=np.float64), times[place], source=source)


def steps_elsewhere(
    log: Iterations,
    workload_name: str,
    machine_name: str,
    other_name: str,
    estimator_name: str | None = None,
    settings: Sequence[str] = (),
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distinct lengths of a log, seconds of its steps there, and as they would be on another machine, shape (lengths,).

    The log's own law says what does not grow with the length (`LengthLaw.elsewhere`), the workload what the rest does.
    Raises InputError where a name is unknown, or the log has fewer than three lengths.
    """
    if log.proxy == "duration":
        raise InputError("the log has no lengths, only durations: give them with --lengths")
    law, lengths = LengthLaw.of(log), np.unique(log.lengths)
    here, there = (
        simulated_log(workload_name, name, lengths, estimator_name, settings).times
        for name in (machine_name, other_name)
    )
    one, other = machine(machine_name), machine(other_name)
    host = one.clock / other.clock if machine_kind(one) == machine_kind(other) == "cpu" else 1.0
    return lengths, law.seconds(lengths), law.elsewhere(lengths, np.asarray(here), np.asarray(there), host)


def law_lines(
    log: Iterations,
    workload: str | None = None,
    recorded_on: str | None = None,
    against: str | None = None,
    estimator_name: str | None = None,
    settings: Sequence[str] = (),
) -> list[str]:
    """A log's law of a step in words, where it has lengths enough, and how its steps change on another machine.

    Raises InputError as `steps_elsewhere`, where a workload and both machines are named.
    """
    lines = []
    if log.proxy != "duration" and len(np.unique(log.lengths)) >= LEAST:
        lines.append(LengthLaw.of(log).text(log.proxy))
    if workload is not None and recorded_on is not None and against is not None:
        steps, here, there = steps_elsewhere(log, workload, recorded_on, against, estimator_name, settings)
        ratio = there / here
        lines.append(
            f"on {against} a step takes {ratio[0]:.3g} x of that at {log.proxy} {steps[0]:g} and {ratio[-1]:.3g} x at "
            f"{steps[-1]:g}: the ratio varies by {ratio.max() / ratio.min() - 1:.0%}"
        )
    return lines


def log_beside(path: Path, parameter: str | None, column: str | None, lengths: Path | None) -> Iterations:
    """A log of the same run on another machine, by its own lengths, or by those of the first where it has none."""
    measured = read_log(path, None if lengths else parameter, column)
    if lengths is not None and measured.proxy == "duration":
        measured = read_log(path, parameter, column, lengths=lengths)
    return measured


def write_representatives(
    path: str | os.PathLike[str], selection: RepresentativeSet, proxy: str, first: int = 0
) -> None:
    """JSON that a profiler's wrapper can use: which iterations or lengths to run, and what each stands for.

    `first`: the number of the run's first iteration.
    """
    document = {
        "method": selection.method,
        "proxy": proxy,
        "iterations": int(selection.sizes.sum()),
        "representatives": [
            {"iteration": first + int(index), "length": float(length), "weight": float(weight)}
            for index, length, weight in zip(selection.indices, selection.lengths, selection.weights, strict=True)
        ],
    }
    write_json(path, document, indent=1)
