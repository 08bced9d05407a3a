"""Scoreboard: whole-model latency composed from the DLBricks authors' layer sequences, on machines left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slipstick.estimators.fitting.scores import log_errors
from slipstick.experiments.calibrate.public_data import why_missing
from slipstick.experiments.papers.dlbricks.dlbricks_data import SEQUENCES, Timings, timings
from slipstick.experiments.scoreboards.dlbricks import own_bricks_scores
from slipstick.experiments.scoreboards.dlbricks.machines_left_out import TimedMachine, answers, machine_of
from slipstick.experiments.scoring.score import Board, Data, Metric, MissingError, Scored, of_errors
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

LEVEL = 0.80
WORST = 0.12
METRICS = (Metric("mean |log error|", lambda ours, measured: float(np.mean(log_errors(ours, measured))), "%"),)


def _machines(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each machine from the others and from those of other families; with `--data`, each there from the shared ones."""
    shared, judged = timings(), timings(data.scored)
    if shared is None or judged is None:
        raise MissingError(why_missing(SEQUENCES, data.scored if shared is not None else None))
    for name in sorted(set(judged.sequences.instance)):
        known = [other for other in sorted(set(shared.sequences.instance)) if other != name]
        strangers = [other for other in known if other.partition(".")[0] != name.partition(".")[0]]
        yield _scored(shared, judged, name, known, "machine")
        if strangers and strangers != known:
            yield _scored(shared, judged, name, strangers, "family of machines")


def _own(data: Data) -> list[ValidationRow]:
    """The project's own measurement, which is scored as it is."""
    return own_bricks_scores.rows() if data.scored is None else []


def _scored(training: Timings, judged: Timings, name: str, others: list[str], left_out: str) -> Scored | ValidationRow:
    references = training.sequences[training.sequences.instance.isin(others)]
    target = machine_of(judged, name, references)
    if not target.networks:
        return skipped("dlbricks", f"{name}: no model with both composed and end-to-end latency")
    predicted = answers(target, [machine_of(training, other, references) for other in others])
    errors = np.log(predicted.seconds / predicted.measured)
    worst = float(np.max(np.abs(errors)))
    return replace(
        of_errors(f"whole models on {name}", left_out, errors, _baselines(judged, target)),
        metrics=METRICS,
        goals=(4.0,),
        holds=worst <= WORST,
        half=predicted.half,
        level=LEVEL,
        groups=name,
        reason=f"worst model {100 * worst:.1f} % (goal 12 %)",
    )


def _baselines(judged: Timings, target: TimedMachine) -> dict[str, Sequence[float]]:
    """Log errors of sums as they are."""
    sums = judged.composed.loc[target.name].reindex(target.networks)
    measured = np.log([target.whole[network] for network in target.networks])
    return {
        "sum of single layers": list(np.log(sums[min(sums.columns)].to_numpy(dtype=float)) - measured),
        "median over granularities": list(np.log(np.nanmedian(sums.to_numpy(dtype=float), axis=1)) - measured),
    }


BOARD = Board(
    "How long does a network take on a machine where only its layers were measured elsewhere?",
    {"dlbricks": _machines, "own bricks": _own},
)
