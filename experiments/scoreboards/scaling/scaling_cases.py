"""Later values of public scaling series, from their first ones; held out: the series of the same source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.scoreboards.scaling.scaling_board import Target, cases, predictions
from slipstick.experiments.scoreboards.scaling.series_collection import ScalingSeries, read_collection
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime

FILES = ("scaling/index.csv", "scaling/series.csv")


def case_set(scored: Path | None) -> CaseSet:
    """Inputs: kind, parameter, the known values and their median times, and the value that is wanted (`to`).

    Raises InputError where the public data are missing.
    """
    index, series = (scored_file(name, scored) for name in FILES)
    if index is None or series is None:
        raise InputError(why_missing(FILES[1], scored))
    collection = read_collection(index, series)
    measured = [one for each in collection for one in _cases(each)]
    memory: dict[str, Target] = {}

    def answers(field: str) -> Callable[[], list[StatedTime | None]]:
        def read() -> list[StatedTime | None]:
            if not memory:
                memory.update({_name(one.series, one.size, one.to): one for one in predictions(collection)})
            return [_prediction(memory[one.case.name], field) for one in measured]

        return read

    references = {"ours": answers("ours"), "amdahl": answers("amdahl"), "last value": answers("last")}
    return CaseSet("scaling", "source", tuple(measured), references)


def _name(series: str, size: int, to: float) -> str:
    return f"{series}, {size} values, {to:g}"


def _cases(each: ScalingSeries) -> list[Measured]:
    result = []
    for known, later, truth in cases(each):
        shared: dict[str, Input] = {
            "kind": each.kind,
            "parameter": each.parameter,
            "known": known.x,
            "times_s": known.y,
        }
        for to, seconds in zip(later, truth, strict=True):
            case = Case(_name(each.name, len(known.x), float(to)), each.source, {**shared, "to": float(to)}, each.kind)
            result.append(Measured(case, float(seconds)))
    return result


def _prediction(one: Target, field: str) -> StatedTime | None:
    if field != "ours":
        return StatedTime(getattr(one, field)) if field == "last" or one.kind == "strong" else None
    banded = one.low == one.low and one.low > 0
    return StatedTime(one.ours, one.low, one.high) if banded else StatedTime(one.ours)
