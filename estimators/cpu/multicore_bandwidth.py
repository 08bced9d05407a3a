"""Bandwidth of several cores: how it saturates, where the borders of domains are, and what that says beyond the data.

One core reaches `per_core`. More of them add up until the path that they share is full: n cores of one domain reach

    B(n) = n b / (1 + (n b / B)^p)^(1/p)

with the domain's limit B and a sharpness p (1 is Amdahl-like, infinity the roofline's corner). Cores may share a nearer
path in clusters (a core complex with its own link); then n b is what the clusters deliver. Cores are filled in order,
and the benchmarks divide their work equally, so beyond one domain the slowest core decides:

    B(n) = n min_d B_d(k_d) / k_d

That is why bandwidth *per core* stays where a full domain left it when a tenth core enters a second domain of nine.

All machines are rows of one law (`LAW`, refitted by ``slipstick validate --refit bandwidth``): the limit over the data
sheet's bandwidth, the exponent and one core's bandwidth differ by machine, benchmark and curve, with widths that are
estimated, so that four measured cores say where twenty will end. Bandwidths here are *traffic*: with the lines that a
store loads first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, LawFit, LawRows, ParameterPrior
from slipstick.estimators.fitting.updated_model import LawKnown, open_to
from slipstick.hwmodels.machine import Machine

Points = Sequence[tuple[int, float]]

NAME, BEYOND, HERE = "bandwidth", "beyond the first domain", "this machine"
UNSTATED = 3.0
"""Log width of a machine's limit where no data sheet states its bandwidth: next to nothing is known."""
ABOVE = 1.3
"""The limit over the largest measured bandwidth from which the fit then starts."""
UNSEPARATED_WIDTH = 0.15
"""Log width at least added beyond one cluster, where only its own cores were measured (see `FittedSaturation`)."""


@dataclass(frozen=True)
class BranchBorders:
    """Who shares a path: cores of a domain with its own memory, and of a cluster inside it with its own link.

    `domain`: cores of a NUMA domain (sub-NUMA cluster, cluster on die).
    `cluster`: cores that share a nearer link; None where they share none.
    `peak`: Data-sheet bandwidth of a domain's memory, bytes a second; None where unknown.
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


def cores_of_link(machine: Machine, domain: int) -> int | None:
    """Cores of a domain of so many that share a link to its memory: those of a die, or of a cluster; None if all do."""
    cores = machine.cores_per_die or machine.cores_per_cluster
    return cores if cores is not None and cores < domain else None


@dataclass(frozen=True)
class Saturation:
    """Bandwidth of the first n cores, under one benchmark.

    `per_core`, `limit`: bytes a second of one core alone, and of a whole domain.
    `sharpness`: the exponent p.
    `cluster_limit`: bytes a second of one cluster's link.
    """

    per_core: float
    limit: float
    sharpness: float
    borders: BranchBorders
    cluster_limit: float | None = None

    def bandwidth(self, cores: npt.ArrayLike) -> FloatArray:
        """Bytes a second of the first `cores` cores together, work divided equally.

        Raises InputError where a number of cores is below 1.
        """
        n = np.asarray(cores, dtype=np.float64)
        if np.any(n < 1):
            raise InputError(f"cores = {np.min(n):g}: want 1 or more")
        cluster = self.borders.cluster if self.cluster_limit is not None else None
        link = self.limit if self.cluster_limit is None else self.cluster_limit
        of_machine = {
            "core": self.per_core,
            "limit": self.limit,
            "sharpness": self.sharpness,
            "cluster": link / self.limit,
        }
        stated = {"cores": n, "domain": float(self.borders.domain), "cluster": float(cluster or 0), "peak": 1.0}
        return _bandwidth(
            {name: np.asarray(value) for name, value in of_machine.items()},
            {name: np.asarray(value) for name, value in stated.items()},
        )


def _bandwidth(values: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Bytes a second of the first cores: the law of the module's first lines."""
    n, size, cluster = columns["cores"], columns["domain"], columns["cluster"]
    sharpness, limit = values["sharpness"], values["limit"] * columns["peak"]
    link, inside = limit * values["cluster"], np.where(cluster > 0, cluster, np.inf)

    def domain(k: FloatArray) -> FloatArray:
        rest = np.where(np.isinf(inside), k, np.mod(k, inside))
        full = _soft_minimum(np.where(cluster > 0, cluster, 1.0) * values["core"], link, sharpness)
        parts = np.floor(k / inside) * full + _soft_minimum(rest * values["core"], link, sharpness)
        return _soft_minimum(np.where(cluster > 0, parts, k * values["core"]), limit, sharpness)

    left = np.mod(n, size)
    share = np.where(left > 0, left, size)
    slowest = np.where(n >= size, domain(size + 0 * n) / size, np.inf)
    return np.asarray(n * np.minimum(slowest, domain(share) / share))


def _soft_minimum(offered: FloatArray, limit: FloatArray, sharpness: FloatArray) -> FloatArray:
    return np.asarray(offered / (1 + (offered / limit) ** sharpness) ** (1 / sharpness))


LAW = FormulaLaw(
    NAME,
    (
        ParameterPrior(
            "limit", "1", "of a domain over its data sheet", 0.8, 0.2, 0.01, 100.0, "limit",
            ("machine", "benchmark", "curve"),
        ),
        ParameterPrior("core", "byte/s", "of one core", 12e9, 0.5, 1e5, 1e14, "core", ("machine", "curve")),
        ParameterPrior(
            "sharpness", "1", "exponent", 3.5, 0.25, 1.0, 50.0, "sharpness", ("machine", "benchmark", "curve")
        ),
        ParameterPrior(
            "cluster", "1", "limit of a cluster over the domain's", 1.0, 0.3, 0.01, 100.0, "cluster", ("machine",)
        ),
    ),
    _bandwidth,
    (Grouping("machine", 0.15), Grouping("benchmark", 0.1), Grouping("curve", 0.1)),
)  # fmt: skip
"""Bandwidths of the first cores of machines."""


def curve_rows(machine: str, borders: BranchBorders, curves: Mapping[str, Points]) -> LawRows:
    """Curves of one machine (benchmark -> pairs of cores and bytes a second of traffic) as rows of the law.

    Where the borders have no peak, the largest bandwidth stands in its place.
    Raises InputError where a curve is empty or a bandwidth is not positive.
    """
    for name, points in curves.items():
        if not points or any(not (cores >= 1 and rate > 0) for cores, rate in points):
            raise InputError(f"bandwidth of {name}: want pairs of cores >= 1 and bytes a second > 0")
    names = [name for name in sorted(curves) for _ in curves[name]]
    cores, rates = np.array([point for name in sorted(curves) for point in curves[name]], dtype=float).T
    known = {"domain": borders.domain, "cluster": borders.cluster or 0, "peak": borders.peak or ABOVE * rates.max()}
    columns = {"cores": cores, **{name: np.full(len(cores), float(value)) for name, value in known.items()}}
    each = [f"{machine} {name}" for name in names]
    groups = {"machine": [machine] * len(names), "benchmark": names, "curve": each}
    return LawRows(columns, groups, each, rates, [""] * len(names))


def usual(fit: LawFit) -> LawFit:
    """What a fit says of a machine that it has not seen: without the effects of single machines and curves."""
    kept = [at for at, one in enumerate(fit.coordinates) if one.level in ("", "benchmark")]
    return replace(
        fit, coordinates=tuple(fit.coordinates[at] for at in kept), logs=fit.logs[kept],
        covariance=fit.covariance[np.ix_(kept, kept)],
    )  # fmt: skip


@cache
def shipped() -> tuple[LawFit, float]:
    """What public curves say of a machine that nobody measured, and `FittedSaturation.beyond` (of no unit)."""
    known = load_fitted(NAME)
    return known.fit(NAME), float(known.facts[BEYOND])


@dataclass(frozen=True, eq=False)
class FittedSaturation:
    """Saturations of one machine's benchmarks, with how sure they are; `measured` is the most cores measured.

    `beyond`: factor on the band's width in log where cores of a second domain work, of which none was measured.

    Cores of one cluster alone cannot separate its link from the domain's memory: either may be what is full. Beyond
    that cluster the band is as wide as the two explanations lie apart; `doubt` says which measurement separates them.
    """

    borders: BranchBorders
    benchmarks: tuple[str, ...]
    fit: LawFit
    measured: int = 0
    beyond: float = 1.0

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

        Raises InputError where it was not fitted.
        """
        if benchmark not in self.benchmarks:
            raise InputError(f"no fitted bandwidth of benchmark {benchmark!r} (fitted: {', '.join(self.benchmarks)})")
        values = self.fit.values(LAW, self._rows(benchmark, [1]).groups)
        core, limit, sharpness, link = (float(values[name][0]) for name in ("core", "limit", "sharpness", "cluster"))
        whole = limit * (self.borders.peak or 1.0)
        return Saturation(core, whole, sharpness, self.borders, link * whole if self.borders.cluster else None)

    def interval(
        self, benchmark: str, cores: npt.ArrayLike, level: float = DEFAULT_LEVEL
    ) -> tuple[FloatArray, FloatArray]:
        """Bytes a second between which a measurement lies with probability `level`."""
        n = np.atleast_1d(np.asarray(cores, dtype=np.float64))
        curve, rows = self.of(benchmark), self._rows(benchmark, n)
        middle = np.log(curve.bandwidth(n))
        deviation = self.fit.half_width(LAW, rows.columns, rows.groups) / quantile(DEFAULT_LEVEL, None)
        if self.doubt and self.borders.cluster is not None:
            full, domains = (
                np.log(curve.bandwidth(self.borders.cluster)),
                np.log(np.maximum(1, n / self.borders.domain)),
            )
            apart = np.maximum(UNSEPARATED_WIDTH, np.abs(middle - full - domains))
            deviation = np.hypot(deviation, np.where(n > self.borders.cluster, apart, 0.0))
        deviation = deviation * np.where(
            (n > self.borders.domain) & (self.measured <= self.borders.domain), self.beyond, 1.0
        )
        half = quantile(level, None) * deviation
        return np.exp(middle - half), np.exp(middle + half)

    def _rows(self, benchmark: str, cores: npt.ArrayLike) -> LawRows:
        stated = replace(self.borders, peak=self.borders.peak or 1.0)
        return curve_rows(HERE, stated, {benchmark: [(n, 1.0) for n in np.asarray(cores).tolist()]})


def fit_saturation(
    curves: Mapping[str, Points], borders: BranchBorders, prior: LawFit | None = None, beyond: float | None = None
) -> FittedSaturation:
    """What the measured cores of a machine say of its curves, as few as they are.

    `curves`: benchmark -> pairs (cores, bytes a second of traffic).
    `prior`, `beyond`: what other machines say (`usual`, `FittedSaturation.beyond`); public ones where None.
    Raises InputError where a curve is empty or a bandwidth is not positive.

    Where no data-sheet peak is given, the machine's limit is free.
    """
    known, rows = prior or shipped()[0], curve_rows(HERE, borders, curves)
    if borders.peak is None:
        known = replace(known, widths={**known.widths, ("limit", "machine"): UNSTATED})
    opened = open_to(known, LAW, rows, ("limit", "curve"))
    model = LawKnown.of(opened, LAW, rows)
    best = model.likeliest(np.ones(len(rows), dtype=bool))
    covariance = model.roots @ model.left(best) @ model.roots.T
    made = replace(opened, logs=opened.logs + model.roots @ best, covariance=(covariance + covariance.T) / 2)
    most = int(rows.columns["cores"].max())
    stated = borders if borders.peak is not None else replace(borders, peak=float(rows.columns["peak"][0]))
    return FittedSaturation(stated, tuple(sorted(curves)), made, most, shipped()[1] if beyond is None else beyond)
