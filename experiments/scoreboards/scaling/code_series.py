"""Strong scaling of public codes, each code left out: errors, bands and verdicts, every code counting alike.

The rule: for every m >= 4 the first m values of a series are known and every later value is predicted; truth is the
median of the repeats there. A code is the first part of a series' name (many series of one code differ by libraries and
networks). Priors come of the other codes (`scaling_refit.py`), so that no code judges itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.base.sureness import NEAR
from slipstick.estimators.fitting import scores
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.scaling.averaged_scaling import averaged
from slipstick.estimators.scaling.laws.priors import FITTED_NAME, PRIORS, Priors, Recalibration
from slipstick.estimators.scaling.series import Series, verdicts
from slipstick.experiments.scoreboards.scaling.amdahl import amdahl
from slipstick.experiments.scoreboards.scaling.series_collection import ScalingSeries, every_series
from slipstick.experiments.scoring.score import Data
from slipstick.experiments.scoring.score_rows import ValidationRow

FIRST = 4
BINS = (("2x", 1.5, 2.9), ("4x", 2.9, 5.7), ("8x", 5.7, 11.4), (">11x", 11.4, np.inf))
ENOUGH_CODES = 5
FAR_OFF, FAR_OFF_AT_MOST = 0.30, 7.0
GOAL_2X, GOAL = 0.9, 1.0
"""Shares of Amdahl's error that ours may have."""


@dataclass(frozen=True, eq=False)
class CodeCase:
    """The first values of a series, and what was measured at later ones [s]."""

    code: str
    known: Series
    to: FloatArray
    truth: FloatArray


def code_cases(collection: Sequence[ScalingSeries]) -> list[CodeCase]:
    """Every admissible number of known values of every series of strong scaling."""
    cases = []
    for one in collection:
        if one.kind != "strong":
            continue
        values = np.unique(one.values)
        medians = np.array([np.median(one.times[one.values == value]) for value in values])
        for m in range(FIRST, len(values)):
            known = one.values <= values[m - 1]
            series = Series.of(one.values[known], one.times[known], one.parameter, one.name)
            cases.append(CodeCase(one.name.split("/")[0], series, values[m:], medians[m:]))
    return cases


@dataclass(frozen=True, eq=False)
class CodeTargets:
    """One row a predicted value; arrays of shape (targets,), times in seconds."""

    code: FloatArray
    ratio: FloatArray
    truth: FloatArray
    ours: FloatArray
    low: FloatArray
    high: FloatArray
    trusted: FloatArray
    amdahl: FloatArray
    last: FloatArray

    def only(self, some: Mask) -> CodeTargets:
        """Some of the targets."""
        return CodeTargets(*(getattr(self, name)[some] for name in self.__dataclass_fields__))

    def over_codes(self, figure: Callable[[CodeTargets], float]) -> float:
        """A figure of each code, every code counting alike."""
        return float(np.mean([figure(self.only(self.code == code)) for code in np.unique(self.code)]))


def targets(cases: Sequence[CodeCase], priors: Mapping[str, Priors]) -> CodeTargets:
    """What the average over laws says of cases, by priors of each code (`PRIORS` where a code has none)."""
    columns = []
    for case in cases:
        answer = averaged(case.known, case.to, priors=priors.get(case.code, PRIORS))
        certainty = answer.certainty()
        words = verdicts(case.known, certainty, case.to, answer.value)
        x, y = np.asarray(case.known.x), np.asarray(case.known.y)
        trusted = np.array([word.word == "trust" for word in words])
        ratio, last = case.to / x[-1], np.full(len(case.to), y[-1])
        times = (case.truth, answer.value, certainty.low, certainty.high, trusted, amdahl(case.known, case.to), last)
        columns.append((np.full(len(case.to), case.code), ratio, *times))
    return CodeTargets(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def left_out_priors() -> dict[str, Priors]:
    """Priors of each code, recalibrated by the other codes."""
    others = load_fitted(FITTED_NAME).facts["left out"]
    return {code: replace(PRIORS, codes=Recalibration(**one)) for code, one in others.items()}


def code_rows(data: Data) -> Iterator[ValidationRow]:
    """Error, band and verdicts of each bin."""
    cases = code_cases(every_series(data))
    if not cases:
        return
    predicted = targets(cases, left_out_priors())
    for name, low, high in BINS:
        some = predicted.only((predicted.ratio >= low) & (predicted.ratio < high))
        if not len(some.truth):
            continue
        codes = [str(code) for code in np.unique(some.code)]
        yield from _bin(f"codes left out, {name}", some, codes, GOAL_2X if name == "2x" else GOAL)
    yield _far_off(predicted.only(predicted.ratio >= BINS[0][1]))


def _bin(case: str, some: CodeTargets, codes: Sequence[str], share: float) -> Iterator[ValidationRow]:
    reason, judged = f"{len(codes)} codes: {', '.join(codes)}", len(codes) >= ENOUGH_CODES
    ours, theirs, last = (100 * some.over_codes(partial(_median_error, name)) for name in ("ours", "amdahl", "last"))
    yield ValidationRow(
        *("codes", case, "code", len(some.truth), "median relative error, mean over codes", "%", ours),
        {"amdahl": theirs, "last_value": last},
        goal=share * theirs if judged else None,
        ok=ours <= share * theirs if judged else None,
        reason=reason,
    ).over(codes)
    covered = some.over_codes(lambda part: scores.coverage(part.low, part.high, part.truth))
    score = some.over_codes(lambda part: scores.interval_score(part.low, part.high, part.truth))
    rival = _amdahl_score(some)
    yield ValidationRow(
        *("codes", f"{case}, band", "code", len(some.truth), "interval score of log time, mean over codes", "1", score),
        {"amdahl_with_left_out_residuals": rival},
        ok=(0.70 <= covered <= 0.90 and score < rival) if judged else None,
        interval_level=scores.LEVEL,
        interval_coverage=covered,
        interval_width=float(np.exp(some.over_codes(lambda part: float(np.mean(np.log(part.high / part.low)))))),
        reason=f"{reason}; ok: coverage 70 .. 90 % and a smaller score than Amdahl's",
    ).over(*_held(some))
    trusted = 100 * some.over_codes(lambda part: float(np.mean(part.trusted)))
    yield ValidationRow("codes", case, "code", len(some.truth), "trusted, mean over codes", "%", trusted, reason=reason)


def _held(some: CodeTargets) -> tuple[list[str], list[float]]:
    """The codes, and the share of each one's targets inside their bands: every code counts alike."""
    parts = {str(code): some.only(some.code == code) for code in np.unique(some.code)}
    return list(parts), [scores.coverage(part.low, part.high, part.truth) for part in parts.values()]


def _median_error(name: str, part: CodeTargets) -> float:
    return scores.relative_quantile(0.5, getattr(part, name), part.truth)


def _amdahl_score(some: CodeTargets) -> float:
    """Interval score of Amdahl's law with the band that held 80 % of the other codes' targets in this bin."""

    def of_code(part: CodeTargets) -> float:
        others = some.only(some.code != part.code[0])
        rest = others if len(others.truth) else part
        half = np.exp(scores.log_quantile(scores.LEVEL, rest.amdahl, rest.truth))
        return scores.interval_score(part.amdahl / half, part.amdahl * half, part.truth)

    return some.over_codes(of_code)


def _far_off(predicted: CodeTargets) -> ValidationRow:
    trusted = predicted.trusted.astype(bool)
    some = predicted.only(trusted)
    codes = np.unique(some.code)
    share = 100 * some.over_codes(lambda part: float(np.mean(scores.relative_errors(part.ours, part.truth) > FAR_OFF)))
    near = some.over_codes(lambda part: float(np.mean(scores.relative_errors(part.ours, part.truth) <= NEAR)))
    return ValidationRow(
        *(
            "codes",
            "codes left out, trusted",
            "code",
            len(some.truth),
            "more than 30 % off, mean over codes",
            "%",
            share,
        ),
        goal=FAR_OFF_AT_MOST,
        ok=share <= FAR_OFF_AT_MOST if len(codes) >= ENOUGH_CODES else None,
        reason=f"{len(some.truth)} of {len(predicted.truth)} trusted; {near:.0%} of them within 20 %",
    )
