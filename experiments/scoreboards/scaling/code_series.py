"""Strong scaling of public codes, each code left out: errors, bands and verdicts, every code counting alike.

The rule: for every m >= 4 the first m values of a series are known and every later value is predicted; truth is the
median of the repeats there. A code is the first part of a series' name (many series of one code differ by libraries and
networks). Priors come of the other codes (`scaling_refit.py`), so that no code judges itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from slipstick.estimators.fitting import scores
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.scaling.laws.priors import FITTED_NAME, PRIORS, Priors, Recalibration
from slipstick.estimators.scaling.series import Series
from slipstick.experiments.scoreboards.scaling.forecasts import Forecasts, Known
from slipstick.experiments.scoreboards.scaling.series_collection import ScalingSeries, every_series
from slipstick.experiments.scoring.score import Data
from slipstick.experiments.scoring.score_rows import ValidationRow

FIRST = 4
BINS = (("2x", 1.5, 2.9), ("4x", 2.9, 5.7), ("8x", 5.7, 11.4), (">11x", 11.4, np.inf))
ENOUGH_CODES = 5
FAR_OFF, FAR_OFF_AT_MOST = 0.30, 7.0
GOAL_2X, GOAL = 0.9, 1.0
"""Shares of Amdahl's error that ours may have."""


def code_cases(collection: Sequence[ScalingSeries]) -> list[Known]:
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
            cases.append((one.name.split("/")[0], series, values[m:], medians[m:]))
    return cases


def left_out_priors() -> dict[str, Priors]:
    """Priors of each code, recalibrated by the other codes."""
    others = load_fitted(FITTED_NAME).facts["left out"]
    return {code: replace(PRIORS, codes=Recalibration(**one)) for code, one in others.items()}


def code_rows(data: Data) -> Iterator[ValidationRow]:
    """Error, band and verdicts of each bin."""
    cases = code_cases(every_series(data))
    if not cases:
        return
    predicted = Forecasts.of(cases, left_out_priors())
    for name, low, high in BINS:
        some = predicted.only((predicted.ratio >= low) & (predicted.ratio < high))
        if not len(some):
            continue
        yield from _bin(f"codes left out, {name}", some, GOAL_2X if name == "2x" else GOAL)
    yield _far_off(predicted.only(predicted.ratio >= BINS[0][1]))


def _bin(case: str, some: Forecasts, share: float) -> Iterator[ValidationRow]:
    codes = some.by_group()
    reason, judged = f"{len(codes)} codes: {', '.join(codes)}", len(codes) >= ENOUGH_CODES
    ours, theirs, last = (some.over_groups(partial(_median_error, name)) for name in ("ours", "amdahl", "last"))
    yield ValidationRow(
        *("codes", case, "code", len(some), "median relative error, mean over codes", "%", ours),
        {"amdahl": theirs, "last_value": last},
        goal=share * theirs if judged else None,
        ok=ours <= share * theirs if judged else None,
        reason=reason,
    ).over(list(codes))
    covered = some.over_groups(lambda part: part.covered)
    score = some.over_groups(lambda part: scores.interval_score(part.low, part.high, part.truth))
    rival = _amdahl_score(some)
    yield ValidationRow(
        *("codes", f"{case}, band", "code", len(some), "interval score of log time, mean over codes", "1", score),
        {"amdahl_with_left_out_residuals": rival},
        ok=(0.70 <= covered <= 0.90 and score < rival) if judged else None,
        interval_level=scores.LEVEL,
        interval_coverage=covered,
        interval_width=float(np.exp(some.over_groups(lambda part: float(np.mean(np.log(part.high / part.low)))))),
        reason=f"{reason}; ok: coverage 70 .. 90 % and a smaller score than Amdahl's",
    ).over(list(codes), [part.covered for part in codes.values()])
    trusted = 100 * some.over_groups(lambda part: float(np.mean(part.trusted)))
    yield ValidationRow("codes", case, "code", len(some), "trusted, mean over codes", "%", trusted, reason=reason)


def _median_error(name: str, part: Forecasts) -> float:
    return part.error(name)


def _amdahl_score(some: Forecasts) -> float:
    """Interval score of Amdahl's law with the band that held 80 % of the other codes' targets in this bin."""

    def of_code(part: Forecasts) -> float:
        others = some.only(some.group != part.group[0])
        rest = others if len(others) else part
        half = np.exp(scores.log_quantile(scores.LEVEL, rest.amdahl, rest.truth))
        return scores.interval_score(part.amdahl / half, part.amdahl * half, part.truth)

    return some.over_groups(of_code)


def _far_off(predicted: Forecasts) -> ValidationRow:
    some = predicted.only(predicted.trusted)
    share = 100 * some.over_groups(lambda part: float(np.mean(part.off > FAR_OFF)))
    near = some.over_groups(lambda part: float(np.mean(part.near)))
    return ValidationRow(
        *("codes", "codes left out, trusted", "code", len(some), "more than 30 % off, mean over codes", "%", share),
        goal=FAR_OFF_AT_MOST,
        ok=share <= FAR_OFF_AT_MOST if len(some.by_group()) >= ENOUGH_CODES else None,
        reason=f"{len(some)} of {len(predicted)} trusted; {near:.0%} of them within 20 %",
    )
