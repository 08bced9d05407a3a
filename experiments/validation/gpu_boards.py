"""One class of operations over many machines: its formula, each machine's own fit, and the baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from scipy.optimize import least_squares

from estimators.across_devices.pooling import PRIORS, MachineFit, Prior, fit_machine
from estimators.formula import FloatArray, Formula, evaluate
from estimators.operation.model import amount_of, machine_values
from estimators.operation.roofline import serving_engine
from estimators.operation.tiled import TiledRoofline
from hwmodels.catalog import machine
from hwmodels.machine import Machine
from workloads.kinds import KINDS, operation
from workloads.workload import Attribute, Op

if TYPE_CHECKING:
    import pandas as pd

SEED = 4
PREFIX = "parameter.kernels.default."
SAMPLE = 300
"""Rows of a machine and file that weights, bands and baselines look at."""
FIXED = ("groups", "in_depth", "out_depth", "kernel_depth", "kernel_height", "kernel_width")
"""Dims that stand as numbers: they decide the form of a formula and are equal in all rows of a frame."""


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
    alike
        Tells the rows that resemble those that will be asked for.
    """

    training: pd.DataFrame
    kind: str
    dtype: str
    facts: Mapping[str, Attribute] = field(default_factory=dict)
    sample: int = 400
    priors: Mapping[str, Prior] = field(default_factory=lambda: PRIORS)
    alike: Callable[[pd.DataFrame], pd.Series[bool]] | None = None
    formulas: dict[str, Formula] = field(default_factory=dict)
    rooflines: dict[tuple[str, ...], tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.training = self.training[self.training["machine"] != ""]

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """The dims that are not equal in all rows."""
        return tuple(n for n in KINDS[self.kind].dims if n in self.training and self.training[n].nunique() > 1)

    @cached_property
    def op(self) -> Op:
        """The operation with its dims as symbols."""
        dims: dict[str, Any] = {}
        for name in KINDS[self.kind].dims:
            fixed = name in FIXED and name in self.training and name not in self.varying
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
        return np.asarray(self.times_of_each(on, rows, [parameters])[0])

    def times_of_each(self, on: Machine, rows: pd.DataFrame, several: Sequence[Mapping[str, float]]) -> FloatArray:
        """Seconds of each row with each of several parameter sets, shape (sets, rows)."""
        own = {f"{PREFIX}{name}": np.array([[one[name]] for one in several]) for name in several[0]}
        result = self.formula(on).evaluate({**self.values(on, rows), **own})
        return np.asarray(np.broadcast_to(result, (len(several), len(rows))))

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

    @cached_property
    def samples(self) -> dict[str, pd.DataFrame]:
        """Some rows of each machine, for baselines, weights and bands; such as are asked for, where it has any."""
        found = {}
        for name, rows in self.training.groupby("machine"):
            alike = self.alike(rows) if self.alike else rows["time"] > 0
            found[str(name)] = spread_sample(rows[alike] if alike.any() else rows, SAMPLE)
        return found

    def roofline(
        self, name: str, rows: pd.DataFrame, efficiencies: Sequence[float] = (1.0, 1.0, 0.0, 0.0)
    ) -> FloatArray:
        """The trivial baseline: data-sheet peaks; or four numbers: two efficiencies, launch, share not overlapped."""
        return _overlapping(*self._bounds(name, rows), efficiencies)

    def _bounds(self, name: str, rows: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
        """Seconds of each row at peak rate, and at peak bandwidth."""
        on = machine(name)
        dims = {dim: rows[dim].to_numpy(float) for dim in KINDS[self.kind].dims if dim in rows}
        arithmetic = np.zeros(len(rows))
        for resource in self.op.cost:
            if resource.startswith("flop."):
                _, unit, dtype = resource.split(".")
                if unit != "matrix" and self.op.cost[f"flop.matrix.{dtype}"] != 0:
                    continue
                amount = self.op.cost[resource]
                peak = on.peak(serving_engine(on, unit, dtype), dtype)
                arithmetic = arithmetic + evaluate(sp.sympify(amount), dims) / peak
        moved = evaluate(sp.sympify(self.op.cost.bytes_moved), dims)
        return arithmetic, np.asarray(moved / on.bandwidth(on.main_memory))

    def calibrated_roofline(self, name: str, rows: pd.DataFrame, left_out: Sequence[str]) -> FloatArray:
        """The baseline of four numbers fitted to rows of every size of all machines that are not left out."""
        known = self.training[~self.training["machine"].isin(set(left_out))]
        parts = {str(source): spread_sample(part, SAMPLE) for source, part in known.groupby("machine")}
        return self.roofline(name, rows, self._four_numbers(parts))

    def four_numbers(self, sources: Sequence[str]) -> tuple[float, ...]:
        """The four numbers that suit some machines best, at such rows as are asked for."""
        seen = tuple(sorted(sources))
        if seen not in self.rooflines:
            self.rooflines[seen] = self._four_numbers({source: self.samples[source] for source in seen})
        return self.rooflines[seen]

    def _four_numbers(self, parts: Mapping[str, pd.DataFrame]) -> tuple[float, ...]:
        measured = np.concatenate([np.log(part["time"]) for part in parts.values()])
        bounds = [self._bounds(source, part) for source, part in parts.items()]
        arithmetic, traffic = (np.concatenate([bound[i] for bound in bounds]) for i in (0, 1))

        def residuals(point: FloatArray) -> FloatArray:
            return np.asarray(np.log(_overlapping(arithmetic, traffic, np.exp(point))) - measured)

        start = np.log([0.7, 0.8, max(1e-6, float(np.exp(measured.min())) / 2), 0.3])
        found = least_squares(residuals, start, loss="soft_l1", f_scale=0.1)
        return tuple(map(float, np.exp(found.x)))


def _overlapping(arithmetic: FloatArray, traffic: FloatArray, numbers: Sequence[float] | FloatArray) -> FloatArray:
    compute, memory, launch, overlap = numbers
    one, other = arithmetic / compute, traffic / memory
    return np.asarray(launch + np.maximum(one, other) + overlap * np.minimum(one, other))


def spread_sample(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    """At most `count` rows of each file that a frame was read from, at random but always the same."""
    if "file" not in rows:
        return rows.sample(min(count, len(rows)), random_state=SEED)
    import pandas as pd

    parts = [part.sample(min(count, len(part)), random_state=SEED) for _, part in rows.groupby("file", sort=True)]
    return pd.concat(parts)
