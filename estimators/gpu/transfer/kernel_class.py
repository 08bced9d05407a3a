"""One class of operations on the machines that were measured: each one's own fit, and what the fit leaves over."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from slipstick.common.records import FrozenDict
from slipstick.estimators.gpu.kernels.kernel_classes import KERNELS
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.transfer.family_pooling import MachineFit, Prior, priors_of
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times, thinned
from slipstick.estimators.gpu.transfer.pooling_constants import CUT, NEIGHBOURS, REACH
from slipstick.estimators.gpu.transfer.transfer_bands import Scatter
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.workloads.graph.workload import Op

PREFIX = "parameter.kernels.default."
MODEL = TiledRoofline(FrozenDict({"default": KERNELS["default"]}))
"""One class at a time: whatever it is, its parameters are the default's."""
SAMPLED = 300
"""Rows of a machine at which is learned how far others predict it."""


@dataclass(frozen=True, eq=False)
class KernelClass:
    """The fitted machines of one class of operations ("gemm.float32").

    `rows`: by machine: measured rows, at whose shapes the fit's residual is known.
    `typical`: sources whose rows resemble the target's; all where empty.
    `scatters`: where no rows are kept: the scatter of a machine whose closest relative shares 0, 1, 2, 3 words of the
        family.
    """

    name: str
    fits: tuple[MachineFit, ...]
    rows: Mapping[str, tuple[OperationTimes, ...]] = field(default_factory=dict)
    typical: frozenset[str] = frozenset()
    scatters: tuple[Scatter, ...] = ()

    @property
    def priors(self) -> Mapping[str, Prior]:
        """What is known of the class's parameters before anything was measured."""
        return priors_of(self.name)

    def of(self, machine: str) -> MachineFit | None:
        """A machine's own fit."""
        return next((fit for fit in self.fits if fit.machine == machine), None)

    @cached_property
    def sampled(self) -> dict[str, list[OperationTimes]]:
        """By machine: rows that resemble the target's."""
        chosen = {}
        for machine, forms in self.rows.items():
            alike = [form for form in forms if form.source in self.typical]
            chosen[machine] = thinned(alike or forms, SAMPLED)
        return chosen

    def residual(self, machine: str, kind: Hashable, places: FloatArray, skip: int = 0) -> FloatArray:
        """Mean log(measured / own fit) of a machine at the shapes nearest to places; 0 where it has none of the kind.

        `kind`: of operations whose shapes can be compared (`kind_of`).
        `places`: binary logarithms of dims, shape (rows, dims).
        `skip`: how many of the nearest do not count: 1 leaves out the rows themselves.
        """
        tree, residuals = self._trees.get((machine, kind), (None, np.zeros(0)))
        count = min(NEIGHBOURS + skip, len(residuals))
        if count <= skip:
            return np.zeros(len(places))
        distance, index = tree.query(places, k=np.arange(1 + skip, count + 1))
        closeness = 1 / (distance**2 + REACH**2)
        return np.asarray((residuals[index] * closeness).sum(axis=1) / closeness.sum(axis=1))

    @cached_property
    def _trees(self) -> dict[tuple[str, Hashable], tuple[Any, FloatArray]]:
        """By machine and kind: the shapes, and the residuals there."""
        from scipy.spatial import cKDTree

        groups: dict[tuple[str, Hashable], list[OperationTimes]] = {}
        for machine, forms in self.rows.items():
            for form in forms:
                groups.setdefault((machine, kind_of(form.op)), []).append(form)
        trees = {}
        for (machine, kind), alike in groups.items():
            fit = self.of(machine)
            if fit is not None:
                left = np.log(joined_times(alike) / times(alike, fit.values))
                tree = cKDTree(np.concatenate([form.place() for form in alike]))
                trees[machine, kind] = tree, np.clip(left, -CUT, CUT)
        return trees


def kind_of(op: Op) -> Hashable:
    """What operations have in common whose shapes can be compared: kind, dtype, and what decides the kernel."""
    attributes = {"pass": "forward", "transposed": False, "causal": False, "kv_dtype": op.dtype, "stride": 1}
    facts = {name: op.attributes.get(name, usual) for name, usual in attributes.items()}
    stride = facts["stride"]
    if isinstance(stride, tuple) and len(set(stride)) == 1:
        facts["stride"] = stride[0]
    return op.kind, op.dtype, *facts.values()


def times(forms: Sequence[OperationTimes], values: Mapping[str, float]) -> FloatArray:
    """Seconds of rows on their machine with given parameters."""
    formula = RowFormula.of(MODEL, forms)
    return formula.evaluate({f"{PREFIX}{name}": value for name, value in values.items()})
