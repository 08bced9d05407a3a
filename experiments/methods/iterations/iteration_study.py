"""The verbs `seqpoint` and `phases` as functions: the log or profile of a run in, what stands for it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.sampling.iteration_choice import RepresentativeSet
from slipstick.estimators.sampling.phase_report import PhaseReport, report_phases
from slipstick.estimators.sampling.seqpoint import select
from slipstick.estimators.sampling.warm_up import FIRST_ITERATIONS
from slipstick.experiments.methods.iterations.step_logs import labels_of, read_steps
from slipstick.workloads.importers.iteration_logs import read_log
from slipstick.workloads.runs.event_steps import MARKER
from slipstick.workloads.runs.iterations import Iterations
from slipstick.workloads.runs.step_profiles import StepTable


@checked
def seqpoint(
    log: str | Path | Iterations,
    *,
    method: str = "seqpoint",
    parameter: str | None = None,
    column: str | None = None,
    lengths: str | Path | None = None,
    error: float | None = None,
    representatives: int | None = None,
    seed: int | None = None,
    warm_up: str | None = None,
    **settings: Any,
) -> RepresentativeSet:
    """Few iterations that stand for a training run, with weights: SeqPoint and its rivals.

    Parameters
    ----------
    log
        Iterations, or a file of them (`read_log`).
    method
        seqpoint, stratified, k-means, uniform, prior, median, frequent or worst.
    parameter, column
        Of a file: the columns of the lengths, and of the time [s] or other quantity.
    lengths
        Of a file that holds none: a .csv with the length of each iteration (column `parameter`, else seq_len).
    error
        Largest error of the projection, a share; of seqpoint and stratified.
    representatives, seed
        How many iterations are chosen, and the seed of what is drawn; of the methods that take them.
    warm_up
        What becomes of iterations that are slow for being first: "leave-out" (so are those of a file) or "keep".
    settings
        Others of the method (of seqpoint threshold, bins, most).

    Raises
    ------
    InputError
        Where the log, the method or a setting cannot be used.

    Examples
    --------
    >>> import slipstick as ss
    >>> run = ss.runs.Iterations(lengths=[5, 5, 7, 9], times=[1.0, 1.0, 1.4, 1.8])
    >>> ss.seqpoint(run).weights.tolist()  # few lengths stand for themselves
    [2.0, 1.0, 1.0]
    """
    way = warm_up or ("keep" if isinstance(log, Iterations) else "leave-out")
    if way not in FIRST_ITERATIONS:
        raise unknown_name("way with iterations that are slow for being first", way, list(FIRST_ITERATIONS))
    if isinstance(log, Iterations) and lengths is not None:
        raise InputError("lengths: of a file; Iterations(lengths, times) holds them")
    run = log if isinstance(log, Iterations) else read_log(log, parameter, column, lengths=lengths)
    judged = FIRST_ITERATIONS[way](run)
    given = {"error": error, "size": representatives, "seed": seed}
    settings |= {name: value for name, value in given.items() if value is not None}
    return judged.warm(select(method, judged.steady, **settings))


@checked
def phases(
    trace: str | Path,
    *,
    method: str = "duration",
    threshold: float | None = None,
    clusters: int | None = None,
    minimum: int | None = None,
    step_pattern: str = MARKER,
    top: int = 5,
) -> PhaseReport:
    """Phases of a run: steps that do the same for the same time, their share and their top operations.

    Parameters
    ----------
    trace
        A timeline, a .csv of events (step, operation, duration_s), recorded steps, or a log of MLPerf training.
    method
        duration, published, k-means or dbscan.
    threshold, clusters, minimum
        Of the two scans, of k-means and of dbscan.
    step_pattern
        Pattern of the events that mark a step, with its number.
    top
        How many operations to list of a phase, slowest first.

    Raises
    ------
    InputError
        Where the file has no steps, or the method is unknown.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import slipstick as ss
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "events.csv")
    ...     _ = path.write_text("step,operation,duration_s\\n1,mm,0.1\\n2,mm,0.1\\n3,save,0.9\\n")
    ...     len(ss.phases(path).phases)
    2
    """
    steps, _ = read_steps(Path(trace), step_pattern)
    table = StepTable.of(steps)
    return report_phases(table, labels_of(table, method, threshold, clusters, minimum), top)
