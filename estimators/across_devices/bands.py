"""Bands of a machine that was not measured: quantiles of what other machines, each left out, scattered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from estimators.formula import FloatArray
from hwmodels.files import InputError

KINSHIP_ERROR = (1.4, 1.2, 1.0, 0.6)
"""How large errors are where the closest relative shares 0, 1, 2, 3 words of the family, against two words. Measured
on public GPU data by taking relatives away: each step costs a third, a twin halves; rounded towards one because few
machines told it."""


@dataclass(frozen=True)
class Band:
    """Quantiles of log(measured / predicted) on machines left out, for short and for long operations.

    Parameters
    ----------
    level
        Probability that the band should cover.
    short, long
        (low, high) below and above `border` seconds of predicted time.
    """

    level: float
    border: float
    short: tuple[float, float]
    long: tuple[float, float]

    def around(self, predicted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Seconds between which the measured time should lie, each of the shape of `predicted`."""
        brief = predicted < self.border
        low, high = (np.where(brief, self.short[i], self.long[i]) for i in (0, 1))
        return predicted * np.exp(low), predicted * np.exp(high)


def band(
    residuals: Mapping[str, FloatArray],
    predicted: Mapping[str, FloatArray],
    share: Mapping[str, float],
    level: float = 0.8,
    border: float = 20e-6,
) -> Band:
    """The band of a machine from what other machines, each left out, scattered around their own predictions.

    Parameters
    ----------
    residuals, predicted
        By machine: log(measured / predicted), and seconds.
    share
        By machine: its weight (`estimators.across_devices.pooling.weights`), spread evenly over its residuals.

    Raises
    ------
    InputError
        Where there is no residual.
    """
    ends = {}
    for name, brief in (("short", True), ("long", False)):
        values, counts = [], []
        for machine, residual in residuals.items():
            chosen = residual[(predicted[machine] < border) == brief]
            if len(chosen):
                values.append(chosen)
                counts.append(np.full(len(chosen), share[machine] / len(chosen)))
        if values:
            ends[name] = weighted_quantiles(np.concatenate(values), np.concatenate(counts), level)
    if not ends:
        raise InputError("no residual to make a band of")
    short, long = ends.get("short", ends.get("long")), ends.get("long", ends.get("short"))
    return Band(level, border, short or (0.0, 0.0), long or (0.0, 0.0))


def weighted_quantiles(values: FloatArray, counts: FloatArray, level: float) -> tuple[float, float]:
    """The central quantiles that leave (1 - level) / 2 of the weight on each side."""
    order = np.argsort(values)
    below = (np.cumsum(counts[order]) - counts[order] / 2) / counts.sum()
    low, high = np.interp([(1 - level) / 2, (1 + level) / 2], below, values[order])
    return float(low), float(high)
