"""Boosted regression trees as plain arrays: fitted by scikit-learn, kept without pickle, evaluated by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError

FloatArray = npt.NDArray[np.float64]
ROWS_AT_ONCE = 128
"""So that what all trees know of them stays in a core's second cache."""


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """start + rate x sum of trees; node 0 is a tree's root, a leaf has left = -1.

    `features`: names of the columns that the trees ask.
    `feature`, `threshold`, `left`, `right`, `value`: one row a tree, padded to the widest, shape (trees, nodes).
    `start`, `rate`: the constant before the first tree, and the step of each.
    """

    features: tuple[str, ...]
    feature: npt.NDArray[np.int16]
    threshold: npt.NDArray[np.float32]
    left: npt.NDArray[np.int16]
    right: npt.NDArray[np.int16]
    value: npt.NDArray[np.float32]
    start: float
    rate: float

    def __post_init__(self) -> None:
        shape = self.feature.shape
        arrays = (self.threshold, self.left, self.right, self.value)
        if len(shape) != 2 or any(array.shape != shape for array in arrays):
            raise InputError("boosted trees: the arrays of nodes differ in shape")
        inner = self.left >= 0
        if not (
            ((self.left >= -1) & (self.left < shape[1])).all()
            and ((self.right >= -1) & (self.right < shape[1])).all()
            and (self.feature[inner] >= 0).all()
            and (self.feature[inner] < len(self.features)).all()
            and (self.left[inner] > np.nonzero(inner)[1]).all()
            and (self.right[inner] > np.nonzero(inner)[1]).all()
        ):
            raise InputError("boosted trees: a node points outside its tree, backwards, or at an unknown feature")

    def predict(self, names: Sequence[str], values: npt.NDArray[np.float32]) -> FloatArray:
        """The sum of the trees for every row of `values`, whose columns are `names`.

        Raises InputError where a feature is not among the columns.
        """
        missing = [name for name in self.features if name not in names]
        if missing:
            raise InputError(f"boosted trees: no column {', '.join(missing[:5])}")
        rows = np.ascontiguousarray(values[:, [list(names).index(name) for name in self.features]], dtype=np.float32)
        trees, width = self.feature.shape
        roots = np.arange(trees) * width
        # every tree in one flat list of nodes; a leaf is its own child, so all go down the same number of steps
        numbers, inner = np.arange(width), self.left >= 0
        children = np.stack([np.where(inner, side, numbers) for side in (self.left, self.right)], axis=-1)
        children = (children + roots[:, None, None]).ravel()
        feature, threshold, value = self.feature.ravel().astype(np.intp), self.threshold.ravel(), self.value.ravel()
        total = np.empty(len(rows))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            chunk = rows[start : start + ROWS_AT_ONCE]
            entries, first = chunk.ravel(), (np.arange(len(chunk)) * len(self.features))[:, None]
            node, last = np.broadcast_to(roots, (len(chunk), trees)), None
            while last is None or not np.array_equal(node, last):
                below = entries[first + feature[node]] <= threshold[node]
                node, last = children[2 * node + ~below], node
            total[start : start + len(chunk)] = value[node].sum(axis=1, dtype=np.float64)
        return np.asarray(self.start + self.rate * total)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """For `numpy.savez`."""
        return {
            "features": np.array(self.features),
            "feature": self.feature,
            "threshold": self.threshold,
            "left": self.left,
            "right": self.right,
            "value": self.value,
            "start_and_rate": np.array([self.start, self.rate]),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[np.generic]]) -> BoostedTrees:
        """From what `arrays` gave."""
        start, rate = (float(number) for number in np.asarray(arrays["start_and_rate"], dtype=np.float64))
        return cls(
            tuple(str(name) for name in arrays["features"]),
            arrays["feature"].astype(np.int16),
            arrays["threshold"].astype(np.float32),
            arrays["left"].astype(np.int16),
            arrays["right"].astype(np.int16),
            arrays["value"].astype(np.float32),
            start,
            rate,
        )


def fit_boosted(
    names: Sequence[str],
    values: npt.NDArray[np.float32],
    target: npt.ArrayLike,
    *,
    trees: int = 120,
    depth: int = 5,
    rate: float = 0.1,
    seed: int = 0,
) -> BoostedTrees:
    """Gradient boosting of squared errors (stochastic: half the rows and a third of the features a tree)."""
    from sklearn.ensemble import GradientBoostingRegressor

    fitted = GradientBoostingRegressor(
        n_estimators=trees,
        max_depth=depth,
        learning_rate=rate,
        subsample=0.5,
        max_features=0.3,
        min_samples_leaf=20,
        random_state=seed,
    ).fit(values, np.asarray(target, dtype=np.float64))
    each = [stage[0].tree_ for stage in fitted.estimators_]
    widest = max(tree.node_count for tree in each)

    def padded(attribute: str, dtype: type, fill: float) -> npt.NDArray[np.generic]:
        table = np.full((len(each), widest), fill, dtype=dtype)
        for number, tree in enumerate(each):
            table[number, : tree.node_count] = np.asarray(getattr(tree, attribute)).reshape(tree.node_count, -1)[:, 0]
        return table

    return BoostedTrees(
        tuple(names),
        np.maximum(padded("feature", np.int16, 0).astype(np.int16), 0),
        padded("threshold", np.float32, 0).astype(np.float32),
        padded("children_left", np.int16, -1).astype(np.int16),
        padded("children_right", np.int16, -1).astype(np.int16),
        padded("value", np.float32, 0).astype(np.float32),
        float(np.mean(np.asarray(target, dtype=np.float64))),
        rate,
    )
