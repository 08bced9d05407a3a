"""Extrapolation against public scaling measurements: train on the first values of a series, predict the later ones.

The rule: for every m >= 5 the first m values are known (four, where a series has just five) and every later value is
predicted; truth is the median of the repeats; errors are binned by ratio = value / largest known value. Constants of
the method were tuned on the folder that `SLIPSTICK_DATA` names; `scored` names other sources. Nothing is fitted here,
so no key has to leave the training data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting import scores
from slipstick.estimators.scaling.extrapolate import extrapolate_many
from slipstick.estimators.scaling.series import KINDS, Series
from slipstick.experiments.scoreboards.scaling.code_series import BINS, code_rows
from slipstick.experiments.scoreboards.scaling.random_series import random_rows
from slipstick.experiments.scoreboards.scaling.series_collection import ScalingSeries, read_collection
from slipstick.experiments.scoring.score import Board, Data, Front, Scored, relative
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime

FILES = ("scaling/index.csv", "scaling/series.csv")
LATER = "later values of each series"
ENOUGH = 50
GOALS = {
    "problem_size": {"2x": 3.0, "4x": 4.0, "8x": 5.0, ">11x": 9.0},
}
EXTRAP_FIVE = {"strong": 8.7, "collective": 8.1, "weak": 13.7}
WIDTH_GOALS = {"2x": 2.0, "4x": 3.0}
COVERAGE_GOALS = {"2x": (0.75, 0.85), "4x": (0.75, 0.85), "8x": (0.70, 0.90)}
REFUSED_AT_MOST = 0.20
METRICS = (
    relative(0.5, "median relative error", "%"),
    relative(0.9, "90th percentile of relative error", "%"),
)
BASELINES = {"amdahl_nnls": "amdahl", "four_terms_nnls": "four", "last_value": "last"}


@dataclass(frozen=True)
class Target:
    """One prediction beside what was measured."""

    series: str
    source: str
    kind: str
    five: bool
    ratio: float
    truth: float
    ours: float
    low: float
    high: float
    refused: bool
    amdahl: float
    four: float
    last: float
    noise: float = np.nan
    trusted: bool = False
    size: int = 0
    to: float = np.nan

    @property
    def bin(self) -> str | None:
        """The column of the table; None below the first."""
        return next((name for name, low, high in BINS if low <= self.ratio < high), None)


def _series(data: Data) -> list[Scored | ValidationRow]:
    """Every later value of every series."""
    targets = predictions(read_collection(*map(data.judged, FILES)))
    return [
        *_medians(targets),
        *_five(targets),
        *_bands(targets),
        *_refusals(targets),
        *_trusted(targets),
        *_sources(targets),
    ]


def cases(measured: ScalingSeries) -> Iterator[tuple[Series, FloatArray, FloatArray]]:
    """(known part, later values, medians there) for every admissible number of known values."""
    values = np.unique(measured.values)
    medians = np.array([np.median(measured.times[measured.values == value]) for value in values])
    for m in [4] if len(values) == 5 else range(5, len(values)):
        known = measured.values <= values[m - 1]
        series = Series.of(measured.values[known], measured.times[known], measured.parameter, measured.name)
        yield series, values[m:], medians[m:]


def predictions(collection: Sequence[ScalingSeries]) -> list[Target]:
    """Every later value of every series, predicted from every admissible number of known values."""
    together: dict[tuple[str, tuple[float, ...]], list[tuple[Series, FloatArray, str, bool]]] = defaultdict(list)
    for measured in collection:
        five = len(np.unique(measured.values)) == 5
        for known, later, truth in cases(measured):
            together[measured.kind, tuple(later)].append((known, truth, measured.source, five))
    result = []
    for (kind, targets), members in together.items():
        to = np.asarray(targets)
        some = [known for known, *_ in members]
        ours = extrapolate_many(some, to, kind, level=scores.LEVEL)
        simple = [extrapolate_many(some, to, kind, family=name, level=None) for name in ("amdahl", "four-terms")]
        for i, (known, truth, source, five) in enumerate(members):
            answer = ours[i]
            for j, target in enumerate(targets):
                result.append(
                    Target(
                        known.name,
                        source,
                        kind,
                        five,
                        target / known.x[-1],
                        float(truth[j]),
                        answer.value[j],
                        answer.low[j] if answer.low else np.nan,
                        answer.high[j] if answer.high else np.nan,
                        answer.verdicts[j].word == "do not trust",
                        simple[0][i].value[j],
                        simple[1][i].value[j],
                        known.y[-1],
                        np.nan if known.noise is None else known.noise,
                        answer.verdicts[j].word == "trust",
                        len(known.x),
                        target,
                    )
                )
    return result


def _errors(some: Sequence[Target], field: str = "ours") -> FloatArray:
    """Relative errors in percent."""
    return np.array([100 * abs(getattr(one, field) / one.truth - 1) for one in some])


def _baselines(some: Sequence[Target], quantile: float = 0.5) -> dict[str, float]:
    return {name: float(np.quantile(_errors(some, field), quantile)) for name, field in BASELINES.items()}


def _over_sources(some: Sequence[Target], field: str) -> float:
    """The median of each source, every source counting alike."""
    sources = {one.source for one in some}
    return float(np.mean([np.median(_errors([one for one in some if one.source == s], field)) for s in sources]))


def _noise_floor(some: Sequence[Target]) -> float | None:
    """Median standard deviation in percent within the repeats of one value; None where nothing repeats."""
    known = [one.noise for one in some if np.isfinite(one.noise)]
    return 100 * float(np.median(known)) if known else None


def _sized(some: Sequence[Target]) -> str:
    sources = sorted({one.source for one in some})
    return f"{len({one.series for one in some})} series of {len(sources)} sources: {', '.join(sources)}"


def _cells(scored: Sequence[Target]) -> Iterator[tuple[str, str, list[Target]]]:
    for kind in KINDS:
        for name, *_ in BINS:
            some = [one for one in scored if one.kind == kind and one.bin == name]
            if some:
                yield kind, name, some


def _row(case: str, some: Sequence[Target], metric: str, ours: float, **more: object) -> ValidationRow:
    row = ValidationRow("scaling", case, LATER, len(some), metric, "%", ours, **more)  # type: ignore[arg-type]
    return row.over([one.source for one in some])


def _scored(case: str, some: Sequence[Target], goal: float | None, noise: float | None = None) -> Scored:
    ours, truth = (np.array([getattr(one, name) for one in some]) for name in ("ours", "truth"))
    simple = {name: np.array([getattr(one, field) for one in some]) for name, field in BASELINES.items()}
    return Scored(
        case, LATER, truth, ours, METRICS, (goal,), simple, enough=ENOUGH, noise=(noise,), reason=_sized(some),
        groups=[one.source for one in some],
    )  # fmt: skip


def _medians(scored: Sequence[Target]) -> Iterator[Scored | ValidationRow]:
    for kind, name, some in _cells(scored):
        yield _scored(f"{kind} {name}", some, GOALS.get(kind, {}).get(name), _noise_floor(some))
        yield _row(
            f"{kind} {name}",
            some,
            "median relative error, mean over sources",
            _over_sources(some, "ours"),
            baselines={name: _over_sources(some, field) for name, field in BASELINES.items()},
            reason=_sized(some),
        )


def _five(scored: Sequence[Target]) -> Iterator[Scored]:
    for kind in KINDS:
        some = [one for one in scored if one.kind == kind and one.five]
        if some:
            yield _scored(f"{kind}, series of five points", some, EXTRAP_FIVE.get(kind))


def _bands(scored: Sequence[Target]) -> Iterator[ValidationRow]:
    for kind, name, everything in _cells(scored):
        some = [one for one in everything if np.isfinite(one.low)]
        if len(some) < ENOUGH:
            continue
        ours, low, high, truth = np.array([(one.ours, one.low, one.high, one.truth) for one in some]).T
        coverage, width = scores.coverage(low, high, truth), scores.width(low, high)
        spread = scores.grouped_coverage([one.source for one in some], scores.inside(low, high, truth))
        aim = COVERAGE_GOALS.get(name) if kind in GOALS else None
        held = None if aim is None else aim[0] <= coverage <= aim[1] and width <= WIDTH_GOALS.get(name, np.inf)
        yield ValidationRow(
            "scaling",
            f"{kind} {name}, band",
            LATER,
            len(some),
            "interval score of log time",
            "1",
            scores.interval_score(low, high, truth, scores.LEVEL),
            baselines={"same_width_everywhere": scores.constant_band_score(ours, truth, scores.LEVEL)},
            ok=held,
            interval_level=scores.LEVEL,
            interval_coverage=coverage,
            interval_width=width,
            reason=f"coverage over sources drawn again: {spread[0]:.0%} .. {spread[1]:.0%}; {_sized(some)}",
        )


def _refusals(scored: Sequence[Target]) -> Iterator[ValidationRow]:
    for case, kinds in (("all kinds", KINDS), *((kind, (kind,)) for kind in KINDS)):
        some = [one for one in scored if one.kind in kinds and one.bin]
        if len(some) < ENOUGH:
            continue
        kept = [one for one in some if not one.refused]
        before, after = (float(np.quantile(_errors(part), 0.9)) for part in (some, kept))
        share = 1 - len(kept) / len(some)
        worst = np.sort(_errors(some))[: len(kept)]
        yield _row(
            f"{case}, do not trust",
            kept,
            "90th percentile of relative error of what remains",
            after,
            baselines={"nothing_refused": before, "refusing_the_worst_with_hindsight": float(np.quantile(worst, 0.9))},
            goal=before / 2,
            ok=after <= before / 2 and share <= REFUSED_AT_MOST,
            reason=f"{share:.1%} refused (at most {REFUSED_AT_MOST:.0%})",
        )


def _trusted(scored: Sequence[Target]) -> Iterator[ValidationRow]:
    """What "trust" is worth: coverage and error of the answers that have this verdict."""
    for kind, name, everything in _cells(scored):
        some = [one for one in everything if one.trusted]
        if len(some) < ENOUGH:
            continue
        inside = [one.low <= one.truth <= one.high for one in some]
        rest = [one for one in everything if not one.trusted]
        coverage = float(np.mean(inside))
        yield _row(
            f"{kind} {name}, trusted",
            some,
            "median relative error",
            float(np.median(_errors(some))),
            baselines={"not_trusted": float(np.median(_errors(rest)))} if rest else {},
            ok=coverage >= scores.LEVEL - 1.96 * float(np.sqrt(scores.LEVEL * (1 - scores.LEVEL) / len(some))),
            interval_level=scores.LEVEL,
            interval_coverage=coverage,
            interval_width=float(np.median([one.high / one.low for one in some])),
            reason=f"{len(some)} of {len(everything)} trusted; ok: the binomial 95 % range of 80 % holds the coverage, "
            "or it is higher",
        )


def _sources(scored: Sequence[Target]) -> Iterator[ValidationRow]:
    for kind, name, everything in _cells(scored):
        for source in sorted({one.source for one in everything}):
            some = [one for one in everything if one.source == source]
            inside = [one.low <= one.truth <= one.high for one in some]
            enough = len(some) >= ENOUGH
            yield _row(
                f"{kind} {name}, {source}",
                some,
                "median relative error",
                float(np.median(_errors(some))),
                baselines=_baselines(some),
                interval_level=scores.LEVEL if enough else None,
                interval_coverage=float(np.mean(inside)) if enough else None,
                interval_width=float(np.median([one.high / one.low for one in some])) if enough else None,
            )


def _case_set(data: Data) -> CaseSet:
    """Inputs: kind, parameter, the known values and their median times, and the value that is wanted (`to`).

    Raises InputError where the public data are missing.
    """
    collection = read_collection(*map(data.judged, FILES))
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


BOARD = Board(
    "How long does my program take at sizes or numbers of threads far beyond those measured?",
    {"scaling": _series, "codes": code_rows, "random series": random_rows},
    (
        Front("Threads, 4 times as many", "counts beyond 4 x", "strong 4x", LATER),
        Front("Problem sizes, 4 times as large", "sizes beyond 4 x", "problem_size 4x", LATER),
    ),
    closed={"random series": "the series are drawn"},
    cases=_case_set,
)
