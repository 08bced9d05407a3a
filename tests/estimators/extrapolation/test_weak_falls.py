"""Weak scaling whose times fall: an error of the measurements, for constant work of each worker lets nothing fall."""

from __future__ import annotations

import numpy as np
import pytest

import slipstick as ss
from slipstick.estimators.scaling.extrapolate import fall_of

NODES = (1, 2, 4, 8, 16)


def _series(times: tuple[float, ...]) -> ss.Series:
    return ss.Series(NODES, times, (1,) * len(times), parameter="nodes")


@pytest.mark.parametrize("steep", [0.05, 0.1, 0.2])
def test_a_band_holds_times_that_do_not_fall(steep: float) -> None:
    """Times that fall by a power of the nodes: the mean of what was measured lies inside, and nothing is trusted."""
    times = tuple(100.0 * nodes**-steep for nodes in NODES)
    answer = ss.laws.extrapolate_many([_series(times)], [128], kind="weak")[0]
    assert answer.high is not None and answer.high[0] > float(np.exp(np.mean(np.log(times))))
    assert (answer.verdicts[0].word == "trust") == (steep < 0.1)
    if steep > 0.1:
        assert "times fall" in answer.verdicts[0].reason


@pytest.mark.parametrize("times", [(100.0,) * 5, (100.0, 103.0, 106.0, 109.0, 112.0)])
def test_times_that_do_not_fall_are_no_less_sure(times: tuple[float, ...]) -> None:
    assert fall_of(_series(times)) == 0
    answer = ss.laws.extrapolate_many([_series(times)], [32], kind="weak")[0]
    assert "times fall" not in answer.verdicts[0].reason


def test_per_cent_are_written_one_way() -> None:
    answer = ss.laws.extrapolate_many([_series((100.0, 52.0, 28.0, 16.0, 10.0))], [32], kind="strong")[0]
    assert " %" in answer.composition and "%" not in answer.composition.replace(" %", "")
