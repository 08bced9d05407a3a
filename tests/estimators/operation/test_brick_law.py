"""Networks of known layers, timed as sequences at a known cost: the law finds cost and layers again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.experiments.scoreboards.dlbricks.dlbricks_board import (
    TimedSequences,
    call_seconds,
    carried,
    composed,
    repaired,
)


def timed(layers: np.ndarray, call: float, sizes: tuple[int, ...] = (1, 2, 3, 5)) -> TimedSequences:
    """Every sequence takes its layers' time and a call."""
    cut = [(size, first) for size in sizes for first in range(0, len(layers), size)]
    sizes_of, first = (np.array(values, dtype=np.intp) for values in zip(*cut, strict=True))
    ends = np.minimum(first + sizes_of, len(layers))
    seconds = [layers[a:b].sum() + call for a, b in zip(first, ends, strict=True)]
    return TimedSequences(sizes_of, first, ends - first, np.array(seconds))


def networks(seed: int, call: float) -> list[tuple[np.ndarray, TimedSequences]]:
    draw = np.random.default_rng(seed)
    layers = [draw.lognormal(-7, 1, size=draw.integers(7, 40)) for _ in range(6)]
    return [(each, timed(each, call)) for each in layers]


@given(st.integers(0, 1000), st.sampled_from([-1e-5, 0.0, 2e-5, 2e-4]))
def test_what_a_sequence_costs_and_what_its_layers_take_are_told_apart(seed: int, call: float) -> None:
    known = networks(seed, call)
    found = call_seconds([each for _, each in known])
    assert found == pytest.approx(call, abs=1e-9)
    for layers, each in known:
        answer = composed(each, found)
        assert answer.seconds == pytest.approx(layers.sum(), rel=0.02)
        assert answer.error < 1e-3


def test_a_sequence_that_was_timed_in_a_slow_spell_counts_at_its_own_layers_only() -> None:
    layers = np.full(30, 1e-3)
    quiet = timed(layers, 0.0)
    for place in (3, 31, 40, 47):
        seconds = quiet.seconds.copy()
        seconds[place] *= 4
        slow = TimedSequences(quiet.granularity, quiet.first, quiet.layers, seconds)
        if quiet.granularity[place] > 1:
            assert composed(slow, 0.0).seconds == pytest.approx(0.03)
        assert composed(slow, 0.0).seconds < 0.0325


def test_without_single_layers_the_median_of_the_sums_answers() -> None:
    known = timed(np.full(12, 1e-3), 0.0, sizes=(2, 3, 4))
    assert composed(known, 0.0).seconds == pytest.approx(0.012)


def test_a_sequence_that_failed_gets_the_time_that_other_machines_predict() -> None:
    """The case of c5.large: 22 microseconds for a convolution of 0.7 s elsewhere, in a network 1.3 times slower."""
    elsewhere = np.array([0.1, 0.2, 0.66, 0.05])
    mine = np.array([0.13, 0.26, 22e-6, np.nan])
    fixed = repaired(mine, elsewhere, ["depth"] * 4)
    np.testing.assert_allclose(fixed[:3], [0.13, 0.26, 0.66 * 1.3])
    assert np.isnan(fixed[3])
    slow = np.array([0.13, 0.26, 3.0, 0.01])
    np.testing.assert_array_equal(repaired(slow, elsewhere, ["depth"] * 4), slow)


def test_residuals_are_carried_where_machines_agree_and_not_where_they_do_not() -> None:
    assert carried(np.array([0.13, 0.135, 0.13]), 0.02) == pytest.approx(0.131, abs=0.003)
    assert carried(np.array([0.07, -0.21, 0.01]), 0.02) == 0.0
    assert carried(np.array([0.005, -0.002, 0.01]), 0.02) == 0.0
    assert carried(np.array([]), 0.02) == 0.0
