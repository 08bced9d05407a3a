"""How many users a server holds within limits of their times: the quantities `kept` and `users` of a server's answer.

A load is held where nine of ten requests keep every limit, the attainment that DistServe counts by (Zhong et al., OSDI
2024, section 6.1). The closed loop is simulated at growing numbers of users, then between the last that holds and the
first that does not; the ends of the band are the numbers at the edges of the steps' own band.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from slipstick.common.errors import InputError
from slipstick.common.records import Table
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.serving_answer import Serving, serve
from slipstick.workloads.runs.traffic import Traffic

LIMITS = Table(ttft_limit="ttft", tpot_limit="tpot", latency_limit="latency")
"""Numbers of the run [s], and the times that they limit."""
ATTAINED = 0.9
MOST_USERS = 1024
"""Beyond it nothing is simulated."""
FINE = 1.05
"""Numbers of users closer than this factor count as one."""


def limits_of(run: Mapping[str, float]) -> Table[float]:
    """Seconds by measure, of the numbers of a run that are limits.

    Raises InputError where a limit is no time above 0.
    """
    for name in LIMITS:
        if name in run and not run[name] > 0:
            raise InputError(f"run.{name} = {run[name]:g} s: want a time above 0")
    return Table({measure: float(run[name]) for name, measure in LIMITS.items() if name in run})


def kept(run: Serving) -> Quantity:
    """The share of requests that keep the limits of a run."""
    ends = (run.slow.meeting(run.limits), run.served.meeting(run.limits), run.fast.meeting(run.limits))
    return Quantity("kept", ends[1], "1", min(ends), max(ends), "more", "share of requests that keep the limits")


def most_users(deployment: Deployment, traffic: Traffic, limits: Mapping[str, float]) -> Quantity:
    """The largest number of users at which the limits are kept, between the numbers at the edges of the band.

    Each number of users sends as many requests as it takes to settle, whatever `count` the traffic has.

    `limits`: seconds by measure (ttft, tpot, latency).
    Raises InputError where one user alone does not keep them, or nothing is limited.
    """
    if not limits:
        raise InputError(f"how many users keep no limit? give one: {', '.join(f'run.{name}' for name in LIMITS)}")
    shares: dict[int, tuple[float, float, float]] = {}

    def at(users: int) -> tuple[float, float, float]:
        if users not in shares:
            run = serve(deployment, replace(traffic, users=users, rate=None, count=None), limits)
            shares[users] = (run.slow.meeting(limits), run.served.meeting(limits), run.fast.meeting(limits))
        return shares[users]

    if at(1)[1] < ATTAINED:
        raise InputError(f"one user alone keeps the limits in {at(1)[1]:.0%} of requests: want {ATTAINED:.0%}")

    def last(edge: int) -> float:
        return _last(lambda users: at(users)[edge] >= ATTAINED)

    low, value, high = last(0), last(1), last(2)
    return Quantity("users", value, "users", min(low, value), max(high, value), "more", "most that keep the limits")


def _last(holds: Callable[[int], bool]) -> float:
    """The last number of users at which something holds; 0 where it does at none, `MOST_USERS` where at all."""
    users = 1
    if not holds(users):
        return 0.0
    while users < MOST_USERS and holds(2 * users):
        users *= 2
    if users >= MOST_USERS:
        return float(MOST_USERS)
    above = 2 * users
    while above - users > 1 and above > FINE * users:
        middle = (users + above) // 2
        users, above = (middle, above) if holds(middle) else (users, middle)
    return float(users)
