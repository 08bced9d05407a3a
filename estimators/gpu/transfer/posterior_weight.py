"""How far rows measured on a new machine move the parameters that others have: only as far as they predict each other
better than the sources do. They are a function of its log parameters, ``mean + roots z`` with z normal.

Each row is left out in turn and predicted by others. A class of operations goes from the sources' parameters towards
the most likely ones by the share that makes this error least, and not at all where the error does not fall: then the
sources' answer stands, and the rows that disagree are named. What anchors say holds for operations about as long as
they are; beyond the range of their times it weighs less, since a launch overhead that explains a row of a millisecond
is no launch overhead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.formatting import ratio_shown
from slipstick.estimators.fitting.user_rows import UserRows, left_out_errors
from slipstick.estimators.gpu.transfer.anchor_constants import (
    CAPPED,
    FALLS,
    LEAST_NOISE,
    NOISE,
    OTHER_FALLS,
    SHARES,
    STACKS,
)
from slipstick.estimators.gpu.transfer.kernel_class import MODEL, PREFIX
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times
from slipstick.estimators.gpu.transfer.parameter_priors import ParameterPosterior
from slipstick.estimators.gpu.transfer.residual_by_shape import distance_weight

FEW, REPEATED = 3, 0.03
"""Fewer rows cannot be held against each other, and count as the sources' own; no time is known better."""
STEP = 1e-3
"""Of a log parameter, for derivatives."""


@dataclass(frozen=True, eq=False)
class LinearisedRows(UserRows):
    """Measured rows of one machine as a function of the coordinates z of its parameters.

    `belief`: log parameters are ``belief.mean + belief.roots @ z``.
    `forms`: the measured rows, by class.
    `factors`: logarithm of what each row takes besides its parameters, shape (rows,).
    """

    belief: ParameterPosterior
    forms: tuple[tuple[str, RowFormula], ...]
    factors: FloatArray

    @classmethod
    def of(cls, belief: ParameterPosterior, anchors: Sequence[OperationTimes], factors: FloatArray) -> LinearisedRows:
        """From rows of classes that the belief knows, with the scatter of the sources' fits."""
        forms = tuple((form.name, RowFormula.of(MODEL, [form])) for form in anchors)
        scale, least = (NOISE, LEAST_NOISE) if sum(map(len, anchors)) >= FEW else (1.0, REPEATED)
        noise = np.concatenate([np.full(len(f), max(scale * belief.noise[f.name], least)) for f in anchors])
        return cls(np.log(joined_times(anchors)), noise, belief, forms, factors)

    def on_another_stack(self) -> LinearisedRows:
        """With directions of a software stack that is no relative's, one for each parameter of `STACKS`."""
        spreads = np.diag([STACKS.get(parameter, 0.0) for _, parameter in self.belief.names])
        roots = np.concatenate([self.belief.roots, spreads[:, spreads.any(axis=0)]], axis=1)
        return replace(self, belief=replace(self.belief, roots=roots))

    @property
    def size(self) -> int:
        """See `UserRows.size`."""
        return int(self.belief.roots.shape[1])

    def at(self, coordinates: FloatArray) -> FloatArray:
        """Log seconds of the rows, factors included, shape (rows,)."""
        return np.asarray(self._times((self.belief.mean + self.belief.roots @ coordinates)[None])[0])

    def linear(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log seconds, and their derivatives by the coordinates."""
        point = self.belief.mean + self.belief.roots @ coordinates
        moved = point + np.concatenate([np.zeros((1, len(point))), STEP * np.eye(len(point))])
        times = self._times(moved)
        return times[0], ((times[1:] - times[0]) / STEP).T @ self.belief.roots

    def _times(self, points: FloatArray) -> FloatArray:
        """Log seconds of the rows at several log parameters, shape (points, rows)."""
        columns = np.exp(points)[..., None]
        parts = []
        for name, formula in self.forms:
            values = {f"{PREFIX}{p}": columns[:, i] for i, (owner, p) in enumerate(self.belief.names) if owner == name}
            parts.append(formula.evaluate(values))
        return np.asarray(np.log(np.concatenate(parts, axis=-1)) + self.factors)


FOLDS = 24
"""Rows beyond are left out together."""
ODD = 1.6
"""A row that the other anchors miss by this factor is named."""


@dataclass(frozen=True, eq=False)
class PosteriorWeight:
    """What anchors change.

    `belief`: with the anchors, as far as they are believed.
    `shares`: by class: how far towards what the anchors say.
    `errors`: by class: log(measured / predicted) of its anchors, each by the other anchors.
    `range`: by class: least and largest log seconds that the sources say of its anchors; of all anchors for other
        classes.
    `doubts`: in words: rows that disagree with the others.
    """

    belief: ParameterPosterior
    shares: Mapping[str, float]
    errors: Mapping[str, FloatArray]
    range: Mapping[str, tuple[float, float]]
    doubts: tuple[str, ...] = ()


def accepted(before: ParameterPosterior, anchors: Sequence[OperationTimes], factors: FloatArray) -> PosteriorWeight:
    """What a few rows measured on the machine change in what is known of it.

    `anchors`: of classes that the belief knows, at least one row.
    `factors`: logarithm of what each row takes besides its parameters, shape (rows,).
    """
    linear = LinearisedRows.of(before, anchors, factors)
    names = np.concatenate([np.full(len(form), form.name) for form in anchors])
    predicted = linear.at(np.zeros(linear.size))
    chosen = _tried(linear, predicted)
    other = _tried(linear.on_another_stack(), predicted)
    if len(predicted) < FEW or other.least < OTHER_FALLS * chosen.least:
        chosen = other
    shares, errors, ranges = {}, {}, {}
    for name in before.noise:
        of_class = names == name if (names == name).any() else np.ones(len(predicted), bool)
        shares[name], error = _share(chosen.left_out[:, of_class])
        ranges[name] = float(predicted[of_class].min()), float(predicted[of_class].max())
        if (names == name).any():
            errors[name] = error
    doubts = []
    for row, (name, words) in enumerate(_rows(anchors)):
        factor = float(np.exp(errors[name][int((names[:row] == name).sum())]))
        if max(factor, 1 / factor) > ODD:
            doubts.append(f"{name} {words} took {ratio_shown(factor)} x what the other anchors and machines say")
    belief = _moved(before, chosen, shares, {name: int((names == name).sum()) for name in before.noise})
    return PosteriorWeight(belief, shares, errors, ranges, tuple(doubts))


@dataclass(frozen=True, eq=False)
class _Tried:
    """The most likely coordinates of a model, and how well its rows predict each other.

    `left_out`: log(measured / predicted) of each row by the others at every share, shape (shares, rows).
    """

    model: LinearisedRows
    best: FloatArray
    left_out: FloatArray

    @property
    def least(self) -> float:
        """The mean error of the best share."""
        return float(_capped(self.left_out).min())


def _tried(model: LinearisedRows, predicted: FloatArray) -> _Tried:
    best = model.likeliest(np.ones(len(predicted), bool))
    return _Tried(model, best, _left_out(model, best, predicted))


def _capped(errors: FloatArray) -> FloatArray:
    """Mean of what counts of log errors, shape (shares,)."""
    return np.asarray(np.minimum(np.abs(errors), CAPPED).mean(axis=1))


def _left_out(model: LinearisedRows, best: FloatArray, predicted: FloatArray) -> FloatArray:
    """Log(measured / predicted) of each row by the others at every share, shape (shares, rows)."""
    return left_out_errors(
        model,
        best,
        SHARES,
        lambda out: distance_weight(predicted[out], predicted[~out].min(), predicted[~out].max()),
        FOLDS,
    )


def _share(errors: FloatArray) -> tuple[float, FloatArray]:
    """The share of the least left-out error, and the errors there."""
    mean = _capped(errors)
    best = int(np.argmin(mean)) if errors.shape[1] >= FEW else len(SHARES) - 1
    place = best if mean[best] < FALLS * mean[0] or errors.shape[1] < FEW else 0
    return SHARES[place], errors[place]


def _moved(
    before: ParameterPosterior, chosen: _Tried, shares: Mapping[str, float], counts: Mapping[str, int]
) -> ParameterPosterior:
    """Every class's parameters moved by its share, known better as far as they are moved."""
    each = np.array([shares[name] for name, _ in before.names])
    if not each.any():
        return replace(before, notes=_notes(before, shares, counts))
    size, axes = np.linalg.eigh(chosen.model.left(chosen.best))
    known = chosen.model.belief.roots @ (axes * np.sqrt(np.maximum(size, 0.0)))
    roots = np.sqrt(1 - each)[:, None] * before.roots, np.sqrt(each)[:, None] * known
    return replace(
        before,
        mean=before.mean + each * (chosen.model.belief.roots @ chosen.best),
        roots=np.concatenate(roots, axis=1),
        notes=_notes(before, shares, counts),
    )


def _notes(before: ParameterPosterior, shares: Mapping[str, float], counts: Mapping[str, int]) -> dict[str, str]:
    notes = {}
    for name, text in before.notes.items():
        count = counts[name]
        if count and shares[name]:
            text += f" and {count} anchors"
        elif count:
            text += f" ({count} anchors do not predict each other better: not used)"
        notes[name] = text
    return notes


def _rows(anchors: Sequence[OperationTimes]) -> list[tuple[str, str]]:
    """Class and dims of every row in words."""
    rows = []
    for form in anchors:
        for row in range(len(form)):
            dims = ", ".join(f"{dim} = {float(form.column(dim)[row]):g}" for dim in form.op.dims)
            rows.append((form.name, f"{dims} ({form.source})" if form.source else dims))
    return rows
