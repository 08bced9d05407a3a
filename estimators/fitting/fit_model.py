"""Fitting a law: parameters, effects of groups and all widths at once, by Gauss-Newton steps on log time.

The likelihood is Student's t with four degrees of freedom in log time (Lange, Little and Taylor, JASA 84 (1989), 881).
Rows of one configuration err alike: n of them are worth n / (1 + (n - 1) r), with the correlation r of their errors
(Kish, Survey Sampling, 1965). Widths are those that make the rows most probable, the maximum of Laplace's
approximation to the marginal likelihood by expectation-maximisation (MacKay, Neural Computation 11 (1999), 1035), under
an inverse chi-squared hyperprior worth four groups. The result depends on no seed and no clock.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fitted_model import (
    UNGROUPED,
    Coordinate,
    Design,
    LawFit,
    LawRows,
    TimeLaw,
    slopes_of,
)

FREEDOM = 4.0
"""Degrees of freedom of the t distribution: rows far off the law count little."""
WORTH = 4.0
"""Groups, parameters or rows that an expected width is worth."""
SCATTER, SHARED = 0.15, 0.5
"""Expected of a source of rows: the scale of log errors, and their correlation within a configuration."""
MOST_STEPS, NEAR_STEPS, DONE = 40, 2, 3e-3
"""Most Gauss-Newton steps; those from a fit that is near; the change of log parameters and widths that ends them."""
LEAST_WIDTH, REACH, EFFECT = 1e-3, 0.5, 3.0
"""The least width; the longest step in log parameters, since a term that one step makes tiny would hardly come back;
the largest log effect."""


def fit(law: TimeLaw, rows: LawRows, near: LawFit | None = None) -> LawFit:
    """The parameters, effects and widths of a law that make measured rows most probable.

    `near`: a fit to more rows: two steps from its values, at its widths, stand for a fit of their own. For inner folds.

    Raises
    ------
    ValueError
        Where there is no row, or a time is not positive.
    """
    if not len(rows) or not (rows.seconds > 0).all():
        raise ValueError(f"law {law.name}: {len(rows)} rows, want at least one, all of positive times")
    return _Fitting(law, rows).run() if near is None else _Fitting(law, rows).near(near)


class _Fitting:
    """The state of one fit: widths, scatters and correlations change with each step."""

    def __init__(self, law: TimeLaw, rows: LawRows) -> None:
        self.law, self.rows, self.measured = law, rows, np.log(rows.seconds)
        self.coordinates = _coordinates(law, rows)
        self.design = Design(law, self.coordinates, rows.groups, len(rows))
        priors = {prior.name: prior for prior in law.parameters}
        levels = {level.name: level.width for level in law.levels}
        start, low, high, expected = [], [], [], []
        self.kinds: list[tuple[str, str]] = []
        for c in self.coordinates:
            prior = priors[c.parameter]
            self.kinds.append((c.parameter, c.level) if c.level else ("", prior.kind))
            start.append(0.0 if c.level else np.log(prior.expected))
            low.append(-EFFECT if c.level else np.log(prior.low))
            high.append(EFFECT if c.level else np.log(prior.high))
            expected.append(levels[c.level] if c.level else prior.width)
        self.start, self.low, self.high = np.array(start), np.array(low), np.array(high)
        wide = np.array(expected)
        self.members = {kind: np.array([k == kind for k in self.kinds]) for kind in dict.fromkeys(self.kinds)}
        self.expected = {kind: float(np.sqrt(np.mean(wide[m] ** 2))) for kind, m in self.members.items()}
        self.scale = wide / np.array([self.expected[kind] for kind in self.kinds])
        self.widths = {(p.name, name): levels[name] for p in law.parameters for name in p.levels} | self.expected
        self.sources, self.source = _numbered(rows.source)
        names, self.cluster = _numbered(rows.cluster)
        self.count = np.bincount(self.cluster, minlength=len(names)).astype(float)[self.cluster]
        self.scatter = np.full(len(self.sources), SCATTER)
        self.shared = np.full(len(self.sources), SHARED)

    def run(self) -> LawFit:
        """Gauss-Newton steps, each followed by the widths that it makes most probable."""
        logs, damping = self.start.copy(), 1e-3
        off = self.residuals(logs)
        for _ in range(MOST_STEPS):
            new, covariance, jacobian, damping = self.step(logs, off, damping)
            moved = float(np.abs(new - logs).max(initial=0.0))
            logs, off = new, self.residuals(new)
            if max(moved, self.rewiden(logs, off, covariance, jacobian)) < DONE:
                break
        return self.made(logs, covariance)

    def near(self, other: LawFit) -> LawFit:
        """Two steps from another fit, at its widths."""
        known = dict(zip(other.coordinates, other.logs, strict=True))
        logs = np.array([known.get(c, start) for c, start in zip(self.coordinates, self.start, strict=True)])
        self.widths |= {kind: width for kind, width in other.widths.items() if kind in self.widths}
        self.scatter = np.array([other.scatter[name] for name in self.sources])
        self.shared = np.array([other.shared[name] for name in self.sources])
        damping = 1e-3
        for _ in range(NEAR_STEPS):
            logs, covariance, _, damping = self.step(logs, self.residuals(logs), damping)
        return self.made(logs, covariance)

    def made(self, logs: FloatArray, covariance: FloatArray) -> LawFit:
        """The state as a record."""
        return LawFit(
            self.coordinates, logs, np.asarray((covariance + covariance.T) / 2, dtype=float), dict(self.widths),
            dict(zip(self.sources, self.scatter.tolist(), strict=True)),
            dict(zip(self.sources, self.shared.tolist(), strict=True)),
        )  # fmt: skip

    def step(
        self, logs: FloatArray, off: FloatArray, damping: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """One damped Gauss-Newton step: new logs, their covariance, the derivatives, the damping of the next step."""
        jacobian = self.design.jacobian(slopes_of(self.law, self.rows.columns, self.design.values(logs)))
        weighted, precision = jacobian * self.weights(off)[:, None], self.deviations() ** -2
        gradient = weighted.T @ off - precision * (logs - self.start)
        hessian = weighted.T @ jacobian + np.diag(precision)
        here, new = self.objective(off, logs), logs
        while damping < 1e6:
            move = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
            move *= min(1.0, REACH / float(np.abs(move).max(initial=REACH)))
            new = np.clip(logs + move, self.low, self.high)
            if self.objective(self.residuals(new), new) <= here + 1e-9:
                break
            damping, new = damping * 10, logs
        return new, np.asarray(np.linalg.inv(hessian), dtype=float), jacobian, max(damping / 10, 1e-6)

    def deviations(self) -> FloatArray:
        """Standard deviations of all coordinates before the rows."""
        return np.asarray(np.array([self.widths[kind] for kind in self.kinds]) * self.scale, dtype=float)

    def residuals(self, logs: FloatArray) -> FloatArray:
        """log(measured / predicted)."""
        predicted = self.law.predict(self.design.values(logs), self.rows.columns)
        return np.asarray(self.measured - np.log(predicted), dtype=float)

    @property
    def worth(self) -> FloatArray:
        """What a row counts: less, the more rows its configuration has and the more alike these err."""
        return np.asarray(1 / (1 + (self.count - 1) * self.shared[self.source]), dtype=float)

    def weights(self, off: FloatArray) -> FloatArray:
        """Of rows, 1 / variance."""
        scatter = self.scatter[self.source]
        robust = (FREEDOM + 1) / (FREEDOM + (off / scatter) ** 2)
        return np.asarray(self.worth * robust / scatter**2, dtype=float)

    def objective(self, off: FloatArray, logs: FloatArray) -> float:
        """Minus the log posterior, up to a constant."""
        rows = self.worth @ ((FREEDOM + 1) / 2 * np.log1p((off / self.scatter[self.source]) ** 2 / FREEDOM))
        return float(rows + (((logs - self.start) / self.deviations()) ** 2).sum() / 2)

    def rewiden(self, logs: FloatArray, off: FloatArray, covariance: FloatArray, jacobian: FloatArray) -> float:
        """Set all widths to the most probable ones; the largest change of a log width."""
        before = np.log([*self.widths.values(), *self.scatter])
        second = ((logs - self.start) ** 2 + np.diag(covariance)) / self.scale**2
        for kind, members in self.members.items():
            self.widths[kind] = _pooled(self.expected[kind], float(second[members].sum()), float(members.sum()))
        known = np.einsum("ij,ij->i", jacobian @ covariance, jacobian)
        left = self.weights(off) * self.scatter[self.source] ** 2 * (off**2 + known)
        worth = self.worth
        for at in range(len(self.sources)):
            mine = self.source == at
            self.scatter[at] = _pooled(SCATTER, float(left[mine].sum()), float(worth[mine].sum()))
            self.shared[at] = _correlation(off[mine], self.cluster[mine], float(self.scatter[at]))
        return float(np.abs(np.log([*self.widths.values(), *self.scatter]) - before).max())


def _coordinates(law: TimeLaw, rows: LawRows) -> tuple[Coordinate, ...]:
    made = [Coordinate(prior.name) for prior in law.parameters if prior.width > 0]
    for prior in law.parameters:
        for level in prior.levels:
            names = sorted(set(rows.groups[level]) - {UNGROUPED})
            made += [Coordinate(prior.name, level, name) for name in names]
    return tuple(made)


def _numbered(names: Sequence[str]) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Distinct names in order, and the number of each row's."""
    distinct = sorted(set(names))
    index = {name: at for at, name in enumerate(distinct)}
    return distinct, np.array([index[name] for name in names], dtype=np.intp)


def _pooled(expected: float, squares: float, count: float) -> float:
    """The width of `count` numbers with this sum of squares, and an expectation worth a few of them."""
    return max(LEAST_WIDTH, float(np.sqrt((WORTH * expected**2 + squares) / (WORTH + count))))


def _correlation(off: FloatArray, cluster: npt.NDArray[np.intp], scatter: float) -> float:
    """Of two errors of one configuration: the share of variance between configurations (one-way analysis)."""
    _, cluster = np.unique(cluster, return_inverse=True)
    count = np.bincount(cluster).astype(float)
    held, clusters = np.clip(off, -3 * scatter, 3 * scatter), len(count)
    mean = np.bincount(cluster, held) / count
    inside = float(((held - mean[cluster]) ** 2).sum()) / max(1, len(off) - clusters)
    apart = float((count * (mean - held.mean()) ** 2).sum()) / max(1, clusters - 1)
    size = (len(off) - float((count**2).sum()) / len(off)) / max(1, clusters - 1)
    between = max(0.0, (apart - inside) / size) if size > 0 else 0.0
    between = (WORTH * SHARED * scatter**2 + clusters * between) / (WORTH + clusters)
    return between / (between + inside) if inside > 0 else SHARED
