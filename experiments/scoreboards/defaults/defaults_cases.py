"""Public figures of whole models: the question as a user would put it; held out: the figures of the same group."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.experiments.scoreboards.defaults.defaults_board import Answered, answered
from slipstick.experiments.scoreboards.defaults.published_times import Figure, figures
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime


def case_set(scored: Path | None) -> CaseSet:
    """Inputs: workload, machine, dtype, mode and sizes; figures whose rows are not here are left out.

    Raises InputError where the public data are missing.
    """
    result = []
    for figure in figures().figures:
        try:
            result.append((figure, figure.measured(scored)))
        except InputError:
            continue
    if not result:
        raise InputError("defaults: none of the figures' rows is here (set SLIPSTICK_DATA)")

    @cache
    def answer(place: int) -> Answered | None:
        try:
            return answered(result[place][0], scored)
        except InputError:
            return None

    def reference(predict: Callable[[Answered], StatedTime]) -> Callable[[], list[StatedTime | None]]:
        def read() -> list[StatedTime | None]:
            answers = [answer(place) for place in range(len(result))]
            return [None if one is None else predict(one) for one in answers]

        return read

    references = {
        "ours": reference(lambda one: StatedTime(one.ours, one.low, one.high)),
        "roofline": reference(lambda one: StatedTime(one.plain)),
    }
    measured = tuple(Measured(_case(figure), seconds) for figure, seconds in result)
    return CaseSet("defaults", "kind of model", measured, references)


def _case(figure: Figure) -> Case:
    inputs: dict[str, Input] = {"workload": figure.workload, "machine": figure.machine, "dtype": figure.dtype or ""}
    inputs |= {"mode": figure.mode or "", "attention": figure.attention or "", **figure.set}
    if figure.generate:
        inputs["generate"] = tuple(map(float, figure.generate))
    return Case(figure.id, figure.group, inputs)
