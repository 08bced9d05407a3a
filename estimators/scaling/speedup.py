"""What more workers buy: speed-up, efficiency, what a run costs, and how many to take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.scaling.prediction import Prediction
from slipstick.estimators.scaling.series import counts_nodes

SCALING_KINDS = ("strong", "weak")
SECONDS_AN_HOUR = 3600.0
CANDIDATES = 400


@dataclass(frozen=True, eq=False)
class Gains:
    """By number of workers, against the smallest number measured.

    Parameters
    ----------
    speedup
        Strong scaling: time there / time here (times the workers there, so that one worker counts 1). Weak scaling: the
        same times the work, which grows with the workers (Gustafson 1988).
    efficiency
        Speed-up per worker; 1 is ideal.
    worker_hours
        Workers x hours: what the run costs; of nodes these are node-hours.
    """

    speedup: FloatArray
    efficiency: FloatArray
    worker_hours: FloatArray


@dataclass(frozen=True)
class ScalingAdvice:
    """How many workers to take, between the fewest measured and the last target.

    Parameters
    ----------
    workers
        Where speed-up x efficiency is greatest: beyond, time falls more slowly than cost rises. Source: Eager,
        Zahorjan, Lazowska 1989, Speedup versus efficiency in parallel systems, Section 4 (the knee).
    fastest
        Where the time is least.
    """

    workers: float
    fastest: float


def gains(prediction: Prediction, x: FloatArray, times: FloatArray) -> Gains | None:
    """Gains at worker counts x with times [s]; None where the parameter does not count workers.

    Examples
    --------
    >>> import slipstick as ss
    >>> import numpy as np
    >>> series = ss.Series((1, 2, 4, 8), (10.0, 5.5, 3.25, 2.125), (1, 1, 1, 1), parameter="threads")
    >>> prediction = ss.extrapolate(series, [16], kind="strong")
    >>> x, times = np.array([1.0, 2.0]), np.array([10.0, 5.5])
    >>> ss.laws.gains(prediction, x, times).speedup.round(2).tolist()
    [1.0, 1.82]
    """
    if prediction.kind not in SCALING_KINDS:
        return None
    first, time = prediction.series.x[0], prediction.series.y[0]
    ratio = time / times
    efficiency = ratio * first / x if prediction.kind == "strong" else ratio
    return Gains(efficiency * x, efficiency, x * times / SECONDS_AN_HOUR)


def advise(prediction: Prediction) -> ScalingAdvice | None:
    """How many workers to take, by the fitted law; None where the parameter does not count workers.

    Examples
    --------
    >>> import slipstick as ss
    >>> series = ss.Series((1, 2, 4, 8), (10.0, 5.5, 3.25, 2.125), (1, 1, 1, 1), parameter="threads")
    >>> advice = ss.laws.advise(ss.extrapolate(series, [16, 32], kind="strong"))
    >>> 1 < advice.workers < advice.fastest
    True
    """
    if prediction.kind != "strong":
        return None
    first, last = prediction.series.x[0], max(*prediction.series.x, *prediction.x)
    counts = np.geomspace(first, last, CANDIDATES)
    if all(value == int(value) for value in prediction.series.x):
        counts = np.unique(np.round(counts))
    times = prediction.law(counts)
    result = gains(prediction, counts, times)
    if result is None:
        return None
    best = int(np.argmax(result.speedup * result.efficiency))
    return ScalingAdvice(float(counts[best]), float(counts[int(np.argmin(times))]))


def gain_rows(prediction: Prediction, cores_per_node: float | None = None) -> list[dict[str, float]]:
    """`speedup`, `efficiency` and `core_h`, one row a target; empty rows where the parameter does not count workers.

    Where it counts nodes, core-hours need the cores of one; without them stand `node_h`.
    """
    result = gains(prediction, np.asarray(prediction.x), np.asarray(prediction.value))
    if result is None:
        return [{} for _ in prediction.x]
    nodes = counts_nodes(prediction.series.parameter)
    cores = (cores_per_node or 1.0) if nodes else 1.0
    key = "node_h" if nodes and cores_per_node is None else "core_h"
    columns = zip(result.speedup, result.efficiency, result.worker_hours * cores, strict=True)
    return [{"speedup": float(s), "efficiency": float(e), key: float(h)} for s, e, h in columns]
