"""Several parameters at once: measured tables (relearn125, hommexx) and published laws with noise.

The rule for a table: of one parameter, or of two, the farthest levels are left out; what lies beyond in all of them is
predicted. A parameter that makes the program faster the larger it is, and counts no workers, is left out at its small
end. Ratios are products over the parameters. For a law: the whole grid with noise is known, and one or all parameters
are predicted at 2 and 4 times their last level; truth has the same noise.

Constants were chosen on hommexx and the laws named "tuning" (`published_laws`); relearn125 and the other laws are held
out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.common.frames import csv_frame
from slipstick.estimators.scaling.surfaces import extrapolate_surface
from slipstick.estimators.scaling.surfaces.surface_candidates import powers
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.scaling.published_laws import LAWS, PublishedLaw
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow

TABLES = {"scaling/multi_relearn125.csv": "relearn125", "scaling/multi_hommexx.csv": "hommexx"}
BINS = (("2x", 1.45, 2.9), ("4x", 2.9, 5.7), ("8x", 5.7, 11.4), (">11x", 11.4, np.inf))
LEAST_LEVELS = 5
CUTS = 3
Mask = npt.NDArray[np.bool_]
NOISES = (0.0, 0.03, 0.10)
SEEDS = 2
LEVEL = 0.80
ENOUGH = 50
GOALS = {"2x": 7.0, "4x": 7.7}
"""Problem sizes in one parameter (4.0, 4.7 %, scoreboard `scaling`) and three points."""


@dataclass(frozen=True)
class SurfaceCase:
    """One prediction beside what was measured."""

    source: str
    ratio: float
    truth: float
    ours: float
    low: float
    high: float
    word: str
    powers: float
    nearest: float


def _table(file: str, data: Data) -> Iterator[ValidationRow]:
    name = TABLES[file]
    yield from _scores(name, "farthest levels of one parameter or two", list(table_cases(data.judged(file), name)))


def _laws(data: Data) -> Iterator[ValidationRow]:
    """Published laws with noise."""
    if data.scored is not None:
        return
    for part, noise in itertools.product(("tuning", "held out"), NOISES):
        some = [one for law in LAWS if law.part == part for one in law_cases(law, noise)]
        yield from _scores(f"published laws ({part}), noise {noise:.0%}", "beyond the grid", some)


@dataclass(frozen=True, eq=False)
class TableCut:
    """What is known of one table, and what is to be predicted.

    `group`: the source, and the words of the table's columns (a machine); empty words where it has none.
    `x`, `y`: known points, shape (points, parameters), and their median times [s].
    `to`, `truth`: points beyond in every parameter that was cut, and their median times [s].
    """

    group: str
    parameters: tuple[str, ...]
    x: FloatArray
    y: FloatArray
    to: FloatArray
    truth: FloatArray


def table_cuts(path: Path, source: str) -> Iterator[TableCut]:
    """Cuts of a table: columns of words make groups, `rep` repeats, `time_s` is the time, the others vary."""
    import pandas as pd

    table = csv_frame(path)
    names = [str(name) for name in table if name not in ("rep", "time_s")]
    words = [name for name in names if not pd.api.types.is_numeric_dtype(table[name])]
    groups = [((), table)] if not words else table.groupby(words, sort=False)
    for word, group in groups:
        varying = [name for name in names if name not in words and group[name].nunique() > 1]
        medians = group.groupby(varying)["time_s"].median().reset_index()
        x, y = medians[varying].to_numpy(dtype=np.float64), medians["time_s"].to_numpy(dtype=np.float64)
        for known in _cuts(x, y):
            beyond = np.ones(len(x), dtype=bool)
            for column in range(x.shape[1]):
                low, high = x[known, column].min(), x[known, column].max()
                if low > x[:, column].min() or high < x[:, column].max():
                    beyond &= (x[:, column] < low) | (x[:, column] > high)
            if beyond.any() and known.sum() >= 2 * LEAST_LEVELS:
                name = " ".join((source, *map(str, word)))
                yield TableCut(name, tuple(varying), x[known], y[known], x[beyond], y[beyond])


def table_cases(path: Path, source: str) -> Iterator[SurfaceCase]:
    """Cases of a table, see `table_cuts`."""
    for cut in table_cuts(path, source):
        yield from _predicted_rows(source, cut.parameters, cut.x, cut.y, cut.to, cut.truth)


def _cuts(x: FloatArray, y: FloatArray) -> Iterator[Mask]:
    """Masks of what is known: without the farthest levels of one parameter, or of two."""
    slopes = powers(x, y)
    alone: dict[int, list[Mask]] = {}
    for column in range(x.shape[1]):
        levels = np.unique(x[:, column])
        counts = range(min(LEAST_LEVELS, max(len(levels) - 1, 4)), len(levels))
        for place in np.unique(np.linspace(0, len(counts) - 1, CUTS).astype(int)) if counts else ():
            count = counts[place]
            down = slopes[column] < -1.5
            kept = x[:, column] >= levels[-count] if down else x[:, column] <= levels[count - 1]
            alone.setdefault(column, []).append(kept)
    for masks in alone.values():
        yield from masks
    for one, other in itertools.combinations(alone, 2):
        for first, second in zip(reversed(alone[one]), reversed(alone[other]), strict=False):
            yield first & second


def law_cases(law: PublishedLaw, noise: float) -> Iterator[SurfaceCase]:
    """Cases of a law with noise (a relative standard deviation): one or all parameters at 2 and 4 times their last
    level, as factors.
    """
    x = law.points()
    last = x.max(axis=0)
    columns = [*([i] for i in range(len(last))), list(range(len(last)))]
    to = np.array([[v * (f if i in some else 1) for i, v in enumerate(last)] for f in (2, 4) for some in columns])
    for seed in range(SEEDS):
        random = np.random.default_rng([seed, len(law.name)])
        y = law.seconds(x) * random.lognormal(sigma=noise, size=len(x))
        truth = law.seconds(to) * random.lognormal(sigma=noise, size=len(to))
        yield from _predicted_rows(law.name, law.parameters, x, y, to, truth)


def _predicted_rows(
    source: str, names: Sequence[str], x: FloatArray, y: FloatArray, to: FloatArray, truth: FloatArray
) -> Iterator[SurfaceCase]:
    answers = extrapolate_surface(x, y, names, to, level=LEVEL).answers
    exponents = powers(x, y)
    simple = np.exp(np.log(y).mean() + (np.log(to) - np.log(x).mean(axis=0)) @ exponents)
    nearest = y[np.argmin(((np.log(to)[:, None] - np.log(x)[None]) ** 2).sum(axis=-1), axis=1)]
    for i, one in enumerate(answers):
        low, high = (np.nan if end is None else end for end in (one.low, one.high))
        word = one.verdict.word if one.verdict else ""
        yield SurfaceCase(source, one.ratio, truth[i], one.time, low, high, word, simple[i], nearest[i])


def _errors(some: Sequence[SurfaceCase], field: str = "ours") -> FloatArray:
    return np.array([100 * abs(getattr(one, field) / one.truth - 1) for one in some])


def _scores(name: str, held_out: str, everything: Sequence[SurfaceCase]) -> Iterator[ValidationRow]:
    for ratio, low, high in BINS:
        some = [one for one in everything if low <= one.ratio < high]
        if not some:
            continue
        goal, enough = GOALS.get(ratio), len(some) >= ENOUGH
        baselines = {field: float(np.median(_errors(some, field))) for field in ("powers", "nearest")}
        error, known = float(np.median(_errors(some))), [one for one in some if np.isfinite(one.low)]
        banded = enough and len(known) == len(some)
        refused = np.mean([one.word == "do not extrapolate" for one in some])
        yield ValidationRow(
            *("surfaces", f"{name}, {ratio}", held_out, len(some), "median relative error", "%", error),
            baselines=baselines,
            goal=goal,
            ok=error <= goal if goal is not None and enough else None,
            interval_level=LEVEL if banded else None,
            interval_coverage=_coverage(known) if banded else None,
            interval_width=float(np.median([one.high / one.low for one in known])) if banded else None,
            reason=f"{refused:.0%} refused; {_trusted(some)}",
        ).over([one.source for one in some], [one.low <= one.truth <= one.high for one in some] if banded else None)
        yield ValidationRow(
            *("surfaces", f"{name}, {ratio}", held_out, len(some), "90th percentile of relative error", "%"),
            float(np.quantile(_errors(some), 0.9)),
            baselines={field: float(np.quantile(_errors(some, field), 0.9)) for field in baselines},
        ).over([one.source for one in some])


def _coverage(some: Sequence[SurfaceCase]) -> float:
    return float(np.mean([one.low <= one.truth <= one.high for one in some]))


def _trusted(some: Sequence[SurfaceCase]) -> str:
    trusted = [one for one in some if one.word == "trust"]
    if not trusted:
        return "none trusted"
    return f"{len(trusted)} trusted: median {np.median(_errors(trusted)):.1f} %, {_coverage(trusted):.0%} in the band"


BOARD = Board(
    "How long does my program take beyond a table of several parameters?",
    {f"surfaces: {name}": partial(_table, file) for file, name in TABLES.items()} | {"published laws": _laws},
)
