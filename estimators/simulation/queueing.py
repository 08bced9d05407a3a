"""Queues in closed form: what a simulation must meet where such a form exists.

Sources: L. Kleinrock, Queueing Systems I, 1975, chapters 3 and 5 (M/M/c: Erlang's C formula; M/G/1:
Pollaczek-Khinchine); J. P. Buzen, Computational algorithms for closed queueing networks with exponential servers, CACM
16(9), 1973; J. T. Daly, A higher order estimate of the optimum checkpoint interval, FGCS 22, 2006 (equation 3 with a
restart that cannot fail itself).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError


@dataclass(frozen=True)
class StationVisit:
    """A station of a closed network: mean seconds of a visit; None servers where nobody waits (threads that think)."""

    service: float
    servers: int | None = 1


@dataclass(frozen=True)
class ClosedAnswer:
    """Rounds a second, and seconds of a visit at each station, waiting included."""

    rate: float
    seconds: tuple[float, ...]


def closed_network(visits: Sequence[StationVisit], population: int) -> ClosedAnswer:
    """Exact rate and times of a closed network that every customer goes round station by station.

    By Buzen's convolution, in logarithms: it gives what mean-value analysis gives, and stays stable where stations have
    many servers. Exact where services are exponential; stations without a queue may have any service.

    Raises
    ------
    InputError
        Where there is no customer or no station, or no visit takes any time.

    Examples
    --------
    >>> import slipstick as ss
    >>> answer = ss.runs.closed_network([ss.runs.StationVisit(1.0), ss.runs.StationVisit(1.0)], population=2)
    >>> round(answer.rate, 6)  # n / (n + 1) of two equal stations
    0.666667
    """
    if population < 1 or not any(visit.service > 0 for visit in visits):
        raise InputError(
            f"a closed network of {population} customers and {len(visits)} stations: want both, and time spent"
        )
    if any(not (visit.service >= 0 and math.isfinite(visit.service)) for visit in visits):
        raise InputError("a closed network: visits take 0 s or more")
    alone = [_log_weights(visit, population) for visit in visits]
    whole = _convolved(alone, population)
    rate = math.exp(whole[population - 1] - whole[population])
    seconds = []
    for place, station in enumerate(alone):
        others = _convolved(alone[:place] + alone[place + 1 :], population)
        shares = np.exp(station + others[::-1] - whole[population])
        seconds.append(float(np.sum(np.arange(population + 1) * shares)) / rate)
    return ClosedAnswer(rate, tuple(seconds))


def _log_weights(visit: StationVisit, population: int) -> FloatArray:
    """Log of a station's weight by its customers: service^n over the servers that n customers keep busy, one by one."""
    weights = np.zeros(population + 1)
    if visit.service == 0:
        weights[1:] = -np.inf
        return weights
    count = np.arange(1, population + 1)
    busy = count if visit.servers is None else np.minimum(count, visit.servers)
    weights[1:] = np.cumsum(math.log(visit.service) - np.log(busy))
    return weights


def _convolved(stations: Sequence[FloatArray], population: int) -> FloatArray:
    """Log of the sums over all ways to place 0 .. population customers."""
    total = np.full(population + 1, -np.inf)
    total[0] = 0.0
    for station in stations:
        total = np.array([np.logaddexp.reduce(total[: n + 1] + station[n::-1]) for n in range(population + 1)])
    return total


def seconds_with_failures(work: float, every: float, checkpoint: float, failures: float, restart: float) -> float:
    """Mean seconds of `work` seconds with a checkpoint after each `every` of them, when failures come at random.

    `failures`: mean seconds between two failures.
    `restart`: seconds after a failure before work goes on from the last checkpoint; none comes meanwhile.
    Raises InputError where that is more than a float holds.
    """
    whole, rest = divmod(work, every)
    counts = {every + checkpoint: whole, rest if rest > 1e-12 * work else 0.0: 1.0}
    with contextlib.suppress(OverflowError):
        seconds = sum(n * (failures + restart) * math.expm1(part / failures) for part, n in counts.items() if n)
        if math.isfinite(seconds):
            return seconds
    longest = every + checkpoint if whole else rest
    raise InputError(
        f"failures {failures:g} s apart among stretches of {longest:g} s between two checkpoints: one is hardly ever "
        "done; want rarer failures, or more checkpoints"
    )
