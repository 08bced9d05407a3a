"""A measured time held against a model's band: a benchmark that is slower than the model allows has a reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.formatting import share_shown, shown
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.experiments.question.facts import bounds
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.settings import Value, with_numbers
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

REPEATS = 7
SHORTEST = 1e-3
"""Seconds that one timing lasts at least; a shorter function is called several times in it."""


class OverBudgetError(AssertionError):
    """A measured time above the model's band; the message says by how much, and what should bound it."""


@dataclass(frozen=True)
class Budget:
    """What a model allows a measured time to be.

    Parameters
    ----------
    question, estimate
        What was estimated, and the answer.
    limit
        Seconds: the high end of the band times the slack.
    reason
        How the limit came about, in words.
    """

    question: Question
    estimate: Estimate
    limit: float
    reason: str

    def verdict(self, seconds: float) -> str | None:
        """None where a measured time [s] keeps the budget, else what is wrong and what should bound the time."""
        if seconds <= self.limit:
            return None
        workload, machine = self.question.workload, self.question.machine
        times, limit = f"{seconds / self.limit:.3g}", shown(self.limit, "s")
        note = f"{shown(seconds, 's')} measured, {times} x the limit of {limit} ({self.reason})"
        bound = ", ".join(f"{name} {share_shown(share)}" for name, share in bounds(self.estimate)[:3])
        return f"{workload.name} on {machine.name}: {note}" + (f"; the model is bound by {bound}" if bound else "")

    def check(self, seconds: float) -> None:
        """Hold a measured time [s] against the limit.

        Raises
        ------
        OverBudgetError
            Where it is above.
        """
        __tracebackhide__ = True  # pytest shows the line that was held, not this one
        if verdict := self.verdict(seconds):
            raise OverBudgetError(verdict)

    def holds(self, function: Callable[[], object], repeats: int = REPEATS) -> float:
        """Time a function and hold its median against the limit; returns the median in seconds.

        One call is not timed. A call shorter than a millisecond is repeated until that has passed.

        Raises
        ------
        OverBudgetError
            Where the median is above the limit.
        InputError
            Where `repeats` is below 1.
        """
        if repeats < 1:
            raise InputError(f"repeats = {repeats}: want at least 1")
        __tracebackhide__ = True
        function()
        times = sorted(_timed(function) for _ in range(repeats))
        median = times[len(times) // 2]
        self.check(median)
        return median


@checked
def budget(
    workload: str | Workload,
    machine: str | Machine,
    settings: Mapping[str, Value] | Sequence[str] = (),
    *,
    estimator: str | ShippedEstimator | Estimator | None = None,
    dtype: str | None = None,
    slack: float = 1.0,
    level: float = DEFAULT_LEVEL,
    **numbers: Value,
) -> Budget:
    """The time that a model allows a workload on a machine.

    Parameters
    ----------
    settings
        Numbers of the workload, the machine and the run by dotted name, as in `question`.
    slack
        The limit is the high end of the band times this; an estimator without a band needs one above 1.
    level
        Of the band: 0.8 lets one measurement in ten lie above it.
    numbers
        Sizes and numbers of the run by their words, as options of the command line: ``batch=8``, ``threads=240``.

    Raises
    ------
    InputError
        Where the question cannot be answered, or there is neither a band nor a slack.

    Examples
    --------
    >>> found = budget("gemm", "xeon-gold-6148", {"workload.m": 1024, "workload.n": 1024, "workload.k": 1024},
    ...                estimator="roofline", slack=2.0)
    >>> found.verdict(found.estimate.time) is None
    True
    """
    if not 0 < slack < float("inf"):
        raise InputError(f"slack = {slack!r}: want a finite factor above 0")
    made = question(workload, machine, estimator, with_numbers(budget, settings, numbers, workload), dtype)
    answer = made.answer()
    band = answer.interval(level)
    if band is None and slack <= 1:
        raise InputError(
            f"{made.workload.name} on {made.machine.name}: this estimator states no band: give slack, a factor above 1"
        )
    high = answer.time if band is None else band[1]
    words = f"an estimate of {shown(answer.time, 's')}"
    words += "" if band is None else f", {100 * level:g} % band to {shown(high, 's')}"
    return Budget(made, answer, high * slack, words + (f", times {slack:g}" if slack != 1 else ""))


def _timed(function: Callable[[], object]) -> float:
    calls, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < SHORTEST or not calls:
        function()
        calls += 1
    return passed / calls
