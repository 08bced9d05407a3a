"""What public codes say before any point of a new one (`slipstick validate --refit scaling`), each left out in turn.

Public measurements alone choose: every code counts alike, and what is learned for a code never sees it; that is what
the board `scaling` scores. Random and planted series, whose truth is known, are judged and choose nothing.

- How often each law holds: shares of a mixture (Dempster, Laird and Rubin 1977, Section 4.3) over the whole series of
  the codes, with Jeffreys' half a code beforehand for each.
- How far the average then is off: normal scores of later values stretched to either side, by quantile regression
  (Koenker and Bassett 1978) on the distance, the points and whether runs repeat; what these add is shrunk as much as
  predicts the codes best that are left out in turn once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slipstick.common.records import FrozenDict
from slipstick.estimators.fitting.fitted_file import FittedFile, digest
from slipstick.estimators.fitting.least_squares import lowest
from slipstick.estimators.scaling.averaged_scaling import averaged, points_of
from slipstick.estimators.scaling.laws.marginal_likelihood import believe
from slipstick.estimators.scaling.laws.priors import FITTED_NAME, PRIORS, STRETCH, CodesPriors, Priors, regime
from slipstick.estimators.scaling.laws.scaling_laws import STRONG
from slipstick.estimators.scaling.series import Series
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.scaling.code_series import FIRST, CodeCase, code_cases
from slipstick.experiments.scoreboards.scaling.series_collection import MORE, ScalingSeries, every_series
from slipstick.experiments.scoring.score import Data

Codes = npt.NDArray[np.str_]
NOTHING = (0.0, 0.0, 0.0, 0.0)
ALIKE = CodesPriors(FrozenDict(dict.fromkeys(STRONG, 1.0 / len(STRONG))), NOTHING, NOTHING)
"""Every law alike, and the average as it is."""
HALF_A_CODE, ROUNDS = 0.5, 200
QUANTILES, SCORES = np.array([0.75, 0.9]), np.array([0.6744898, 1.2815516])
STRENGTHS = (0.01, 0.03, 0.1, 0.3)
FEWEST = 3
"""Codes from which on a stretch is learned: one to leave out, and two that say the same."""
LARGEST = 6.0
"""Scores farther off count as this."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What whole series say of each law: likelihoods up to a factor a series, shape (series, laws of `STRONG`).

    `codes`: shape (series,).
    """

    codes: Codes
    likelihoods: FloatArray

    @classmethod
    def of(cls, collection: Sequence[ScalingSeries]) -> Evidence:
        """That of all series of strong scaling long enough to be extrapolated."""
        priors, codes, rows = replace(PRIORS, codes=ALIKE), [], []
        for one in collection:
            series = Series.of(one.values, one.times, one.parameter, one.name)
            if one.kind == "strong" and len(series) >= FIRST:
                codes.append(one.name.split("/")[0])
                rows.append(believe(points_of(series), np.array([2.0]), priors).shares[: len(STRONG)])
        return cls(np.array(codes), np.array(rows))

    def shares(self, without: Sequence[str]) -> FrozenDict[float]:
        """How often each law holds, without some codes."""
        kept = ~np.isin(self.codes, without)
        _, code, count = np.unique(self.codes[kept], return_inverse=True, return_counts=True)
        shares = np.full(len(STRONG), 1.0 / len(STRONG))
        for _ in range(ROUNDS):
            each = self.likelihoods[kept] * shares
            shares = (1.0 / count[code]) @ (each / each.sum(axis=1, keepdims=True)) + HALF_A_CODE
            shares /= shares.sum()
        return FrozenDict({name: round(float(one), 4) for name, one in zip(STRONG, shares, strict=True)})


@dataclass(frozen=True, eq=False)
class Scores:
    """Normal scores of later values before recalibration; arrays of (targets,) and the regimes, (targets, 4)."""

    codes: Codes
    scores: FloatArray
    regimes: FloatArray

    @classmethod
    def of(cls, cases: Sequence[CodeCase], priors: Mapping[str, Priors]) -> Scores:
        """Those of cases, by priors of each code."""
        rows = []
        for case in cases:
            belief = averaged(case.known, case.to, priors=priors[case.code]).belief
            known = regime(case.to / case.known.x[-1], points_of(case.known).repeats)
            rows.append((np.full(len(case.to), case.code), belief.average.score(np.log(case.truth)), known))
        return cls(*(np.concatenate(column) for column in zip(*rows, strict=True)))

    def loss(self, coefficients: FloatArray, side: float, some: npt.NDArray[np.bool_]) -> float:
        """Mean pinball loss (of normal scores) on one side of the median; every code has the same weight."""
        off = np.clip(side * self.scores[some], -LARGEST, LARGEST)[:, None]
        off = off - np.exp(np.clip(self.regimes[some] @ coefficients, *STRETCH))[:, None] * SCORES
        each = np.where(off > 0.0, QUANTILES * off, (QUANTILES - 1.0) * off).sum(axis=1)
        _, code, count = np.unique(self.codes[some], return_inverse=True, return_counts=True)
        return float(each @ (1.0 / count[code]) / len(count))

    def stretch(self, side: float, some: npt.NDArray[np.bool_]) -> FloatArray:
        """Coefficients of the log stretch, shrunk as predicts best what is left out of some of the targets."""

        def left_out(strength: float) -> float:
            each = [(self.codes == code) & some for code in names]
            return sum(self.loss(self._fitted(side, some & ~out, strength), side, out) for out in each)

        names = np.unique(self.codes[some])
        if len(names) < FEWEST:
            return np.zeros(len(NOTHING))
        return self._fitted(side, some, min(STRENGTHS, key=left_out))

    def _fitted(self, side: float, some: npt.NDArray[np.bool_], strength: float) -> FloatArray:
        def penalised(coefficients: FloatArray) -> float:
            return self.loss(coefficients, side, some) + strength * float(coefficients[1:] @ coefficients[1:])

        return lowest(penalised, np.zeros(len(NOTHING)))


def learned(evidence: Evidence, cases: Sequence[CodeCase], without: Sequence[str] = ()) -> CodesPriors:
    """What all codes but some say; each one's later values are scored by shares that it has no part in."""
    kept = [case for case in cases if case.code not in without]
    shares = {code: evidence.shares((*without, code)) for code in {case.code for case in kept}}
    alone = {code: replace(PRIORS, codes=CodesPriors(one, NOTHING, NOTHING)) for code, one in shares.items()}
    scores = Scores.of(kept, alone)
    every = np.ones(len(scores.codes), dtype=bool)
    below, above = (tuple(np.round(scores.stretch(side, every), 3).tolist()) for side in (-1.0, 1.0))
    return CodesPriors(evidence.shares(without), below, above)


def refit() -> FittedFile:
    """What all codes say; facts hold what they say without each.

    Raises MissingError where the public series are missing.
    """
    collection = every_series(Data())
    evidence, cases = Evidence.of(collection), code_cases(collection)
    codes = sorted({case.code for case in cases})
    facts = {
        "all": _facts(learned(evidence, cases)),
        "left out": {code: _facts(learned(evidence, cases, (code,))) for code in codes},
    }
    files = [path for pair in MORE for path in pair]
    rows = {name: digest(path) for name in files if (path := training_file(name)) is not None}
    note = "Every code's whole series, and its later values from its first ones; a code counts as one."
    return FittedFile(FITTED_NAME, rows, sum(len(case.to) for case in cases), {}, (), note, facts)


def _facts(one: CodesPriors) -> dict[str, object]:
    return {"weights": dict(one.weights), "below": list(one.below), "above": list(one.above)}
