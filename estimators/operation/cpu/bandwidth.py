"""Bandwidth of several cores: how it saturates, where the borders of domains are, and what that says beyond the data.

One core reaches `per_core`. More of them add up until the path that they share is full: n cores of one domain reach

    B(n) = n b / (1 + (n b / B)^p)^(1/p)

with the domain's limit B and a sharpness p (1 is Amdahl-like, infinity the roofline's corner). Cores may share a nearer
path in clusters (a core complex with its own link); then n b is what the clusters deliver. Cores are filled in order,
and the benchmarks divide their work equally, so beyond one domain the slowest core decides:

    B(n) = n min_d B_d(k_d) / k_d

That is why bandwidth *per core* stays where a full domain left it when a tenth core enters a second domain of nine.

The limit of one machine under several benchmarks is tied: B = peak x efficiency(benchmark) x machine x benchmark, with
normal log terms whose means and widths come from other machines (`learn_prior`), so that four measured cores say where
twenty will end (partial pooling). Bandwidths here are *traffic*: with the lines that a store loads first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.records import Table

FloatArray = npt.NDArray[np.float64]
Points = Sequence[tuple[int, float]]

POINT_ERROR = 0.04
"""Relative error of one point: scatter of a measurement (1 %), and of the formula beyond the cores it was fitted on."""
MIN_MACHINE_WIDTH = 0.05
MIN_BENCHMARK_WIDTH = 0.03
SHARPNESS_WIDTH = 0.25
CLUSTER_WIDTH = 0.3
UNSEPARATED_WIDTH = 0.15
"""Log width at least added beyond one cluster, where only its own cores were measured (see `FittedSaturation`)."""


@dataclass(frozen=True)
class Borders:
    """Who shares a path: cores of a domain with its own memory, and of a cluster inside it with its own link.

    Parameters
    ----------
    domain
        Cores of a NUMA domain (sub-NUMA cluster, cluster on die).
    cluster
        Cores that share a nearer link; None where they share none.
    peak
        Data-sheet bandwidth of a domain's memory, bytes a second; None where unknown.
    """

    domain: int
    cluster: int | None = None
    peak: float | None = None

    def __post_init__(self) -> None:
        if self.domain < 1 or (self.cluster is not None and not 1 <= self.cluster <= self.domain):
            raise InputError(
                f"borders: {self.domain} cores a domain, {self.cluster} a cluster: want 1 <= cluster <= domain"
            )
        if self.peak is not None and not self.peak > 0:
            raise InputError(f"borders: peak = {self.peak} byte/s: want a bandwidth above 0")


@dataclass(frozen=True)
class Saturation:
    """Bandwidth of the first n cores, under one benchmark.

    Parameters
    ----------
    per_core, limit
        Bytes a second of one core alone, and of a whole domain.
    sharpness
        The exponent p.
    cluster_limit
        Bytes a second of one cluster's link.
    """

    per_core: float
    limit: float
    sharpness: float
    borders: Borders
    cluster_limit: float | None = None

    def bandwidth(self, cores: npt.ArrayLike) -> FloatArray:
        """Bytes a second of the first `cores` cores together, work divided equally.

        Raises
        ------
        InputError
            Where a number of cores is below 1.
        """
        n = np.asarray(cores, dtype=np.float64)
        if np.any(n < 1):
            raise InputError(f"cores = {np.min(n):g}: want 1 or more")
        size = self.borders.domain
        rest = np.mod(n, size)
        slowest = np.where(n >= size, self._domain(np.full_like(n, size)) / size, np.inf)
        share = np.where(rest > 0, rest, size)
        return np.asarray(n * np.minimum(slowest, self._domain(share) / share))

    def _domain(self, n: FloatArray) -> FloatArray:
        offered = n * self.per_core
        if self.borders.cluster is not None and self.cluster_limit is not None:
            size = self.borders.cluster
            rest = np.mod(n, size)
            whole = _soft_minimum(size * self.per_core, self.cluster_limit, self.sharpness)
            offered = np.floor(n / size) * whole + _soft_minimum(
                rest * self.per_core, self.cluster_limit, self.sharpness
            )
        return np.asarray(_soft_minimum(offered, self.limit, self.sharpness))


def _soft_minimum(offered: Any, limit: Any, sharpness: Any) -> Any:
    return offered / (1 + (offered / limit) ** sharpness) ** (1 / sharpness)


@dataclass(frozen=True)
class SaturationPrior:
    """What other machines teach about a new one; all in natural logarithms.

    Parameters
    ----------
    efficiency
        Benchmark -> mean log of (limit over data-sheet peak).
    sharpness
        Benchmark -> mean log exponent.
    machine_width, benchmark_width
        Standard deviations of a machine's common factor, and of each benchmark's own.
    machines
        How many machines taught it.
    """

    efficiency: Table[float]
    sharpness: Table[float]
    machine_width: float
    benchmark_width: float
    machines: int = 0


GENERIC_PRIOR = SaturationPrior(Table(), Table(), 0.15, 0.10)


@dataclass(frozen=True)
class FittedSaturation:
    """Saturations of one machine's benchmarks, with how sure they are.

    `covariance` is that of `vector` (log parameters, see `fit_saturation`); `measured` is the most cores measured.

    Cores of one cluster alone cannot separate its link from the domain's memory: either may be what is full. Beyond
    that cluster the band is as wide as the two explanations lie apart; `doubt` says which measurement separates them.
    """

    borders: Borders
    benchmarks: tuple[str, ...]
    prior: SaturationPrior
    vector: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    measured: int = 0

    @property
    def doubt(self) -> str:
        """What the measured cores leave unknown, and what would show it; empty where they can."""
        cluster = self.borders.cluster
        if cluster is None or not cluster < self.borders.domain or not 0 < self.measured <= cluster:
            return ""
        return (
            f"{self.measured} cores lie in one cluster of {cluster}: its link and the memory of the domain of "
            f"{self.borders.domain} cannot be separated; bandwidth of {cluster + 1} cores or more separates them"
        )

    def of(self, benchmark: str) -> Saturation:
        """The curve of one benchmark.

        Raises
        ------
        InputError
            Where it was not fitted.
        """
        if benchmark not in self.benchmarks:
            raise InputError(f"no fitted bandwidth of benchmark {benchmark!r} (fitted: {', '.join(self.benchmarks)})")
        return _curve(
            np.array(self.vector), self.benchmarks.index(benchmark), self.benchmarks, self.borders, self.prior
        )

    def interval(
        self, benchmark: str, cores: npt.ArrayLike, level: float = DEFAULT_LEVEL
    ) -> tuple[FloatArray, FloatArray]:
        """Bytes a second between which a measurement lies with probability `level`."""
        vector = np.array(self.vector)
        index = self.benchmarks.index(benchmark)

        def log_bandwidth(values: FloatArray) -> FloatArray:
            curve = _curve(values, index, self.benchmarks, self.borders, self.prior)
            return np.log(np.atleast_1d(curve.bandwidth(cores)))

        middle = log_bandwidth(vector)
        slopes = np.empty((middle.size, vector.size))
        for i in range(vector.size):
            step = np.zeros_like(vector)
            step[i] = 1e-4
            slopes[:, i] = (log_bandwidth(vector + step) - log_bandwidth(vector - step)) / 2e-4
        variance = np.einsum("ij,jk,ik->i", slopes, np.array(self.covariance), slopes) + POINT_ERROR**2
        if self.doubt and self.borders.cluster is not None:
            n = np.atleast_1d(np.asarray(cores, dtype=np.float64))
            full = np.log(self.of(benchmark).bandwidth(self.borders.cluster))
            domains = np.log(np.maximum(1, n / self.borders.domain))
            apart = np.maximum(UNSEPARATED_WIDTH, np.abs(middle - full - domains))
            variance = variance + np.where(n > self.borders.cluster, apart, 0.0) ** 2
        half = quantile(level, None) * np.sqrt(variance)
        return np.exp(middle - half), np.exp(middle + half)


def fit_saturation(
    curves: Mapping[str, Points], borders: Borders, prior: SaturationPrior = GENERIC_PRIOR
) -> FittedSaturation:
    """Fit the curves of one machine together, from as few cores as were measured.

    Parameters
    ----------
    curves
        Benchmark -> pairs (cores, bytes a second of traffic).

    The parameters are, in logarithms: the machine's factor on its limits, then for each benchmark its own factor on the
    limit, the bandwidth of one core, the sharpness and (with clusters) the cluster's limit over the domain's. Where no
    data-sheet peak is given, the machine's factor is free and takes the place of the peak.

    Raises
    ------
    InputError
        Where a curve is empty or a bandwidth is not positive.
    """
    from scipy.optimize import least_squares

    names = tuple(sorted(curves))
    for name in names:
        if not curves[name] or any(not (cores >= 1 and rate > 0) for cores, rate in curves[name]):
            raise InputError(f"bandwidth of {name}: want pairs of cores >= 1 and bytes a second > 0")
    measured = [(np.array([c for c, _ in curves[k]], float), np.array([r for _, r in curves[k]], float)) for k in names]
    count = len(names)
    start = np.zeros(1 + count * (4 if borders.cluster else 3))
    best = max(float(rate.max()) for _, rate in measured)
    start[0] = 0.0 if borders.peak else np.log(1.3 * best)
    start[1 + count : 1 + 2 * count] = [np.log(rate[0] / cores[0]) for cores, rate in measured]
    start[1 + 2 * count : 1 + 3 * count] = [_mean_sharpness(prior, k) for k in names]
    machine_width = prior.machine_width if borders.peak else 3.0

    def residuals(vector: FloatArray) -> FloatArray:
        parts = [
            vector[:1] / machine_width if borders.peak else (vector[:1] - start[0]) / machine_width,
            vector[1 : 1 + count] / prior.benchmark_width,
            (vector[1 + 2 * count : 1 + 3 * count] - start[1 + 2 * count : 1 + 3 * count]) / SHARPNESS_WIDTH,
            vector[1 + 3 * count :] / CLUSTER_WIDTH,
        ]
        for index, (cores, rate) in enumerate(measured):
            curve = _curve(vector, index, names, borders, prior)
            parts.append(np.log(curve.bandwidth(cores) / rate) / POINT_ERROR)
        return np.concatenate(parts)

    solution = least_squares(residuals, start)
    covariance = np.linalg.pinv(solution.jac.T @ solution.jac)
    most = int(max(float(cores.max()) for cores, _ in measured))
    table = tuple(map(tuple, covariance.tolist()))
    return FittedSaturation(borders, names, prior, tuple(solution.x.tolist()), table, most)


@dataclass(frozen=True)
class Lesson:
    """What one fully measured machine with a known peak teaches: log efficiencies and log sharpnesses by benchmark."""

    efficiency: Table[float]
    sharpness: Table[float]


def lesson(borders: Borders, curves: Mapping[str, Points]) -> Lesson:
    """Fit complete curves (all cores of one domain) with next to no prior.

    Raises
    ------
    InputError
        Where the borders have no peak.
    """
    if borders.peak is None:
        raise InputError("a machine without a data-sheet peak teaches no efficiency")
    fitted = fit_saturation(curves, borders, SaturationPrior(Table(), Table(), 1.0, 1.0))
    errors = {name: fitted.of(name) for name in fitted.benchmarks}
    return Lesson(
        Table({name: float(np.log(curve.limit / borders.peak)) for name, curve in errors.items()}),
        Table({name: float(np.log(np.clip(curve.sharpness, 2, 8))) for name, curve in errors.items()}),
    )


def learn_prior(lessons: Sequence[Lesson]) -> SaturationPrior:
    """Means over machines, and how far machines and single benchmarks lie from them.

    Raises
    ------
    InputError
        Where there are fewer than two lessons.
    """
    if len(lessons) < 2:
        raise InputError(f"{len(lessons)} machines with a data-sheet peak: want at least 2 to learn from")
    names = sorted({name for one in lessons for name in one.efficiency})
    means = {
        name: float(np.mean([one.efficiency[name] for one in lessons if name in one.efficiency])) for name in names
    }
    off = [{name: value - means[name] for name, value in one.efficiency.items()} for one in lessons]
    machine_off = [float(np.mean(list(values.values()))) for values in off]
    rest = [value - shift for values, shift in zip(off, machine_off, strict=True) for value in values.values()]
    sharpness = {
        name: float(np.mean([one.sharpness[name] for one in lessons if name in one.sharpness])) for name in names
    }
    return SaturationPrior(
        efficiency=Table(means),
        sharpness=Table(sharpness),
        machine_width=max(float(np.std(machine_off, ddof=1)), MIN_MACHINE_WIDTH),
        benchmark_width=max(float(np.std(rest, ddof=1)), MIN_BENCHMARK_WIDTH),
        machines=len(lessons),
    )


def _curve(
    vector: FloatArray, index: int, names: tuple[str, ...], borders: Borders, prior: SaturationPrior
) -> Saturation:
    count = len(names)
    name = names[index]
    typical = prior.efficiency.get(name, float(np.log(0.8)))
    scale = borders.peak if borders.peak is not None else 1.0
    limit = scale * float(np.exp(typical + vector[0] + vector[1 + index]))
    cluster = limit * float(np.exp(vector[1 + 3 * count + index])) if borders.cluster else None
    return Saturation(
        per_core=float(np.exp(vector[1 + count + index])),
        limit=limit,
        sharpness=float(np.exp(vector[1 + 2 * count + index])),
        borders=borders,
        cluster_limit=cluster,
    )


def _mean_sharpness(prior: SaturationPrior, name: str) -> float:
    return prior.sharpness.get(name, float(np.log(3.5)))
