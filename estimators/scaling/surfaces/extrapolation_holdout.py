"""Points left out in the direction of the question: the farthest levels of every parameter that the target exceeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.estimators.scaling.series import counts_workers

STEPS = 3
LEAST_LEVELS = 2
NEAR_LINE = 0.05
"""Points nearer to a line than this, in log values, lie on it: rounded cells a node do."""
LEAST_KNOWN = 5
FOLDS, FEW = 3, 8


@dataclass(frozen=True)
class Direction:
    """Which parameters a target exceeds (+1), falls short of (-1), or has inside the data (0)."""

    signs: tuple[int, ...]

    @property
    def inside(self) -> bool:
        """Whether the target lies within what was measured."""
        return not any(self.signs)

    def left_out(self, x: FloatArray) -> list[Mask]:
        """Masks of the points to leave out, shape (points,), one a step.

        Inside the data every third point is left out in turn; where too few levels or points would stay, one at a time.
        """
        every = np.arange(len(x))
        single = [every == one for one in every[:: max(1, len(x) // FEW)]]
        if self.inside:
            if len(x) < LEAST_KNOWN + 2:
                return single
            order = np.lexsort(x.T)
            place = np.empty(len(x), dtype=int)
            place[order] = np.arange(len(x))
            return [place % FOLDS == fold for fold in range(FOLDS)]
        masks = self._steps(x)
        if masks:
            return masks
        # a sparse design: one parameter at a time, where leaving out both would leave too little
        alone = [Direction(tuple(s if k == i else 0 for k, s in enumerate(self.signs))) for i in range(len(self.signs))]
        return [mask for one in alone if not one.inside for mask in one._steps(x)[:1]] or single

    def _steps(self, x: FloatArray) -> list[Mask]:
        masks: list[Mask] = []
        for step in range(1, STEPS + 1):
            known = np.ones(len(x), dtype=bool)
            for column, sign in enumerate(self.signs):
                levels = np.unique(x[:, column])
                if sign and len(levels) - step < LEAST_LEVELS:
                    return masks
                if sign:
                    known &= x[:, column] <= levels[-1 - step] if sign > 0 else x[:, column] >= levels[step]
            if known.sum() < LEAST_KNOWN:
                return masks
            masks.append(~known)
        return masks


def directions(x: FloatArray, to: FloatArray) -> list[Direction]:
    """The direction of each target, shape (targets, parameters), beyond the box of the points, shape (points,
    parameters).
    """
    above, below = to > x.max(axis=0) * (1 + 1e-9), to < x.min(axis=0) * (1 - 1e-9)
    signs = above.astype(int) - below.astype(int)
    return [Direction(tuple(some)) for some in signs.tolist()]


def distances(x: FloatArray, to: FloatArray) -> FloatArray:
    """How far targets lie outside the box of the points: the product of the ratios over the parameters, >= 1."""
    return np.asarray(np.prod(np.maximum(np.maximum(to / x.max(axis=0), x.min(axis=0) / to), 1.0), axis=1))


@dataclass(frozen=True, eq=False)
class DesignLine:
    """The line that points lie on where all parameters grow together, in log values.

    `column`: the parameter that stands for all: the first that counts workers, or else the one with the largest range.
    `slopes`, `begins`: ln of each parameter as a line of ln of that one, shape (parameters,).
    """

    column: int
    slopes: FloatArray
    begins: FloatArray

    def off(self, to: FloatArray) -> FloatArray:
        """How far targets leave the line, the sum over parameters in log values, shape (targets,)."""
        logs = np.log(to)
        return np.asarray(np.abs(logs - self.begins - self.slopes * logs[:, [self.column]]).sum(axis=1))


def line_of(x: FloatArray, names: Sequence[str]) -> DesignLine | None:
    """The line that several parameters of points, shape (points, parameters), share; None where they do not.

    Then a power of one more and a power of the other less fits the points as well.
    """
    logs = np.log(x)
    middle = logs.mean(axis=0)
    away = logs - middle
    workers = [i for i, name in enumerate(names) if counts_workers(name)]
    column = workers[0] if workers else int(np.argmax(np.abs(away).max(axis=0)))
    if x.shape[1] < 2 or not away[:, column].any():
        return None
    slopes = away.T @ away[:, column] / (away[:, column] @ away[:, column])
    line = DesignLine(column, slopes, middle - slopes * middle[column])
    together = float(np.abs(away - slopes * away[:, [column]]).max()) <= NEAR_LINE and bool((slopes != 0.0).all())
    return line if together else None
