"""Several parameters at once: measured tables (relearn125, hommexx, VASP) and published laws with noise.

The rule for a table: of one parameter, or of two, the farthest levels are left out; what lies beyond in all of them is
predicted. A parameter that makes the program faster the larger it is, and counts no workers, is left out at its small
end. Ratios are products over the parameters. For a law: the whole grid with noise is known, and one or all parameters
are predicted at 2 and 4 times their last level; truth has the same noise.

Constants were chosen on hommexx and the laws named "tuning" (`published_laws`); relearn125, VASP and the other laws are
held out.

Run-time laws of two and three parameters from text books and papers, as measurements with known truth.

Those of part "tuning" served to choose the weights of the band and the bars of surfaces; those of "held out" did not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.common.frames import csv_frame
from slipstick.estimators.fitting.scores import LEVEL
from slipstick.estimators.scaling.surfaces import extrapolate_surface
from slipstick.estimators.scaling.surfaces.extrapolation_holdout import distances
from slipstick.estimators.scaling.surfaces.surface_candidates import powers
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime


@dataclass(frozen=True)
class PublishedLaw:
    """A law, the levels of its grid, and where it stands.

    `seconds`: points of shape (n, parameters) -> seconds; constants are ours, of the size that machines have.
    """

    name: str
    part: str
    source: str
    parameters: tuple[str, ...]
    levels: tuple[tuple[float, ...], ...]
    seconds: Callable[[FloatArray], FloatArray]

    def points(self) -> FloatArray:
        """The full grid, shape (n, parameters)."""
        mesh = np.meshgrid(*self.levels, indexing="ij")
        return np.asarray(np.array(mesh, dtype=np.float64).reshape(len(self.levels), -1).T)


_P = (1, 2, 4, 8, 16)
_N = (1000, 2000, 4000, 8000, 16000)
_log = np.log2

LAWS = (
    PublishedLaw(
        *("all pairs n^2/p", "tuning", "Grama et al. 2003, Introduction to Parallel Computing, Section 5"),
        ("threads", "n"),
        (_P, _N),
        lambda x: 1e-9 * x[:, 1] ** 2 / x[:, 0],
    ),
    PublishedLaw(
        *("Amdahl x linear", "tuning", "Amdahl 1967"),
        ("threads", "n"),
        (_P, _N),
        lambda x: 1e-6 * x[:, 1] * (0.02 + 0.98 / x[:, 0]),
    ),
    PublishedLaw(
        *("FFT by binary exchange", "tuning", "Grama et al. 2003, Section 13.2"),
        ("processes", "n"),
        (_P, (2**14, 2**16, 2**18, 2**20, 2**22)),
        lambda x: 1e-9 * x[:, 1] * _log(x[:, 1]) / x[:, 0] + 4e-5 * _log(x[:, 0]) + 2e-9 * x[:, 1] / x[:, 0] + 1e-6,
    ),
    PublishedLaw(
        *("dense products n^3/p", "tuning", "Grama et al. 2003, Section 8.2"),
        ("threads", "n"),
        (_P, (256, 512, 1024, 2048, 4096)),
        lambda x: 1e-10 * x[:, 1] ** 3 / x[:, 0] + 1e-3,
    ),
    PublishedLaw(
        *("Kripke sweep d g p^(1/3)", "tuning", "Calotoiu et al. 2016, Fast Multi-Parameter Performance Modeling"),
        ("processes", "directions", "groups"),
        ((8, 64, 512, 4096), (4, 8, 12, 16, 20), (8, 16, 24, 32, 40)),
        lambda x: 1e-3 * x[:, 1] * x[:, 2] * (1 + 0.1 * x[:, 0] ** (1 / 3)),
    ),
    PublishedLaw(
        *("SUMMA n^3/p + n^2/sqrt p", "held out", "van de Geijn, Watts 1997, Section 4"),
        ("processes", "n"),
        ((4, 16, 64, 256, 1024), (1024, 2048, 4096, 8192, 16384)),
        lambda x: 1e-10 * x[:, 1] ** 3 / x[:, 0] + 5e-9 * x[:, 1] ** 2 / np.sqrt(x[:, 0]),
    ),
    PublishedLaw(
        *("conjugate gradients n/p + log p", "held out", "Grama et al. 2003, Section 11.2"),
        ("processes", "n"),
        ((1, 2, 4, 8, 16, 32), (1e5, 2e5, 4e5, 8e5, 16e5)),
        lambda x: 5e-9 * x[:, 1] / x[:, 0] + 2e-5 * _log(x[:, 0]) + 3e-5,
    ),
    PublishedLaw(
        *("sample sort n log n/p + p", "held out", "Grama et al. 2003, Section 9.5"),
        ("processes", "n"),
        ((2, 4, 8, 16, 32), (1e5, 4e5, 16e5, 64e5)),
        lambda x: 2e-9 * x[:, 1] * _log(x[:, 1]) / x[:, 0] + 1e-5 * x[:, 0],
    ),
    PublishedLaw(
        *("ring all-reduce", "held out", "Thakur, Rabenseifner, Gropp 2005, Section 4"),
        ("processes", "bytes"),
        ((2, 4, 8, 16, 32), (1e4, 1e5, 1e6, 1e7)),
        lambda x: 2e-10 * x[:, 1] * (x[:, 0] - 1) / x[:, 0] + 1e-6 * x[:, 0],
    ),
    PublishedLaw(
        *("time steps of all pairs", "held out", "Grama et al. 2003, Section 5"),
        ("threads", "n", "steps"),
        ((1, 2, 4, 8), (500, 1000, 2000, 4000), (10, 20, 40, 80)),
        lambda x: 1e-9 * x[:, 1] ** 2 * x[:, 2] / x[:, 0] + 1e-3,
    ),
    PublishedLaw(
        *("LULESH-like weak scaling", "held out", "Calotoiu et al. 2013 (form: s^3 (1 + log p) + s^2)"),
        ("processes", "size"),
        ((1, 8, 27, 64, 125), (10, 15, 20, 25, 30)),
        lambda x: 1e-7 * x[:, 1] ** 3 * (1 + 0.05 * _log(x[:, 0])) + 1e-6 * x[:, 1] ** 2,
    ),
    PublishedLaw(
        *("a transformer layer", "held out", "Vaswani et al. 2017, Table 1: s^2 d + s d^2"),
        ("seq_len", "batch", "width"),
        ((128, 256, 512, 1024), (1, 2, 4, 8), (256, 512, 1024, 2048)),
        lambda x: 1e-12 * (4 * x[:, 0] ** 2 * x[:, 1] * x[:, 2] + 24 * x[:, 0] * x[:, 1] * x[:, 2] ** 2),
    ),
)


TABLES = {
    "scaling/multi_relearn125.csv": "relearn125",
    "scaling/multi_hommexx.csv": "hommexx",
    "scaling/multi_vasp.csv.gz": "VASP",
}
CHOSEN = {"VASP": ("threads == 1 and ncore > 0", ("problem", "folder", "nodes", "ncore"))}
"""Of tables with more columns than the program has parameters: which rows and which columns."""
BINS = (("2x", 1.45, 2.9), ("4x", 2.9, 5.7), ("8x", 5.7, 11.4), (">11x", 11.4, np.inf))
LEAST_LEVELS = 5
CUTS = 3
NOISES = (0.0, 0.03, 0.10)
SEEDS = 2
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
    if source in CHOSEN:
        rows, names = table.query(CHOSEN[source][0]), [*CHOSEN[source][1]]
        table = rows[[*names, "time_s"]]
    words = [name for name in names if not pd.api.types.is_numeric_dtype(table[name])]
    groups = [((), table)] if not words else table.groupby(words, sort=False)
    for word, group in groups:
        varying = [name for name in names if name not in words and group[name].nunique() > 1]
        if not varying:
            continue
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
        refused = np.mean([one.word == "do not trust" for one in some])
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


def _case_set(data: Data) -> CaseSet:
    """Inputs: the parameters' names, the known points (row after row) with their times, and the point wanted (`to`).

    Cases are scored by table and by how far beyond the known box the point lies; those beyond no cell are left out.
    Raises InputError where the public data are missing.
    """
    cuts = []
    for file, name in TABLES.items():
        cuts += [(name, place, cut) for place, cut in enumerate(table_cuts(data.judged(file), name))]
    measured, places = [], []
    for name, place, cut in cuts:
        for row, case in _cases(name, place, cut):
            measured.append(case)
            places.append((name, place, row))

    def ours() -> list[StatedTime | None]:
        known = {(name, place): _answers(cut) for name, place, cut in cuts}
        return [known[name, place][row] for name, place, row in places]

    return CaseSet("surfaces", "table and machine", tuple(measured), {"ours": ours})


def _cases(source: str, place: int, cut: TableCut) -> Iterator[tuple[int, Measured]]:
    shared: dict[str, Input] = {
        "parameters": ",".join(cut.parameters),
        "known": tuple(map(float, cut.x.ravel())),
        "times_s": tuple(map(float, cut.y)),
    }
    for row, (ratio, seconds) in enumerate(zip(distances(cut.x, cut.to), cut.truth, strict=True)):
        kind = next((name for name, low, high in BINS if low <= ratio < high), None)
        if kind is None:
            continue
        to = tuple(map(float, cut.to[row]))
        name = f"{source}, cut {place + 1}, {' '.join(f'{value:g}' for value in to)}"
        yield row, Measured(Case(name, cut.group, {**shared, "to": to}, f"{source}, {kind}"), float(seconds))


def _answers(cut: TableCut) -> list[StatedTime | None]:
    answers = extrapolate_surface(cut.x, cut.y, cut.parameters, cut.to, level=LEVEL).answers
    return [
        StatedTime(one.time, one.low, one.high)
        if one.low is not None and one.high is not None and np.isfinite([one.low, one.high]).all() and one.low > 0
        else StatedTime(one.time)
        for one in answers
    ]


BOARD = Board(
    "How long does my program take beyond a table of several parameters?",
    {f"surfaces: {name}": partial(_table, file) for file, name in TABLES.items()} | {"published laws": _laws},
    closed={"published laws": "the noise is drawn"},
    cases=_case_set,
)
