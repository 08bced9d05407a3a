"""What of a run is compared with a measurement: its time, the times of its iterations, requests and services."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.simulation.input_pipeline import JobRun

TIME, STEP, LATENCY = "time_s", "step_s", "latency_s"
SERVICE = ".service_s"
FEW, MANY = 8, 100
"""Values from which their percentiles and successive differences are figures, and from which the 99th is."""
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
MOST_FIGURES = 3 + len(LEVELS) + 1
RESAMPLED, ONCE = 200, 0.1
"""Resamples of a measured series, and the standard deviation of the log of what was measured once."""
NEAR = 0.01
"""Of the measured mean, added before a logarithm: outputs that leave together are 0 s apart."""


def quantities(job_stages: tuple[str, ...]) -> list[str]:
    """Names of what can be compared, of a job with these stages."""
    return [TIME, STEP, LATENCY, *(f"{stage}{SERVICE}" for stage in job_stages)]


def series(run: JobRun, quantity: str) -> FloatArray:
    """The values [s] of a quantity in one run: one of the whole, or one an iteration, request or service, in order.

    `quantity`: ``time_s``: of the run; ``step_s``: from the end of one iteration to the end of the next, the first from
        the start; ``latency_s``: from leaving the first stage to leaving the last (in a queue, where the first stage is
        the arrivals: the response time); ``STAGE.service_s``: of one service, without waiting.
    Raises InputError where the run has no such quantity.
    """
    if quantity == TIME:
        return np.array([run.time])
    if quantity == STEP:
        return np.diff(run.step_ends(), prepend=0.0)
    attempt = run.attempts[-1].runs[0]
    if len(run.attempts) > 1:
        raise InputError(f"{quantity}: a run that failures threw back is compared by time_s or step_s")
    stages = attempt.pipeline.stages
    if quantity == LATENCY:
        left, gathered = attempt.times.departed[-1], int(np.prod([stage.gather for stage in stages[1:]]))
        entered = attempt.times.departed[0][gathered - 1 :: gathered][: len(left)]
        return np.asarray(left - entered)
    names = [stage.name for stage in stages]
    name = quantity.removesuffix(SERVICE)
    if quantity == name or name not in names:
        raise unknown_name("measured quantity", quantity, quantities(tuple(names)))
    place = names.index(name)
    started, finished = attempt.times.started[place], attempt.times.finished[place]
    return np.asarray((finished[: len(started)] - started)[np.isfinite(finished[: len(started)])])


def figures(values: FloatArray, scale: float, places: npt.NDArray[np.intp]) -> FloatArray:
    """Logarithms of a few figures of a series: the first value where it begins the run, mean, percentiles, and the mean
    absolute difference of successive values, by which bursts differ from chance.

    `values`: seconds of the whole series, in order.
    `scale`: the measured mean [s].
    `places`: which of them were measured, from 0.
    """
    if len(values) < int(places[-1]) + 1:
        places = places[places < len(values)]
    some, result = values[places], []
    if len(some) > 3 and places[0] == 0:
        result.append(float(some[0]))
        some = some[1:]
    result.append(float(np.mean(some)))
    if len(some) >= FEW:
        result.append(float(np.mean(np.abs(np.diff(some)))))
        result += np.quantile(some, LEVELS if len(some) < MANY else (*LEVELS, 0.99)).tolist()
    return np.log(np.array(result) + NEAR * scale)


def figures_spread(values: FloatArray, scale: float, places: npt.NDArray[np.intp]) -> FloatArray:
    """Covariance of the figures of a measured series by itself: from resampled blocks of its values.

    The moving block bootstrap (H. R. Kuensch, Annals of Statistics 17 (1989), 1217), with blocks of the square root of
    their number. What stands there once, the first value or a whole run, is taken to scatter by `ONCE`.
    """
    here = figures(values, scale, places)
    some = values[places]
    first = int(len(some) > 3 and places[0] == 0)
    rest = some[first:]
    if len(rest) < FEW:
        return np.asarray(np.eye(len(here)) * ONCE**2)
    generator = np.random.default_rng(0)
    length = max(2, round(float(np.sqrt(len(rest)))))
    starts = generator.integers(0, len(rest) - length + 1, (RESAMPLED, -(-len(rest) // length)))
    rows = rest[(starts[:, :, None] + np.arange(length)).reshape(RESAMPLED, -1)[:, : len(rest)]]
    again = np.arange(len(rest), dtype=np.intp) + 1  # behind the first value: none of them begins the run
    result = np.array([figures(np.concatenate([[0.0], row]), scale, again) for row in rows])
    table = np.eye(len(here)) * ONCE**2
    table[first:, first:] = np.cov(result.T)
    return table
