"""Rows measured on a new machine as a function of its log parameters, ``mean + roots z`` with z normal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.fitting.user_rows import UserRows
from slipstick.estimators.gpu.transfer.anchor_constants import LEAST_NOISE, NOISE
from slipstick.estimators.gpu.transfer.kernel_class import MODEL, PREFIX
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times
from slipstick.estimators.symbolic.lambdified import FloatArray

FEW, REPEATED = 3, 0.03
"""Fewer rows cannot be held against each other, and count as the sources' own; no time is known better."""
STEP = 1e-3
"""Of a log parameter, for derivatives."""


@dataclass(frozen=True, eq=False)
class LinearisedRows(UserRows):
    """Measured rows of one machine as a function of the coordinates z of its parameters.

    `names`: class and parameter of each entry.
    `mean`, `roots`: log parameters are normal around `mean`, with covariance ``roots @ roots.T``.
    `forms`: the measured rows, by class.
    `factors`: logarithm of what each row takes besides its parameters, shape (rows,).
    """

    names: tuple[tuple[str, str], ...]
    mean: FloatArray
    roots: FloatArray
    forms: tuple[tuple[str, RowFormula], ...]
    factors: FloatArray

    @classmethod
    def of(
        cls,
        names: tuple[tuple[str, str], ...],
        mean: FloatArray,
        roots: FloatArray,
        scatter: Mapping[str, float],
        anchors: Sequence[OperationTimes],
        factors: FloatArray,
    ) -> LinearisedRows:
        """From rows of classes that `scatter` (the median-like scatter of the sources' fits) knows."""
        forms = tuple((form.name, RowFormula.of(MODEL, [form])) for form in anchors)
        scale, least = (NOISE, LEAST_NOISE) if sum(map(len, anchors)) >= FEW else (1.0, REPEATED)
        noise = np.concatenate([np.full(len(f), max(scale * scatter[f.name], least)) for f in anchors])
        return cls(np.log(joined_times(anchors)), noise, names, mean, roots, forms, factors)

    @property
    def size(self) -> int:
        """See `UserRows.size`."""
        return int(self.roots.shape[1])

    def at(self, coordinates: FloatArray) -> FloatArray:
        """Log seconds of the rows, factors included, shape (rows,)."""
        return np.asarray(self._times((self.mean + self.roots @ coordinates)[None])[0])

    def linear(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log seconds, and their derivatives by the coordinates."""
        point = self.mean + self.roots @ coordinates
        moved = point + np.concatenate([np.zeros((1, len(point))), STEP * np.eye(len(point))])
        times = self._times(moved)
        return times[0], ((times[1:] - times[0]) / STEP).T @ self.roots

    def _times(self, points: FloatArray) -> FloatArray:
        """Log seconds of the rows at several log parameters, shape (points, rows)."""
        columns = np.exp(points)[..., None]
        parts = []
        for name, formula in self.forms:
            values = {f"{PREFIX}{p}": columns[:, i] for i, (owner, p) in enumerate(self.names) if owner == name}
            parts.append(formula.evaluate(values))
        return np.asarray(np.log(np.concatenate(parts, axis=-1)) + self.factors)
