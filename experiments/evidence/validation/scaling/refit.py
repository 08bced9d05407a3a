"""Chooses widths of priors and inflation: python -m slipstick.experiments.evidence.validation.scaling.refit

Widths and departures are scored by proper losses: pinball losses of log time (median of errors, and both ends of the
band) and the Brier score of the probability of being within 20 %; half by public codes, every code and bin of ratios
counting alike, half by random series and closed forms (`closed_forms.py`) of seeds below 1,000. The inflation is the
one at which the 80 % band of these series, whose truth is known, covers nearest to 80 %, among those that cover at
least 70 % of the codes in every bin of five codes or more. The choice for a code never sees it: that is what the board
`scaling` scores. Nothing else is chosen; weights of the laws and the form of the priors are fixed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.extrapolation.laws.priors import Choice, chosen
from slipstick.estimators.extrapolation.series import Series
from slipstick.estimators.extrapolation.verdict import NEAR
from slipstick.estimators.learning import scores
from slipstick.experiments.evidence.score import Data, progress
from slipstick.experiments.evidence.validation.scaling.closed_forms import FORMS, Law, drawn_form
from slipstick.experiments.evidence.validation.scaling.code_series import (
    BINS,
    ENOUGH_CODES,
    CodeCase,
    CodeTargets,
    code_cases,
    targets,
)
from slipstick.experiments.evidence.validation.scaling.random_series import Forecasts, SeriesSampling, drawn, forecasts
from slipstick.experiments.evidence.validation.scaling.series_collection import every_series

SUPERLINEAR = (0.2, 0.4)
DEPARTURES = (0.5, 1.0, 2.0)
INFLATIONS = tuple(round(0.80 + 0.05 * step, 2) for step in range(15))
LEAST_COVERAGE = 0.70
MOST = 1.0
"""Log errors beyond this count as this."""
SEED, COUNT, EACH = 500, 150, 50
CHOSEN_ON = (
    SeriesSampling("5 % noise"),
    SeriesSampling("10 % noise", noise=0.10),
    SeriesSampling("four points", (1, 2, 4, 8)),
)


def options() -> list[Choice]:
    """All that may be chosen, inflation 1."""
    return [(*option, 1.0) for option in itertools.product(SUPERLINEAR, DEPARTURES)]


def pinball(truth: FloatArray, ours: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Half the log error, and the losses of both ends of an 80 % band; shape of the targets."""
    error, bottom, top = (np.clip(np.log(values / truth), -MOST, MOST) for values in (ours, low, high))
    outside = np.maximum(bottom, 0) + np.maximum(-top, 0)
    return np.asarray(0.5 * np.abs(error) + 0.5 * (0.1 * (top - bottom) + outside))


def losses(predicted: CodeTargets | Forecasts) -> FloatArray:
    """Loss of each target (log time, Brier), shape (targets,)."""
    near = scores.relative_errors(predicted.ours, predicted.truth) <= NEAR
    ends = pinball(predicted.truth, predicted.ours, predicted.low, predicted.high)
    return np.asarray(ends + (predicted.sure - near) ** 2)


def _ends(predicted: CodeTargets | Forecasts, inflation: float) -> tuple[FloatArray, FloatArray]:
    """Ends of the band, of inflation 1, stretched about the median."""
    middle = predicted.middle
    low, high = (np.asarray(middle * (end / middle) ** inflation) for end in (predicted.low, predicted.high))
    return low, high


def by_code(predicted: CodeTargets) -> dict[str, float]:
    """Mean loss of each code over bins of ratios, in log time."""
    every, result = losses(predicted), {}
    for code in np.unique(predicted.code):
        bins = [
            every[(predicted.code == code) & (predicted.ratio >= low) & (predicted.ratio < high)].mean()
            for _, low, high in BINS
            if ((predicted.code == code) & (predicted.ratio >= low) & (predicted.ratio < high)).any()
        ]
        if bins:
            result[str(code)] = float(np.mean(bins))
    return result


def coverages(predicted: CodeTargets, inflation: float) -> dict[str, dict[str, float]]:
    """Coverage of each code in each bin: bin -> code -> share."""
    held = _held(predicted, inflation)
    result: dict[str, dict[str, float]] = {}
    for name, low, high in BINS:
        some = (predicted.ratio >= low) & (predicted.ratio < high)
        codes = np.unique(predicted.code[some])
        if len(codes) >= ENOUGH_CODES:
            result[name] = {str(code): float(held[some & (predicted.code == code)].mean()) for code in codes}
    return result


def _held(predicted: CodeTargets | Forecasts, inflation: float) -> npt.NDArray[np.bool_]:
    return scores.inside(*_ends(predicted, inflation), predicted.truth)


@dataclass(frozen=True, eq=False)
class OptionTrial:
    """What one option does: losses by code and of the random series; by inflation, coverage of each bin and code, and
    how far that of the random series is from the level of the band."""

    codes: dict[str, float]
    random: float
    covered: dict[float, dict[str, dict[str, float]]]
    random_off: dict[float, float]

    def loss(self, without: str) -> float:
        """Mean loss, in log time, of all codes but one and of the random series."""
        return 0.5 * _mean(self.codes, without) + 0.5 * self.random

    def least(self, inflation: float, without: str) -> float:
        """The least coverage, a share, of a bin of codes."""
        return min(_mean(codes, without) for codes in self.covered[inflation].values())


def _mean(of_codes: dict[str, float], without: str) -> float:
    return float(np.mean([value for code, value in of_codes.items() if code != without]))


def choices(cases: Sequence[CodeCase]) -> dict[str, Choice]:
    """The choice without each code, and that with all of them under the name ""."""
    plain = [drawn(setting, SEED + i, COUNT) for i, setting in enumerate(CHOSEN_ON)]
    plain += [_closed(name) for name, _ in FORMS]
    trials: dict[Choice, OptionTrial] = {}
    every = options()
    for place, option in enumerate(every):
        progress(f"refit of scaling: {place + 1} of {len(every)}")
        priors = chosen(option)
        of_codes = targets(cases, {case.code: priors for case in cases})
        random = [forecasts(laws, series, priors=priors) for laws, series in plain]
        trials[option] = OptionTrial(
            by_code(of_codes),
            float(np.mean([losses(one).mean() for one in random])),
            {inflation: coverages(of_codes, inflation) for inflation in INFLATIONS},
            {
                inflation: float(np.mean([abs(_held(one, inflation).mean(axis=0) - scores.LEVEL) for one in random]))
                for inflation in INFLATIONS
            },
        )
    codes = sorted({case.code for case in cases})
    return {without: _best(trials, without) for without in [*codes, ""]}


def _closed(name: str) -> tuple[list[Law], list[Series]]:
    """Series of one closed form."""
    generator, form = np.random.default_rng(SEED), dict(FORMS)[name]
    every = [drawn_form(form, generator) for _ in range(EACH)]
    return [law for law, _ in every], [series for _, series in every]


def _best(trials: dict[Choice, OptionTrial], without: str) -> Choice:
    """Widths and departures by loss, then the inflation by coverage."""
    option = min(trials, key=lambda choice: trials[choice].loss(without))
    trial = trials[option]

    def missing(inflation: float) -> tuple[float, float]:
        return max(LEAST_COVERAGE - trial.least(inflation, without), 0.0), trial.random_off[inflation]

    return (*option[:2], min(INFLATIONS, key=missing))


def refit(data: Data) -> Iterator[str]:
    """The lines of `estimators/tuned/tuned_scaling.py` that hold what is learned."""
    every = choices(code_cases(every_series(data)))
    yield f"CHOSEN = {_text(every.pop(''))}"
    yield "LEFT_OUT: dict[str, tuple[float, float, float]] = {"
    yield from (f'    "{code}": {_text(choice)},' for code, choice in every.items())
    yield "}"


def _text(choice: Choice) -> str:
    return repr(choice)


if __name__ == "__main__":
    print("\n".join(refit(Data())))
