"""Which of the repeats of one point counts, and what their spread adds to a band.

Other programs on a host only ever lengthen a run, so of repeats of one program under one protocol the least is nearest
to the undisturbed time (Chen and Revels 2016, Robust benchmarking in noisy environments, arXiv:1608.04295). Of
anybody's table it is not known what makes the repeats differ (other nodes, other inputs): there the median counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.formatting import share_shown
from slipstick.common.readers import unknown_name

Statistic = Literal["median", "least"]
FAR, OUTLYING, ROUNDS = 9.0, 2.5, 3
LEAST_NOISE = 1e-4
"""Runs nearer to each other, in log time, are equal."""
FEW_RUNS = 2.0
"""Of two runs of a value nobody can say which is the outlier, and their median is their mean."""
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


def statistic_of(text: str) -> Statistic:
    """A statistic of repeats by its name.

    Raises InputError where there is no such statistic.
    """
    for known in STATISTICS:
        if text == known:
            return known
    raise unknown_name("statistic of repeats (--statistic)", text, STATISTICS)


def one_time_each(
    times: FloatArray, starts: npt.NDArray[np.int_], counts: npt.NDArray[np.int_], statistic: Statistic
) -> FloatArray:
    """One time a point [s], shape (points,).

    `times`: shape (measurements,), point after point, rising within each.
    `starts`, `counts`: where each point begins and how many repeats it has, shape (points,).
    """
    if statistic == "least":
        return np.asarray(times[starts])
    return np.asarray((times[starts + (counts - 1) // 2] + times[starts + counts // 2]) / 2)


def noise_of(logs: FloatArray, starts: npt.NDArray[np.int_], counts: npt.NDArray[np.int_]) -> float | None:
    """Standard deviation of log time within the repeats of a point, pooled over points; None where nothing repeats.

    A point whose variance is far beyond that of most of them (one run went wrong) counts as `FAR` times theirs.
    """
    many = counts > 1
    if not many.any():
        return None
    freedom = counts[many] - 1
    sums, squares = np.add.reduceat(logs, starts), np.add.reduceat(logs**2, starts)
    variance = np.maximum((squares - sums**2 / counts)[many], 0.0) / freedom
    # the median of a chi-squared variable over its degrees of freedom (Wilson and Hilferty 1931)
    usual = float(np.median(variance / (1.0 - 2.0 / (9.0 * freedom)) ** 3))
    return float(np.sqrt(np.minimum(variance, FAR * usual) @ freedom / freedom.sum()))


def typical_times(
    logs: FloatArray, starts: npt.NDArray[np.int_], counts: npt.NDArray[np.int_], noise: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The mean of the repeats of each point without its outliers, in log time.

    Each run counts by 1 / (1 + (d / (2.5 noise))^4), where d is its distance from the mean: runs within two standard
    deviations count alike, one four of them away a seventh. Of two runs far apart the faster one counts.

    `logs`: ln of times, shape (measurements,), point after point, rising within each.
    `starts`, `counts`: where each point begins and how many repeats it has, shape (points,).
    `noise`: standard deviation of one run.

    Returns
    -------
    tuple of arrays
        Means and effective numbers of runs, shape (points,), and the weight of each run, shape (measurements,).
    """
    scale = max(OUTLYING * noise, LEAST_NOISE)
    middle = (logs[starts + (counts - 1) // 2] + logs[starts + counts // 2]) / 2
    apart = (counts == 2) & (logs[starts + counts - 1] - logs[starts] > 2 * scale)
    middle = np.where(apart, logs[starts], middle)
    weights = np.ones_like(logs)
    for _ in range(ROUNDS):
        weights = 1.0 / (1.0 + ((logs - np.repeat(middle, counts)) / scale) ** 4)
        middle = np.add.reduceat(weights * logs, starts) / np.add.reduceat(weights, starts)
    return middle, np.maximum(np.add.reduceat(weights, starts), 1.0), weights


def noise_at(level: float, statistic: Statistic, noise: float | None) -> float:
    """What the spread of repeats adds to a band, in squares, in log time; 0 for medians, whose error is in the band.

    The least of the repeats hides the noise from the residuals, while one more run, at the target or behind the law,
    still has it.
    """
    if statistic == "median" or not noise:
        return 0.0
    return NormalDist().inv_cdf(0.5 + level / 2) * noise


def error_of(statistic: Statistic, noise: float | None, repeats: Sequence[int]) -> float:
    """Standard error of the times of a series in log time, from the spread of their repeats; 0 where it is unknown.

    A median of n runs scatters by the root of pi / 2n of one run, from three runs on (Kenney and Keeping 1962).
    """
    if statistic == "least" or not noise:
        return 0.0
    runs = float(np.mean(repeats))
    return noise * float(np.sqrt((np.pi / 2.0 if runs > FEW_RUNS else 1.0) / runs))


def widened(value: FloatArray, low: FloatArray, high: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
    """The ends of a band [s] with a noise [log time] added in squares; shapes of the values.

    In log time; where an end is not positive (a straight line's may be), in seconds.
    """
    if not noise:
        return low, high
    ends = []
    for end, sign in ((low, -1.0), (high, 1.0)):
        positive = (end > 0) & (value > 0)
        ratio = np.log(np.where(positive, end, 1.0) / np.where(positive, value, 1.0))
        plain = value + sign * np.hypot(end - value, value * noise)
        ends.append(np.where(positive, value * np.exp(sign * np.hypot(ratio, noise)), plain))
    return ends[0], ends[1]


def repeats_note(measurements: int, points: int, what: str, statistic: Statistic, noise: float | None) -> str:
    """Which statistic was taken, in words; empty where nothing repeats.

    `what`: what has repeats, such as "threads" or "point".
    """
    if measurements == points:
        return ""
    text = f"{measurements} measurements: the {statistic} of the repeats of each {what} is used"
    if statistic == "median":
        return text
    return (
        f"{text}, since other programs only lengthen a run; their spread ({share_shown(noise or 0.0)}) is in the band"
    )
