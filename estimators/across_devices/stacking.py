"""Several ways of telling a time, put together as far as each has proved itself on machines left out.

Ensembles beat their members where errors differ (Wolpert, Neural Networks 5, 1992). The weights are learned among the
machines that are measured: each is left out in turn and told in every way by the others, so that nothing of the machine
that is asked for enters, and few machines cannot carry the weights far from what holds in general.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from estimators.formula import FloatArray
from hwmodels.files import InputError

PRIOR = (0.2, 0.1, 0.5)
"""Weights where nothing is known: of the ways apart and plain, and of the shapes' residual."""
STRENGTH = 10.0
"""How many machines the prior counts for, at an error of `NOISE` a weight."""
NOISE = 0.05
SOFT = 0.1
"""Log error beyond which a row's weight falls."""


@dataclass(frozen=True)
class Told:
    """What several ways say of the same operations on one machine; arrays of one shape (n,), log seconds.

    Parameters
    ----------
    pooled
        The model with parameters pooled over the sources.
    apart
        The mean over the sources of the model with each source's own parameters.
    plain
        A roofline of a few numbers.
    shapes
        Mean log(measured / own fit) of the sources at the nearest shapes.
    """

    pooled: FloatArray
    apart: FloatArray
    plain: FloatArray
    shapes: FloatArray

    @property
    def deviations(self) -> FloatArray:
        """What each weight adds to the pooled way, shape (n, 3)."""
        return np.stack([self.apart - self.pooled, self.plain - self.pooled, self.shapes], axis=1)

    def together(self, weights: FloatArray) -> FloatArray:
        """Log seconds with the given weights of `apart`, `plain` and `shapes`."""
        return np.asarray(self.pooled + self.deviations @ weights)


@dataclass(frozen=True)
class Trial:
    """One measured machine, told by others: its log seconds, shape (n,), and how much it counts."""

    told: Told
    measured: FloatArray
    weight: float


def stacked(trials: Sequence[Trial]) -> FloatArray:
    """The weights that tell the trials best, each between 0 and 1, drawn towards `PRIOR`.

    Raises
    ------
    InputError
        Where a trial has no rows.
    """
    prior = np.array(PRIOR)
    if not trials:
        return prior
    if any(not len(trial.measured) for trial in trials):
        raise InputError("a machine without measured rows cannot say how its times are told best")
    total = sum(trial.weight for trial in trials) / len(trials)
    deviations = np.concatenate([trial.told.deviations for trial in trials])
    target = np.concatenate([trial.measured - trial.told.pooled for trial in trials])
    count = np.concatenate([np.full(len(t.measured), t.weight / total / len(t.measured)) for t in trials])

    def residuals(weights: FloatArray) -> FloatArray:
        error = (target - deviations @ weights) / SOFT
        soft = SOFT * np.sqrt(2 * count * (np.sqrt(1 + error**2) - 1))
        return np.concatenate([soft, np.sqrt(STRENGTH) * NOISE * (weights - prior)])

    return np.asarray(least_squares(residuals, prior, bounds=(0.0, 1.0)).x)
