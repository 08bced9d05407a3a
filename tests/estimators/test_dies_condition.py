"""A link between dies is a condition: what crosses it nobody says, and the band is wider by what that may change."""

from __future__ import annotations

import math

import pytest

import slipstick as ss
from slipstick.estimators.base.estimate import Estimate

TWO = {"machine.dies.count": 2}


def _asked(workload: str, bandwidth: str | None, local: float | None = None) -> Estimate:
    settings = {**TWO, "machine.dies.bandwidth": bandwidth} if bandwidth else dict(TWO)
    return ss.estimate(
        workload, "b200-sxm", settings=settings | ({"machine.dies.local": local} if local is not None else {})
    )


def _width(answer: Estimate) -> float:
    low, high = answer.interval() or (math.nan, math.nan)
    return math.log(high / low)


@pytest.mark.parametrize("bandwidth", ["0.1 TB/s", "1 TB/s"])
def test_a_link_that_bounds_widens_and_is_named(bandwidth: str) -> None:
    known, wide, free = (_asked("daxpy", *link) for link in ((bandwidth, 0.5), (bandwidth,), ("100 TB/s",)))
    assert known.time == pytest.approx(wide.time)  # half of the traffic is what interleaving over two dies makes
    assert [any(one.name == "machine.dies" for one in answer.conditions) for answer in (known, wide, free)] == [
        False, True, False,
    ]  # fmt: skip
    assert _width(wide) > _width(known)
    high = [(answer.interval() or (0.0, 0.0))[1] / answer.time for answer in (known, wide)]
    assert high[0] < high[1] < high[0] * 2 * 1.05


def test_no_link_no_condition() -> None:
    assert not any(one.name == "machine.dies" for one in _asked("daxpy", None).conditions)
