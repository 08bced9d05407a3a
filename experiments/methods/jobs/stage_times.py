"""Seconds of a stage that is a workload on a machine: the whole of its estimate, or one side of a fed accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import Estimate
from slipstick.experiments.methods.jobs.job_records import Part
from slipstick.experiments.question.question import question
from slipstick.experiments.question.settings import number_of

METRICS: dict[Part, str] = {"host": "host", "infeed": "link", "device": "device"}
"""The share of a step that each side of a fed accelerator is busy, by its name among the answer's metrics."""
WORKERS = 16
"""That make examples where run.workers does not say."""


@dataclass(frozen=True)
class StageTime:
    """Seconds of one output of one worker, how sure their mean is (log), and what they assume."""

    seconds: float
    scatter: float
    assumed: str


def stage_time(
    workload: str, machine: str, estimator: str | None, settings: tuple[str, ...], dtype: str | None, part: Part
) -> StageTime:
    """The time of a stage; the same question is answered once.

    `part`: whole; or host (one of run.workers makes a batch), infeed (it is handed in), device (it is worked on).
    Raises InputError where the question is wrong, or the estimate knows no such part.
    """
    answer, names = _answered(workload, machine, estimator, settings, dtype)
    seconds = answer.time
    if part != "whole":
        share = answer.metrics.get(METRICS[part])
        if share is None or "idle" not in answer.metrics:
            raise InputError(
                f"{workload} on {machine}: its estimate is one whole; part = {part} is known of accelerators behind an "
                "input pipeline (TPU boards)"
            )
        seconds *= share * (workers_of(settings) if part == "host" else 1)
    scatter = answer.spread.total
    sure = "how sure it is, is not known: the estimator is not calibrated"
    if scatter is not None:
        sure = f"its mean scatters by {scatter:.1%}, drawn once a run"
    what = f"{part} of {names}" if part != "whole" else names
    return StageTime(seconds, scatter or 0.0, f"{what}, {seconds:.4g} s; {sure}")


def _answered(
    workload: str, machine: str, estimator: str | None, settings: tuple[str, ...], dtype: str | None
) -> tuple[Estimate, str]:
    """The estimate and its names; of what ships only once, for files and modules may change in between."""
    ships = not any(mark in name for name in (workload, machine, estimator or "") for mark in "./:")
    return (_kept if ships else _kept.__wrapped__)(workload, machine, estimator, settings, dtype)


@lru_cache(maxsize=256)
def _kept(
    workload: str, machine: str, estimator: str | None, settings: tuple[str, ...], dtype: str | None
) -> tuple[Estimate, str]:
    query = question(workload, machine, estimator, list(settings), dtype)
    return query.answer(), f"{query.workload.name} on {query.machine.name}"


def workers_of(settings: Sequence[str]) -> int:
    """run.workers among settings, else 16."""
    given = [text.partition("=")[2] for text in settings if text.partition("=")[0].strip() == "run.workers"]
    return round(number_of("run.workers", given[-1])) if given else WORKERS


def is_fed(workload: str, machine: str, estimator: str | None, settings: tuple[str, ...], dtype: str | None) -> bool:
    """Whether an estimate knows an input pipeline whose host works."""
    answer, _ = _answered(workload, machine, estimator, settings, dtype)
    return "idle" in answer.metrics and answer.metrics.get("host", 0.0) > 0 and "link" in answer.metrics
