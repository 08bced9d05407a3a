"""What the words of an extrapolation are worth: series of known laws, and what was said of them.

Six closed forms of strong scaling count alike, each with the relative time T(p) of p workers:

- Amdahl 1967: 1/p + b.
- universal scalability (Gunther 1993): 1/p + b (p - 1)/p + c (p - 1).
- an overhead by the logarithm, 1/p + b + c log2 p, and a linear one, 1/p + b + c (p - 1).
- a bandwidth that s workers use up (Williams et al. 2009, roofline): (1 - m)/p + m/min(p, s).
- memory in domains (NUMA) of d workers, pages spread over all n = ceil(p/d) of them: (1 + h (n - 1)/n)/p, because the
  share (n - 1)/n of the accesses goes to another domain (Bolosky et al. 1989, Section 2).

b is log-uniform 0.001 .. 0.3, m uniform 0.2 .. 1, h uniform 0.1 .. 0.6; where a curve turns upward (c), and s, are
log-uniform from 2 to 256 workers; d is 2, 4 .. 64. Three to eight points (1, 2, 4 ..; 1, 2, 3 ..; 1, 2, 3, 4, 6, 8, 12,
16), one or three runs each, noise of 0, 1, 2 or 5 %, answers at 2, 4, 8 and 16 times the last point. The truth is the
law without noise. Seeds below 1,000 served while this was built; those from 30,000 on report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.fitting import scores
from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.series import Series
from slipstick.experiments.scoring.score_rows import ValidationRow

Law = Callable[[FloatArray], FloatArray]
RATIOS = (2.0, 4.0, 8.0, 16.0)
NOISES = (0.0, 0.01, 0.02, 0.05)
TURNS = (2.0, 256.0)
WORDS = ("trust", "wide", "do not trust")
REPORTED, EACH = 30_000, 60
"""The first seed that served for nothing else, and series of each form."""


def _log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def _amdahl(generator: np.random.Generator) -> Law:
    b = _log_uniform(generator, 0.001, 0.3)
    return lambda p: 1 / p + b


def _universal(generator: np.random.Generator) -> Law:
    b, c = _log_uniform(generator, 0.001, 0.3), _log_uniform(generator, *TURNS) ** -2
    return lambda p: 1 / p + b * (p - 1) / p + c * (p - 1)


def _logarithm(generator: np.random.Generator) -> Law:
    b, c = _log_uniform(generator, 0.001, 0.3), float(np.log(2)) / _log_uniform(generator, *TURNS)
    return lambda p: 1 / p + b + c * np.log2(p)


def _linear(generator: np.random.Generator) -> Law:
    b, c = _log_uniform(generator, 0.001, 0.3), _log_uniform(generator, *TURNS) ** -2
    return lambda p: 1 / p + b + c * (p - 1)


def _bandwidth(generator: np.random.Generator) -> Law:
    m, s = generator.uniform(0.2, 1.0), _log_uniform(generator, *TURNS)
    return lambda p: (1 - m) / p + m / np.minimum(p, s)


def _domains(generator: np.random.Generator) -> Law:
    d, h = 2.0 ** generator.integers(1, 7), generator.uniform(0.1, 0.6)
    return lambda p: (1 + h * (1 - 1 / np.ceil(p / d))) / p


FORMS: tuple[tuple[str, Callable[[np.random.Generator], Law]], ...] = (
    ("Amdahl", _amdahl),
    ("universal scalability", _universal),
    ("overhead by the logarithm", _logarithm),
    ("linear overhead", _linear),
    ("bandwidth used up", _bandwidth),
    ("domains of memory", _domains),
)
STEPS: tuple[npt.NDArray[np.floating], ...] = (
    2.0 ** np.arange(8),
    1.0 + np.arange(8),
    np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0]),
)


def drawn_form(form: Callable[[np.random.Generator], Law], generator: np.random.Generator) -> tuple[Law, Series]:
    """A law of a form, and a noisy series of it."""
    law = form(generator)
    points = STEPS[int(generator.integers(len(STEPS)))][: int(generator.integers(3, 9))]
    noise, runs = NOISES[int(generator.integers(len(NOISES)))], int(generator.choice([1, 3]))
    x = np.repeat(points, runs)
    return law, Series.of(x, law(x) * np.exp(noise * generator.standard_normal(len(x))), "threads")


@dataclass(frozen=True, eq=False)
class FormAnswers:
    """What was said, one row a series and target with a band; times are relative, arrays of shape (answers,)."""

    form: npt.NDArray[np.str_]
    ratio: FloatArray
    word: npt.NDArray[np.str_]
    truth: FloatArray
    ours: FloatArray
    low: FloatArray
    high: FloatArray

    def only(self, some: Mask) -> FormAnswers:
        """Some of the answers."""
        return FormAnswers(*(getattr(self, name)[some] for name in self.__dataclass_fields__))

    @property
    def inside(self) -> float:
        """Share of the truths inside the 80 % band."""
        return scores.coverage(self.low, self.high, self.truth)

    @property
    def error(self) -> float:
        """Median relative error."""
        return scores.relative_quantile(0.5, self.ours, self.truth)

    @property
    def half_width(self) -> float:
        """Median half-width of the bands, relative."""
        return float(np.median(np.sqrt(self.high / self.low))) - 1


def said_of_forms(seed: int, each: int) -> FormAnswers:
    """What `extrapolate` says of so many series of each form."""
    rows = []
    for place, (name, form) in enumerate(FORMS):
        generator = np.random.default_rng([seed, place])
        for _ in range(each):
            law, series = drawn_form(form, generator)
            to = series.x[-1] * np.array(RATIOS)
            answer = extrapolate(series, to, kind="strong")
            if answer.low is None or answer.high is None:
                continue
            words = [verdict.word for verdict in answer.verdicts]
            rows.append(([name] * len(to), RATIOS, words, law(to), answer.value, answer.low, answer.high))
    return FormAnswers(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def closed_form_rows() -> Iterator[ValidationRow]:
    """Of each word: how often it was said, how many truths the band held, the median error; of "trust" by form too."""
    every = said_of_forms(REPORTED, EACH)
    for word in WORDS:
        some = every.only(every.word == word)
        share = len(some.truth) / len(every.truth)
        yield from _rows(f"closed forms, {word}", some, word == "trust", f"{share:.0%} of the answers")
    trusted = every.only(every.word == "trust")
    for name, _ in FORMS:
        some, whole = trusted.only(trusted.form == name), int(np.sum(every.form == name))
        share = len(some.truth) / whole
        yield from _rows(f"closed forms, trust, {name}", some, False, f"{share:.0%} of the answers")


def _rows(case: str, some: FormAnswers, judged: bool, reason: str) -> Iterator[ValidationRow]:  # noqa: FBT001
    if not len(some.truth):
        return
    width = float(np.exp(np.mean(np.log(some.high / some.low))))
    inside = 100 * some.inside
    yield ValidationRow(
        *("random series", case, "seeds never used", len(some.truth), "inside the 80 % band", "%", inside),
        goal=80.0 if judged else None,
        ok=inside >= 80.0 if judged else None,
        interval_level=scores.LEVEL,
        interval_coverage=some.inside,
        interval_width=width,
        reason=f"at least; {reason}" if judged else reason,
    )
    error, half = 100 * some.error, 100 * some.half_width
    yield ValidationRow(
        *("random series", case, "seeds never used", len(some.truth), "median relative error", "%", error),
        goal=half if judged else None,
        ok=error <= half if judged else None,
        reason="at most the median half-width of its bands" if judged else "",
    )
