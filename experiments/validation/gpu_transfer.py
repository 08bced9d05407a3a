"""Times on a machine that was not measured, told from those that were in several ways, with a band around them.

Everything that is learned (how far each way is to be trusted, how wide the band is) is learned on the sources: each is
left out in turn and told by the others. Relatives closer than the target's closest are taken away there as well, so
that a source with a twin does not speak for a target without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.across_devices.bands import KINSHIP_ERROR, Band, band
from estimators.across_devices.pooling import MachineFit, pooled, shared_words, weights
from estimators.across_devices.stacking import Told, Trial, stacked
from estimators.formula import FloatArray
from experiments.validation.gpu_boards import Board, spread_sample
from hwmodels.catalog import machine

if TYPE_CHECKING:
    import pandas as pd

WORD = (0.3, 0.6, 1.0, 1.5)
"""How much a source says about the weights and the band of a target with which it shares 0, 1, 2, 3 words."""
LARGEST = 1.5
"""Log residuals beyond are cut: they are outliers."""
NEIGHBOURS = 3
REACH = 0.1
"""Octaves within which neighbouring shapes count alike."""
SHAPES = 3000
"""Rows of a machine and file among which the nearest shapes are looked for."""
UNKNOWN = Band(0.8, 0.0, (np.nan, np.nan), (np.nan, np.nan))
"""The band where a single source leaves nothing to learn one from."""


@dataclass(frozen=True)
class Prediction:
    """What is said of rows of one machine, in seconds."""

    time: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Rule:
    """What the sources teach for one target: the weights of the ways, and the band."""

    weights: FloatArray
    band: Band


@dataclass
class Transfer:
    """Predictions from the fits of a board; what is computed once is kept."""

    board: Board
    rules: dict[tuple[str, ...], Rule] = field(default_factory=dict)
    samples_apart: dict[str, FloatArray] = field(default_factory=dict)
    repeated: dict[str, tuple[float, Band]] = field(default_factory=dict)

    def predict(self, name: str, rows: pd.DataFrame, left_out: Sequence[str]) -> Prediction:
        """Times on a machine from those that are not left out; its own rows serve where it is among them."""
        if name not in left_out and name in self.board.fits:
            return self._known(name, rows)
        sources = [fit for source, fit in self.board.fits.items() if source not in left_out and source != name]
        rule = self.rule(name, sources)
        time = np.exp(self.told(name, rows, sources).together(rule.weights))
        return Prediction(time, *rule.band.around(time))

    def parameters(self, name: str, left_out: Sequence[str]) -> dict[str, float]:
        """The model's values on a machine: its own fit, or pooled."""
        if name not in left_out and name in self.board.fits:
            return dict(self.board.fits[name].values)
        sources = [fit for source, fit in self.board.fits.items() if source not in left_out]
        return dict(pooled(sources, machine(name), self.board.priors))

    def rule(self, name: str, sources: Sequence[MachineFit]) -> Rule:
        """Weights of the ways and the band for a target, from each source left out in turn."""
        seen = (name, *(fit.machine for fit in sources))
        if seen not in self.rules:
            self.rules[seen] = self._rule(name, sources)
        return self.rules[seen]

    def _rule(self, name: str, sources: Sequence[MachineFit]) -> Rule:
        family = machine(name).family
        closest = max(shared_words(family, fit.family) for fit in sources)
        trials: dict[str, Trial] = {}
        closeness = {}
        for fit in sources:
            others = [other for other in sources if other.machine != fit.machine]
            others = [o for o in others if shared_words(fit.family, o.family) <= closest] or others
            if not others:
                continue
            rows = self.board.samples[fit.machine]
            closeness[fit.machine] = max(shared_words(fit.family, other.family) for other in others)
            told = self.told(fit.machine, rows, others)
            weight = WORD[shared_words(family, fit.family)]
            trials[fit.machine] = Trial(told, np.log(rows["time"].to_numpy()), weight)
        found = stacked(list(trials.values()))
        times = {source: trial.told.together(found) for source, trial in trials.items()}
        scale = {source: KINSHIP_ERROR[closest] / KINSHIP_ERROR[close] for source, close in closeness.items()}
        if not trials:
            return Rule(found, UNKNOWN)
        residuals = {source: (trial.measured - times[source]) * scale[source] for source, trial in trials.items()}
        share = {source: trial.weight for source, trial in trials.items()}
        return Rule(found, band(residuals, {source: np.exp(time) for source, time in times.items()}, share))

    def told(self, name: str, rows: pd.DataFrame, sources: Sequence[MachineFit]) -> Told:
        """What the sources say of rows of a machine, in each way."""
        on = machine(name)
        share = weights(sources, on.family)
        share = share / share.sum()
        values = pooled(sources, on, self.board.priors)
        plain = self.board.roofline(name, rows, self.board.four_numbers([fit.machine for fit in sources]))
        return Told(
            np.log(self.board.times(on, rows, values)),
            share @ self._apart(name, rows, sources),
            np.log(plain),
            share @ np.stack([self.nearest(fit.machine, rows) for fit in sources]),
        )

    def _apart(self, name: str, rows: pd.DataFrame, sources: Sequence[MachineFit]) -> FloatArray:
        """Log seconds with each source's own parameters, shape (sources, rows)."""
        on, fits = machine(name), list(self.board.fits.values())
        if rows is not self.board.samples.get(name):
            return np.log(self.board.times_of_each(on, rows, [fit.values for fit in sources]))
        if name not in self.samples_apart:
            self.samples_apart[name] = np.log(self.board.times_of_each(on, rows, [fit.values for fit in fits]))
        index = {fit.machine: i for i, fit in enumerate(fits)}
        return self.samples_apart[name][[index[fit.machine] for fit in sources]]

    def _known(self, name: str, rows: pd.DataFrame) -> Prediction:
        """A measured machine: its own fit, and as much of its residual at the nearest shapes as repeats."""
        if name not in self.repeated:
            own, residual = self.residuals[name]
            around = self.nearest(name, own, skip=1)
            slope = float(np.clip(around @ residual / (float(around @ around) + 1e-12), 0.0, 1.0))
            left = residual - slope * around
            predicted = own["time"].to_numpy() * np.exp(-left)
            self.repeated[name] = slope, band({name: left}, {name: predicted}, {name: 1.0})
        slope, kept = self.repeated[name]
        time = self.board.times(machine(name), rows, self.board.fits[name].values)
        time = time * np.exp(slope * self.nearest(name, rows))
        return Prediction(time, *kept.around(time))

    def nearest(self, source: str, rows: pd.DataFrame, skip: int = 0) -> FloatArray:
        """A source's residual at the shapes nearest to rows; `skip` leaves out the rows themselves."""
        own = self.residuals[source][1]
        distance, index = self._trees[source].query(self._shape(rows), k=min(NEIGHBOURS + skip, len(own)))
        distance, index = (np.atleast_2d(part.T).T[:, skip:] for part in (distance, index))
        closeness = 1 / (distance**2 + REACH**2)
        return np.asarray((own[index] * closeness).sum(axis=1) / closeness.sum(axis=1))

    @cached_property
    def residuals(self) -> dict[str, tuple[pd.DataFrame, FloatArray]]:
        """Of each machine: rows, and log(measured / own fit)."""
        found = {}
        for name, fit in self.board.fits.items():
            rows = spread_sample(self.board.training[self.board.training["machine"] == name], SHAPES)
            time = self.board.times(machine(name), rows, fit.values)
            found[name] = rows, np.clip(np.log(rows["time"].to_numpy() / time), -LARGEST, LARGEST)
        return found

    @cached_property
    def _trees(self) -> dict[str, Any]:
        from scipy.spatial import cKDTree

        return {name: cKDTree(self._shape(rows)) for name, (rows, _) in self.residuals.items()}

    def _shape(self, rows: pd.DataFrame) -> FloatArray:
        return np.asarray(np.log2(np.maximum(rows[list(self.board.varying)].to_numpy(float), 1e-3)))
