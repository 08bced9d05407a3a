"""Scoreboard: steps of published training runs, held out by scale, accelerator, model and cluster size.

Two stacks are fitted apart, a dozen terms each: Megatron (MLPerf and Megatron-Bridge) and FSDP (llm-foundry). What is
left out of a fit is left out of all sources of its stack. Baselines: a roofline with one fitted share of the peak, and
the nearest known run at the same flop/s a device.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.experiments.evidence.rows import ValidationRow
from slipstick.experiments.evidence.score import Board, Data, Front, MissingError, Scored
from slipstick.experiments.evidence.validation.parallel.training.training_coverage import memory_row
from slipstick.experiments.evidence.validation.parallel.training.training_figures import (
    baseline_errors,
    figures,
    spread_of,
)
from slipstick.experiments.evidence.validation.parallel.training.training_fit import anchored, fitted_terms, log_errors
from slipstick.experiments.evidence.validation.parallel.training.training_known_scores import grown
from slipstick.experiments.evidence.validation.parallel.training.training_rows import FILES, TrainingRun, training_runs
from slipstick.experiments.evidence.validation.parallel.training.training_searched import searched_scores

MOST_KNOWN = 512
"""Accelerators of the largest MLPerf run that the fit of larger ones may see."""
MEGATRON, FSDP = ("mlperf", "megatron-bridge"), ("llm-foundry",)


@dataclass(frozen=True)
class LeftOut:
    """Runs of one source, in groups of which each is predicted from the others."""

    source: str
    case: str
    group: Callable[[TrainingRun], Hashable]
    goals: tuple[float, float]
    noise: tuple[float, float] | None = None


LEFT_OUT = (
    LeftOut("mlperf", "accelerator unseen", lambda run: run.system, (0.06, 0.18), (0.002, 0.005)),
    LeftOut("megatron-bridge", "accelerator unseen", lambda run: run.system, (0.10, 0.28), (0.029, 0.15)),
    LeftOut("megatron-bridge", "model unseen", lambda run: run.model.name, (0.13, 0.22), (0.029, 0.15)),
    LeftOut("llm-foundry", "system left out", lambda run: run.system, (0.12, 0.30)),
    LeftOut("llm-foundry", "cluster size left out", lambda run: run.devices, (0.05, 0.12)),
)


def _scores(source: str, data: Data) -> Iterator[Scored | ValidationRow]:
    """Medians and 90th percentiles of a source's cases; with `--data` of its rows kept aside."""
    known = {name: training_runs(name, data.known(file))[0] for name, file in FILES.items()}
    if data.scored is not None:
        yield _kept_aside(source, known, data.judged(FILES[source]))
        return
    if source == "mlperf":
        yield from _scale(known)
    for one in LEFT_OUT:
        if one.source == source:
            yield _left_out(one, known)
    if source in ("mlperf", "llm-foundry"):
        yield grown(source, known[source], stack_of(source, known))
    if source == "mlperf":
        yield from searched_scores(data.known(FILES[source]), stack_of(source, known), MOST_KNOWN)
    yield memory_row(source, known[source])


def stack_of(source: str, known: Mapping[str, Sequence[TrainingRun]]) -> list[TrainingRun]:
    """All runs of the stack (Megatron or FSDP) that a source belongs to."""
    return [run for name in (MEGATRON if source in MEGATRON else FSDP) for run in known[name]]


def _scale(known: Mapping[str, Sequence[TrainingRun]]) -> list[Scored]:
    """MLPerf above 512 accelerators: from the terms alone, and anchored to the nearest smaller run."""
    small = [run for run in stack_of("mlperf", known) if run.devices <= MOST_KNOWN]
    large = [run for run in known["mlperf"] if run.devices > MOST_KNOWN]
    terms = fitted_terms(small)
    plain = log_errors(large, terms)
    spread = spread_of(log_errors(small, terms))
    submitted = [run for run in small if run.source == "mlperf"]
    # the anchored error is that of scaling: how each small run follows from the others of its kind
    with_anchor = np.array(
        [error + (anchored(run, submitted, terms) or 0.0) for run, error in zip(large, plain, strict=True)]
    )
    case = f"Llama 3.1 405B above {MOST_KNOWN} accelerators"
    base = baseline_errors(large, submitted)
    return [
        figures("mlperf", f"{case}, terms alone", "scale", plain, np.full(len(large), spread), base, (0.08, 0.20)),
        figures(
            "mlperf", f"{case}, anchored to the nearest known run", "scale", with_anchor,
            np.full(len(large), spread), base, (0.03, 0.08),
        ),
    ]  # fmt: skip


def _left_out(board: LeftOut, known: Mapping[str, Sequence[TrainingRun]]) -> Scored:
    """Each group predicted from the others; its band from the errors of the other groups."""
    stack = stack_of(board.source, known)
    errors: dict[Hashable, FloatArray] = {}
    runs: dict[Hashable, list[TrainingRun]] = {}
    base: dict[str, list[float]] = {}
    for group in sorted({board.group(run) for run in known[board.source]}, key=str):
        mine = [run for run in known[board.source] if board.group(run) == group]
        others = [run for run in stack if board.group(run) != group]
        runs[group] = mine
        errors[group] = log_errors(mine, fitted_terms(others))
        for name, values in baseline_errors(mine, others).items():
            base.setdefault(name, []).extend(values)
    spreads = {
        group: spread_of(np.concatenate([errors[other] for other in errors if other != group])) for group in errors
    }
    together = np.concatenate(list(errors.values()))
    widths = np.concatenate([np.full(len(errors[group]), spreads[group]) for group in errors])
    worst = max(errors, key=lambda group: float(np.median(np.abs(errors[group]))))
    note = f"worst: {worst} ({np.median(np.abs(np.expm1(errors[worst]))):.0%} median)"
    return figures(board.source, board.case, board.case, together, widths, base, board.goals, note, board.noise)


def _kept_aside(source: str, known: Mapping[str, Sequence[TrainingRun]], path: Path) -> Scored:
    """Rows of another file, from terms fitted to all rows here but those that stand in it."""
    runs, left = training_runs(source, path)
    if not runs:
        raise MissingError(f"none of {left} rows has a layout and a model that is known")
    scored = {_key(run) for run in runs}
    stack = [run for run in stack_of(source, known) if _key(run) not in scored]
    rest = [run for run in known[source] if _key(run) not in scored]
    terms = fitted_terms(stack)
    errors = log_errors(runs, terms) + np.array([anchored(run, rest, terms) or 0.0 for run in runs])
    spread = np.full(len(runs), spread_of(log_errors(stack, terms)))
    note, goals = f"{left} rows are left out", (0.10, 0.28)
    return figures(source, "rows kept aside", "file", errors, spread, baseline_errors(runs, stack), goals, note)


def _key(run: TrainingRun) -> tuple[object, ...]:
    """What makes two rows one measurement: scored ones are taken out of the known."""
    return run.source, run.system, run.model.name, run.devices, run.batch, run.sequence, run.precision, run.seconds


BOARD = Board(
    "How long does a training step take on accelerators, models or cluster sizes never measured?",
    {f"training: {source}": partial(_scores, source) for source in FILES},
    (
        Front(
            "Training step (MLPerf)", "the accelerator", "accelerator unseen", "accelerator unseen", "training: mlperf"
        ),
        Front("Training step (Megatron)", "the model", "model unseen", "model unseen", "training: megatron-bridge"),
        Front("Training step (FSDP)", "the system", "system left out", "system left out", "training: llm-foundry"),
    ),
)
