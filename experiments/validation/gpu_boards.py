"""One class of operations over many machines: fits, pooled predictions with bands, and the baselines beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from scipy.optimize import least_squares

from estimators.formula import FloatArray, Formula, evaluate
from estimators.operation.model import amount_of, machine_values
from estimators.operation.roofline import serving_engine
from estimators.operation.tiled import TiledRoofline
from estimators.pooling import PRIORS, Band, MachineFit, Prior, band, fit_machine, pooled, shared_words, weights
from hwmodels.catalog import machine
from hwmodels.machine import Machine
from workloads.kinds import KINDS, operation
from workloads.workload import Attribute, Op

if TYPE_CHECKING:
    import pandas as pd

SEED = 4
PREFIX = "parameter.kernels.default."
TWIN_TRANSFER = 0.5
"""Of a twin's residual, where no pair of twins is there to learn it from."""
FIXED = ("groups", "in_depth", "out_depth", "kernel_depth", "kernel_height", "kernel_width")
"""Dims that stand as numbers: they decide the form of a formula and are equal in all rows of a frame."""


@dataclass(frozen=True)
class Prediction:
    """What a board says of rows of one machine, in seconds."""

    time: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass
class Board:
    """Measured operations of one kind and dtype, and everything fitted to them.

    Parameters
    ----------
    training
        A frame of `gpu_data`; rows of machines that the catalogue lacks are left out.
    kind, dtype, facts
        Of the operations, by the taxonomy.
    sample
        Rows of one machine (and file) that a fit looks at.
    """

    training: pd.DataFrame
    kind: str
    dtype: str
    facts: Mapping[str, Attribute] = field(default_factory=dict)
    sample: int = 400
    priors: Mapping[str, Prior] = field(default_factory=lambda: PRIORS)
    formulas: dict[str, Formula] = field(default_factory=dict)
    bands: dict[tuple[str, ...], Band] = field(default_factory=dict)
    transfers: dict[tuple[str, ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.training = self.training[self.training["machine"] != ""]

    @cached_property
    def op(self) -> Op:
        """The operation with its dims as symbols."""
        dims: dict[str, Any] = {}
        for name in KINDS[self.kind].dims:
            fixed = name in FIXED and name in self.training
            dims[name] = int(self.training[name].iloc[0]) if fixed else sp.Symbol(name, positive=True)
        return operation("row", self.kind, dims, self.dtype, dict(self.facts))

    def formula(self, on: Machine) -> Formula:
        """Seconds on a machine, in dims and parameters."""
        if on.name not in self.formulas:
            self.formulas[on.name] = TiledRoofline().formula(self.op, on)
        return self.formulas[on.name]

    def values(self, on: Machine, rows: pd.DataFrame, formula: Formula | None = None) -> dict[str, Any]:
        """Everything that the formula names but its parameters."""
        formula = formula or self.formula(on)
        dims = {name: rows[name].to_numpy(float) for name in KINDS[self.kind].dims if name in rows}
        found: dict[str, Any] = dict(machine_values(formula, on))
        for name in formula.names:
            if name.startswith("operation."):
                amount = amount_of(self.op, name)
                found[name] = evaluate(amount, dims) if isinstance(amount, sp.Basic) else float(amount)
        return found

    def times(self, on: Machine, rows: pd.DataFrame, parameters: Mapping[str, float]) -> FloatArray:
        """Seconds of each row with the given parameters."""
        own = {f"{PREFIX}{name}": value for name, value in parameters.items()}
        result = self.formula(on).evaluate({**self.values(on, rows), **own})
        return np.asarray(np.broadcast_to(result, len(rows)))

    @cached_property
    def fits(self) -> dict[str, MachineFit]:
        """Each training machine's own fit."""
        found = {}
        for name, rows in self.training.groupby("machine"):
            on = machine(str(name))
            chosen = spread_sample(rows, self.sample)
            measured = chosen["time"].to_numpy()
            values = self.values(on, chosen)
            found[str(name)] = fit_machine(on, str(name), self.formula(on), values, measured, self.priors, PREFIX)
        return found

    def predict(self, name: str, rows: pd.DataFrame, left_out: Sequence[str]) -> Prediction:
        """Times on a machine, from the machines that are not left out; its own fit counts where it is among them."""
        on = machine(name)
        sources = [fit for source, fit in self.fits.items() if source not in left_out]
        if name not in left_out and name in self.fits:
            time, others = self.times(on, rows, self.fits[name].values), sources
        else:
            time, others = self.times(on, rows, pooled(sources, on)), sources
            time = time * np.exp(self.shapes(on.family, rows, sources))
        seen = (name, *(fit.machine for fit in others))
        if seen not in self.bands:
            self.bands[seen] = self.band(name, others)
        low, high = self.bands[seen].around(time)
        return Prediction(time, low, high)

    def parameters(self, name: str, left_out: Sequence[str]) -> Mapping[str, float]:
        """The values that `predict` uses."""
        if name not in left_out and name in self.fits:
            return self.fits[name].values
        return pooled([fit for source, fit in self.fits.items() if source not in left_out], machine(name))

    def band(self, name: str, sources: Sequence[MachineFit]) -> Band:
        """From each source left out in turn, relatives of the machine counting more."""
        residuals, predicted, share = {}, {}, {}
        counts = weights(sources, machine(name).family)
        for fit, weight in zip(sources, counts, strict=True):
            others = [other for other in sources if other.machine != fit.machine]
            if not others:
                continue
            rows = self.samples[fit.machine]
            time = self.times(machine(fit.machine), rows, pooled(others, machine(fit.machine)))
            time = time * np.exp(self.shapes(fit.family, rows, others))
            residuals[fit.machine] = np.log(rows["time"].to_numpy() / time)
            predicted[fit.machine], share[fit.machine] = time, float(weight)
        return band(residuals, predicted, share)

    def shapes(self, family: str, rows: pd.DataFrame, sources: Sequence[MachineFit]) -> FloatArray:
        """What relatives of a family take longer than their own fit at the nearest shape, as far as that transfers."""
        seen = (family, *(fit.machine for fit in sources))
        if seen not in self.transfers:
            self.transfers[seen] = self.transfer(family, sources)
        slope = self.transfers[seen]
        return slope * self.nearest(family, rows, sources) if slope else np.zeros(len(rows))

    def transfer(self, family: str, sources: Sequence[MachineFit]) -> float:
        """How much of its relatives' residual a source repeats: a regression over those that have as close ones."""
        closest = max((shared_words(family, fit.family) for fit in sources), default=0)
        products, squares = 0.0, 0.0
        for fit in sources:
            others = [other for other in sources if other.machine != fit.machine]
            if max((shared_words(fit.family, other.family) for other in others), default=-1) < closest:
                continue
            rows, own = self.residuals[fit.machine]
            near = self.nearest(fit.family, rows, others)
            inside = np.abs(own) < 1
            products += float(np.mean(near[inside] * own[inside]))
            squares += float(np.mean(near[inside] ** 2))
        return float(np.clip(products / squares, 0.0, 1.0)) if squares > 0 else TWIN_TRANSFER * (closest == 3)

    def nearest(self, family: str, rows: pd.DataFrame, sources: Sequence[MachineFit]) -> FloatArray:
        """Mean over the sources of their residuals at the nearest shapes, closest relatives first."""
        total, weight = np.zeros(len(rows)), 1e-9
        point = self._shape(rows)
        for fit, share in zip(sources, weights(sources, family), strict=True):
            own = self.residuals[fit.machine][1]
            distance, index = self._trees[fit.machine].query(point, k=min(3, len(own)))
            closeness = 1 / (distance**2 + 0.01)
            total += share * (own[index] * closeness).sum(axis=1) / closeness.sum(axis=1)
            weight += share
        return total / weight

    @cached_property
    def residuals(self) -> dict[str, tuple[pd.DataFrame, FloatArray]]:
        """Of each machine: rows, and log(measured / own fit)."""
        found = {}
        for name, fit in self.fits.items():
            rows = spread_sample(self.training[self.training["machine"] == name], 3000)
            time = self.times(machine(name), rows, fit.values)
            found[name] = rows, np.clip(np.log(rows["time"].to_numpy() / time), -1.5, 1.5)
        return found

    @cached_property
    def _trees(self) -> dict[str, Any]:
        from scipy.spatial import cKDTree

        return {name: cKDTree(self._shape(rows)) for name, (rows, _) in self.residuals.items()}

    def _shape(self, rows: pd.DataFrame) -> FloatArray:
        names = [name for name in KINDS[self.kind].dims if name in rows and name not in FIXED]
        return np.asarray(np.log2(np.maximum(rows[names].to_numpy(float), 1e-3)))

    @cached_property
    def samples(self) -> dict[str, pd.DataFrame]:
        """Some rows of each machine, for bands."""
        return {str(name): spread_sample(rows, 600) for name, rows in self.training.groupby("machine")}

    def roofline(
        self, name: str, rows: pd.DataFrame, efficiencies: Sequence[float] = (1.0, 1.0, 0.0, 0.0)
    ) -> FloatArray:
        """The trivial baseline: data-sheet peaks; or four numbers: two efficiencies, launch, share not overlapped."""
        on = machine(name)
        dims = {dim: rows[dim].to_numpy(float) for dim in KINDS[self.kind].dims if dim in rows}
        arithmetic, compute, memory, launch, overlap = np.zeros(len(rows)), *efficiencies
        for resource in self.op.cost:
            if resource.startswith("flop."):
                _, unit, dtype = resource.split(".")
                if unit != "matrix" and self.op.cost[f"flop.matrix.{dtype}"] != 0:
                    continue
                amount = self.op.cost[resource]
                peak = on.peak(serving_engine(on, unit, dtype), dtype)
                arithmetic = arithmetic + evaluate(sp.sympify(amount), dims) / (peak * compute)
        moved = evaluate(sp.sympify(self.op.cost.bytes_moved), dims)
        traffic = moved / (on.bandwidth(on.main_memory) * memory)
        longest = np.maximum(arithmetic, traffic) + overlap * np.minimum(arithmetic, traffic)
        return np.asarray(launch + longest)

    def calibrated_roofline(self, name: str, rows: pd.DataFrame, left_out: Sequence[str]) -> FloatArray:
        """The baseline of four numbers fitted to all machines that are not left out."""
        chosen = {source: part for source, part in self.samples.items() if source not in left_out}
        measured = np.concatenate([np.log(part["time"]) for part in chosen.values()])

        def residuals(point: FloatArray) -> FloatArray:
            numbers = tuple(np.exp(point))
            return np.asarray(
                np.concatenate([np.log(self.roofline(s, part, numbers)) for s, part in chosen.items()]) - measured
            )

        start = np.log([0.7, 0.8, max(1e-6, float(np.exp(measured.min())) / 2), 0.3])
        found = least_squares(residuals, start, loss="soft_l1", f_scale=0.1)
        return self.roofline(name, rows, tuple(map(float, np.exp(found.x))))


def spread_sample(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    """At most `count` rows of each file that a frame was read from, at random but always the same."""
    if "file" not in rows:
        return rows.sample(min(count, len(rows)), random_state=SEED)
    import pandas as pd

    parts = [part.sample(min(count, len(part)), random_state=SEED) for _, part in rows.groupby("file", sort=True)]
    return pd.concat(parts)
