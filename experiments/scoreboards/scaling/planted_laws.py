"""Strong scaling planted by eight laws: errors, bands, verdicts and probabilities by law, beside Amdahl's fit.

Each law counts alike; p workers, relative times, b log-uniform 0.002 .. 0.1:

- Amdahl 1967, 1/p + b, and with an overhead: c log2 p (c 0.002 .. 0.05), c (sqrt p - 1) (0.001 .. 0.03),
  c (p - 1) (0.0001 .. 0.005), c log-uniform.
- shares that come to fit a cache: (1/p)(1 - h / (1 + (s/p)^2)) + b, h uniform 0.15 .. 0.5, s log-uniform 2 .. 64.
- imbalance that grows: the largest of p normal shares (David and Nagaraja 2003, Order Statistics, Section 10.5),
  (1/p)(1 + h sqrt(2 ln p)) + b, h uniform 0.05 .. 0.4, or of shares of ever fewer grains, h sqrt(2 p ln p), h a fifth.
- noise that grows with p: Amdahl's, the noise doubled every four-fold of workers.
- a plain power, p^-k, k uniform 0.65 .. 0.98.

Five to seven points from 1 on by doublings, one or three runs each, noise uniform 3 .. 5 %, answers at 4 and 8 times
the last point. The truth is the law without noise. Seeds from 50,000 on report; none chooses anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.base.sureness import NEAR
from slipstick.estimators.fitting import scores
from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.series import Series
from slipstick.experiments.scoreboards.scaling.amdahl import amdahl
from slipstick.experiments.scoring.score_rows import ValidationRow

Law = Callable[[FloatArray], FloatArray]
RATIOS = (4.0, 8.0)
REPORTED, EACH = 50_000, 50
NAMES = ("Amdahl", "log2 p", "sqrt p", "linear", "cache gain", "imbalance", "growing noise", "power")
OVERHEADS: dict[str, tuple[float, float, Law]] = {
    "log2 p": (0.002, 0.05, np.log2),
    "sqrt p": (0.001, 0.03, lambda p: np.sqrt(p) - 1),
    "linear": (0.0001, 0.005, lambda p: p - 1),
}
COVERED, LEAST_COVERED = (0.75, 0.85), 0.60
RIGHT, TRUSTED, OF_AMDAHL = 85.0, 25.0, 0.5


def _log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def planted_law(name: str, generator: np.random.Generator) -> Law:
    """A law of one of `NAMES`."""
    b = _log_uniform(generator, 0.002, 0.1)
    if name in OVERHEADS:
        low, high, growth = OVERHEADS[name]
        c = _log_uniform(generator, low, high)
        return lambda p: 1 / p + b + c * growth(p)
    if name == "cache gain":
        h, s = generator.uniform(0.15, 0.5), _log_uniform(generator, 2.0, 64.0)
        return lambda p: (1 - h / (1 + (s / p) ** 2)) / p + b
    if name == "imbalance":
        h, grains = generator.uniform(0.05, 0.4), generator.random() < 0.5
        return lambda p: (1 + (0.2 * h * np.sqrt(p) if grains else h) * np.sqrt(2 * np.log(p))) / p + b
    if name == "power":
        k = generator.uniform(0.65, 0.98)
        return lambda p: p**-k
    return lambda p: 1 / p + b


def planted(name: str, generator: np.random.Generator) -> tuple[Law, Series]:
    """A law and a noisy series of it."""
    law = planted_law(name, generator)
    runs, noise = int(generator.choice([1, 3])), generator.uniform(0.03, 0.05)
    x = np.repeat(2.0 ** np.arange(int(generator.integers(5, 8))), runs)
    deviations = noise * np.sqrt(x) if name == "growing noise" else noise
    return law, Series.of(x, law(x) * np.exp(deviations * generator.standard_normal(len(x))), "threads")


@dataclass(frozen=True, eq=False)
class PlantedAnswers:
    """One row a series and target; arrays of shape (answers,)."""

    law: npt.NDArray[np.str_]
    ratio: FloatArray
    truth: FloatArray
    ours: FloatArray
    low: FloatArray
    high: FloatArray
    probability: FloatArray
    trusted: Mask
    amdahl: FloatArray

    def only(self, some: Mask) -> PlantedAnswers:
        """Some of the answers."""
        return PlantedAnswers(*(getattr(self, name)[some] for name in self.__dataclass_fields__))

    def errors(self, name: str = "ours") -> FloatArray:
        """Relative errors in percent, of ours or of Amdahl's fit."""
        return np.asarray(100 * scores.relative_errors(getattr(self, name), self.truth))

    @property
    def near(self) -> Mask:
        """Which answers are within 20 %."""
        return np.asarray(self.errors() <= 100 * NEAR)

    @property
    def covered(self) -> float:
        """Share of the truths inside the 80 % band."""
        return scores.coverage(self.low, self.high, self.truth)


def planted_answers(seed: int, each: int) -> PlantedAnswers:
    """What is predicted of so many series of each law."""
    rows = []
    for place, name in enumerate(NAMES):
        generator = np.random.default_rng([seed, place])
        for _ in range(each):
            law, series = planted(name, generator)
            to = series.x[-1] * np.array(RATIOS)
            answer = extrapolate(series, to, "strong")
            stated = [verdict.probability or 0.0 for verdict in answer.verdicts]
            words = [verdict.word == "trust" for verdict in answer.verdicts]
            times = (law(to), answer.value, answer.low, answer.high, stated, words, amdahl(series, to))
            rows.append(([name] * len(to), RATIOS, *times))
    return PlantedAnswers(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def planted_rows() -> Iterator[ValidationRow]:
    """Errors and bands at each ratio, bands by law, and what "trust" and the probabilities are worth."""
    every = planted_answers(REPORTED, EACH)
    for ratio in RATIOS:
        some = every.only(every.ratio == ratio)
        for quantile, metric in ((0.5, "median relative error"), (0.9, "90th percentile of relative error")):
            ours, theirs = (float(np.quantile(some.errors(name), quantile)) for name in ("ours", "amdahl"))
            yield _row(f"{ratio:g}x", some, metric, ours, OF_AMDAHL * theirs, {"amdahl": theirs})
        trusted, right = some.only(some.trusted), 100 * float(np.mean(some.trusted))
        yield _row(f"{ratio:g}x", some, "trusted", right, TRUSTED if ratio == RATIOS[0] else None, at_least=True)
        if len(trusted.truth):
            near = 100 * float(np.mean(trusted.near))
            yield _row(f"{ratio:g}x, trusted", trusted, "within 20 %", near, RIGHT, at_least=True)
    yield _band("all", every, COVERED)
    for name in NAMES:
        yield _band(name, every.only(every.law == name), (LEAST_COVERED, 1.0))
    for low, high in ((0.0, 0.25), (0.25, 0.5), (0.5, 0.65), (0.65, 0.8), (0.8, 0.9), (0.9, 1.01)):
        some = every.only((every.probability >= low) & (every.probability < high))
        if len(some.truth):
            stated, held = 100 * float(np.mean(some.probability)), 100 * float(np.mean(some.near))
            yield _row(f"said {low:.0%} .. {min(high, 1.0):.0%}", some, "within 20 %", held, None, {"said": stated})


def _row(
    case: str,
    some: PlantedAnswers,
    metric: str,
    figure: float,
    goal: float | None,
    baselines: dict[str, float] | None = None,
    *,
    at_least: bool = False,
) -> ValidationRow:
    ok = None if goal is None else figure >= goal if at_least else figure <= goal
    return ValidationRow(
        *("random series", f"planted, {case}", "seeds never used", len(some.truth), metric, "%", figure),
        baselines or {},
        goal=goal,
        ok=ok,
        reason="at least" if at_least else "",
    )


def _band(name: str, some: PlantedAnswers, aim: tuple[float, float]) -> ValidationRow:
    inside = some.covered
    return ValidationRow(
        *("random series", f"planted, {name}, band", "seeds never used", len(some.truth), "median relative error", "%"),
        float(np.median(some.errors())),
        {"amdahl": float(np.median(some.errors("amdahl")))},
        ok=aim[0] <= inside <= aim[1],
        interval_level=scores.LEVEL,
        interval_coverage=inside,
        interval_width=scores.width(some.low, some.high),
        reason=f"ok: the band covers {aim[0]:.0%} .. {aim[1]:.0%}",
    )
