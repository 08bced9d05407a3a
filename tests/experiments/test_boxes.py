"""Stretches of a grid as boxes: together they are its points, in order."""

from __future__ import annotations

import numpy as np
import pytest

from slipstick.common.records import FrozenDict
from slipstick.experiments.question.space import Space


@pytest.mark.parametrize("lengths", [(40, 3), (3, 40), (2, 5, 7), (9, 1, 4)])
@pytest.mark.parametrize(("start", "stop"), [(0, 36), (5, 12), (1, 33), (17, 36)])
def test_boxes_hold_the_points_in_order(lengths: tuple[int, ...], start: int, stop: int) -> None:
    generator = np.random.default_rng(0)
    space = Space(axes=FrozenDict({f"a{i}": tuple(generator.uniform(1, 2, n)) for i, n in enumerate(lengths)}))
    points, boxes = space.points(start, stop), space.boxes(start, stop)
    assert boxes is not None
    for name in space.names:
        parts = [np.broadcast_arrays(*arrays.values())[list(arrays).index(name)].ravel() for arrays, _ in boxes]
        found = np.concatenate([part[some] for part, (_, some) in zip(parts, boxes, strict=True)])
        assert np.array_equal(found, points[name])


def test_what_is_no_grid_has_no_boxes() -> None:
    assert Space(axes=FrozenDict(a=(1.0, 2.0))).boxes(0, 2) is None
    assert Space(axes=FrozenDict(a=(1.0, 2.0), b=(1.0, 2.0)), where=("a <= b",)).boxes(0, 2) is None
