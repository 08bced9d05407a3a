"""Calibration through a simulation: parameters under which simulated runs look like the measured ones.

The method of simulated moments (D. McFadden, Econometrica 57 (1989), 995; A. Pakes and D. Pollard, the same, 1027): a
few figures of what was measured (mean and percentiles of the iterations' times, ...) are compared with the means of the
same figures over simulated runs. How the figures scatter, and with one another, is taken from the measured values by
themselves first, and at the end from the simulated runs, so that a figure that hardly repeats weighs little and the
errors of the parameters follow. All points are simulated with the same random numbers: differences between them are
differences of the parameters. Gauss-Newton steps are those of every calibration (`fit_least_squares`), on derivatives
by differences that are large enough to be seen in a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.fitting.least_squares import Fit, fit_least_squares
from slipstick.estimators.fitting.whole_numbers import Whole, search_whole
from slipstick.estimators.simulation.simulated_quantities import Adjustable, MeasuredFigures, SimulatedFit

SEED = 7_000_000
"""Of the first simulated run: none that a user's runs begin with."""
RUNS, RUNS_A_FIGURE = 32, 4
"""Simulated runs of each measured configuration, at least, and for each figure."""
FIRST = ((0.25, 1e-2), (0.25, 3e-3))
ROUNDS = ((0.5, 3e-3), (1.0, 1e-3))
"""Share of the runs, and the relative change that ends a round; the scatter is the measured one in the first rounds,
and is simulated before each of the others."""
SCREENED, REACH = 12, 4.0
"""Points for each parameter from which the fit may begin, and the factor around the start that they cover."""
BEGUN = 3
"""Of those, from how many it does."""
CLOCK = 2e-3
"""Standard deviation of the log of a figure that is taken at least: clocks and models are no better."""
STEP = 0.05
"""Of differences, relative."""
WORTH = 4.0
"""Figures that the expectation that a simulation is right is worth, where errors are widened by what it misses."""
POINTS = 40
"""Simulated points for each parameter that are expected, for a progress bar."""

Progress: TypeAlias = Callable[[int, int], None]
Tried: TypeAlias = tuple[float, Fit | None, FloatArray]
"""Minus twice the log likelihood at some whole numbers, the fit of the real parameters, and the residuals."""


def fit_simulated(
    adjustable: Sequence[Adjustable],
    configurations: Sequence[MeasuredFigures],
    runs: int | None = None,
    progress: Progress | None = None,
) -> SimulatedFit:
    """Fit parameters of a simulation to measured figures.

    `runs`: simulated runs of each configuration at each point; None: enough for the covariance of their figures.
    `progress`: called with the number of simulated points so far, and how many are expected.
    Raises InputError where there are fewer figures than parameters.
    """
    fitting = _SimulatedFitting(tuple(adjustable), tuple(configurations), runs, progress)
    result = fitting.figures_count()
    if result < len(adjustable):
        raise InputError(
            f"{result} measured figures cannot fix {len(adjustable)} parameters: "
            f"{', '.join(one.name for one in adjustable)}"
        )
    return fitting.run()


class _SimulatedFitting:
    def __init__(
        self,
        adjustable: tuple[Adjustable, ...],
        configurations: tuple[MeasuredFigures, ...],
        runs: int | None,
        progress: Progress | None,
    ) -> None:
        self.real = tuple(one for one in adjustable if not one.whole)
        self.counted = tuple(one for one in adjustable if one.whole)
        self.names = tuple(one.name for one in adjustable)
        self.configurations = configurations
        figures = max(len(one.measured) for one in configurations)
        self.runs = runs or max(RUNS, RUNS_A_FIGURE * figures)
        self.progress, self.points = progress, 0
        self.low = np.array([one.low for one in self.real])
        self.high = np.array([one.high for one in self.real])

    def figures_count(self) -> int:
        return sum(len(one.measured) for one in self.configurations)

    def run(self) -> SimulatedFit:
        """Real parameters by least squares, inside a search over the whole numbers, if there are any."""
        whole = {one.name: one.start for one in self.counted}
        start = np.array([one.start for one in self.real])
        formula = self.by_formula(start, whole)
        begin = np.array([formula[one.name] for one in self.real])
        first = self.begun(self.screened([begin, start], whole), whole)

        def at(values: Whole, near: Tried | None) -> Tried:
            known = near and near[1]
            return self.at(first if near is None else np.array(known.values if known else ()), self.whole_of(values))

        ends = [one.low for one in self.counted], [one.high for one in self.counted]
        best, tried = search_whole(tuple(whole.values()), *ends, at, lambda one: one[0])
        _, fit, residuals = tried[best]
        return self.made(best, tried, fit, residuals, formula)

    def at(
        self, begin: FloatArray, whole: Mapping[str, float], rounds: Sequence[tuple[float, float]] = ROUNDS
    ) -> Tried:
        """Minus twice the log likelihood, the fit of the real parameters, and the residuals."""
        if not self.real:
            roots, logdet = self.roots(begin, whole)
            left = self.residuals(begin, whole, roots, self.runs)
            return float(left @ left) + logdet, None, left
        point, fit = begin, None
        for share, tolerance in rounds:
            runs = max(1, round(share * self.runs))
            roots, logdet = self.measured_roots() if rounds is FIRST else self.roots(point, whole)
            residuals = partial(self.residuals, whole=whole, roots=roots, runs=runs)
            jacobian = partial(self.jacobian, whole=whole, roots=roots, runs=runs)
            names = [one.name for one in self.real]
            fit = fit_least_squares(
                residuals, names, point, self.low, self.high, jacobian, tolerance=tolerance, variance=1.0
            )
            point = np.array(fit.values)
        if fit is None:
            raise InputError("no parameter to fit")
        left = np.array(fit.residuals)
        return float(left @ left) + logdet, fit, left

    def whole_of(self, values: Sequence[float]) -> dict[str, float]:
        return {one.name: value for one, value in zip(self.counted, values, strict=True)}

    def simulated(self, values: FloatArray, whole: Mapping[str, float], runs: int) -> list[FloatArray]:
        """Figures of each configuration, shape (runs, figures)."""
        inside = np.clip(values, self.low, self.high)
        point = {one.name: float(value) for one, value in zip(self.real, inside, strict=True)} | dict(whole)
        self.points += 1
        if self.progress is not None:
            self.progress(self.points, max(self.points + 1, POINTS * len(self.names)))
        return [np.array([one.simulate(point, SEED + number) for number in range(runs)]) for one in self.configurations]

    def roots(self, values: FloatArray, whole: Mapping[str, float]) -> tuple[list[FloatArray], float]:
        """Square roots of the figures' precisions at a point, and the log determinant of their covariances.

        A covariance from few runs has an inverse that is too large: (runs - figures - 2) / (runs - 1) of it is right on
        average (T. W. Anderson, An Introduction to Multivariate Statistical Analysis, 2003, theorem 7.2.2).
        """
        roots, logdet = [], 0.0
        for one, result in zip(self.configurations, self.simulated(values, whole, self.runs), strict=True):
            size = result.shape[1]
            table = np.atleast_2d(np.cov(result.T)) * (1 / one.repeats + 1 / self.runs) + np.eye(size) * CLOCK**2
            share = max(0.2, (self.runs - size - 2) / (self.runs - 1))
            lower = np.linalg.cholesky(table)
            roots.append(np.linalg.inv(lower) * np.sqrt(share))
            logdet += 2 * float(np.sum(np.log(np.diag(lower))))
        return roots, logdet

    def residuals(
        self, values: FloatArray, whole: Mapping[str, float], roots: Sequence[FloatArray], runs: int
    ) -> FloatArray:
        """Simulated less measured figures in their standard deviations, then `expected`."""
        result = self.simulated(values, whole, runs)
        parts = [
            root @ (table.mean(axis=0) - one.measured)
            for root, table, one in zip(roots, result, self.configurations, strict=True)
        ]
        return np.concatenate([*parts, self.expected(values)])

    def expected(self, values: FloatArray) -> FloatArray:
        """How far the parameters are from where they are expected, in standard deviations."""
        return np.array([(value - one.start) / one.width for value, one in zip(values, self.real, strict=True)])

    def jacobian(
        self, values: FloatArray, whole: Mapping[str, float], roots: Sequence[FloatArray], runs: int
    ) -> FloatArray:
        """Central differences; towards the inside where a bound is near."""
        columns = []
        for place, one in enumerate(self.real):
            step = max(STEP * abs(values[place]), one.step)
            up, down = values.copy(), values.copy()
            up[place] = min(values[place] + step, one.high)
            down[place] = max(values[place] - step, one.low)
            change = self.residuals(up, whole, roots, runs) - self.residuals(down, whole, roots, runs)
            columns.append(change / (up[place] - down[place]))
        return np.stack(columns, axis=1)

    def by_formula(self, start: FloatArray, whole: Mapping[str, float]) -> dict[str, float]:
        """What the closed form gives for the parameters, held to where they are by a little."""
        formulas = [one.formula for one in self.configurations if one.formula is not None]
        names = [one.name for one in self.real]
        if not formulas or not names:
            return dict(zip(names, start.tolist(), strict=True))

        def residuals(values: FloatArray) -> FloatArray:
            point = dict(zip(names, values.tolist(), strict=True)) | dict(whole)
            return np.concatenate([np.array([formula(point) for formula in formulas]) / CLOCK, self.expected(values)])

        fit = fit_least_squares(residuals, names, start, self.low, self.high, tolerance=1e-9)
        return dict(zip(names, fit.values, strict=True))

    def begun(self, points: Sequence[FloatArray], whole: Mapping[str, float]) -> FloatArray:
        """The best of what first rounds from several points make of them, by the scatter that was measured.

        By its own scatter a point of too little chance would always seem right.
        """
        if not self.real:
            return points[0]
        ends = [self.at(point, whole, FIRST) for point in points]
        best = min(ends, key=lambda end: end[0])[1]
        return points[0] if best is None else np.array(best.values)

    def measured_roots(self) -> tuple[list[FloatArray], float]:
        """Square roots of the measured figures' precisions."""
        tables = [one.spread / one.repeats + np.eye(len(one.measured)) * CLOCK**2 for one in self.configurations]
        return [np.linalg.inv(np.linalg.cholesky(table)) for table in tables], 0.0

    def screened(self, begins: Sequence[FloatArray], whole: Mapping[str, float]) -> list[FloatArray]:
        """The best points around the first start, by figures of a few runs: which stage limits shows here."""
        if not self.real:
            return list(begins[:1])
        from scipy.stats import qmc

        size = len(self.real)
        count = int(np.ceil(np.log2(SCREENED * size)))
        share = qmc.Sobol(size, seed=SEED).random_base2(count) * 2 - 1
        points = list(begins)
        for row in share:
            point = begins[0].copy()
            for place, one in enumerate(self.real):
                value = point[place]
                low = value > one.step or one.step == 0
                point[place] = value * REACH ** row[place] if low and value > 0 else abs(row[place]) * 10 * one.step
            points.append(np.clip(point, self.low, self.high))
        return sorted(points, key=lambda point: self.distance(point, whole))[:BEGUN]

    def distance(self, point: FloatArray, whole: Mapping[str, float]) -> float:
        result = self.simulated(point, whole, 3)
        pairs = zip(result, self.configurations, strict=True)
        return float(sum(np.sum((table.mean(axis=0) - one.measured) ** 2) for table, one in pairs))

    def made(
        self,
        best: Whole,
        tried: Mapping[Whole, Tried],
        fit: Fit | None,
        residuals: FloatArray,
        formula: Mapping[str, float],
    ) -> SimulatedFit:
        """The result; errors grow with what chance does not explain."""
        freedom = self.figures_count() - len(self.names)
        residuals = residuals[: self.figures_count()]
        square = float(residuals @ residuals)
        excess = max(1.0, (WORTH + square) / (WORTH + freedom))
        table = np.zeros((len(self.names), len(self.names)))
        values = dict(zip([one.name for one in self.counted], best, strict=True))
        if fit is not None:
            values |= dict(zip(fit.names, fit.values, strict=True))
            places = [self.names.index(name) for name in fit.names]
            table[np.ix_(places, places)] = np.asarray(fit.covariance) * excess
        likely = np.array([cost for cost, _, _ in tried.values()])
        weights = np.exp(-(likely - likely.min()) / (2 * excess))
        weights = weights / weights.sum()
        whole = tuple(
            (self.whole_of(key) | (dict(zip(one.names, one.values, strict=True)) if one else {}), float(weight))
            for (key, (_, one, _)), weight in zip(tried.items(), weights, strict=True)
            if weight > 1e-6
        )
        for one in self.counted:
            place = self.names.index(one.name)
            mean = sum(weight * point[one.name] for point, weight in whole)
            table[place, place] = sum(weight * (point[one.name] - mean) ** 2 for point, weight in whole)
        return SimulatedFit(
            self.names,
            tuple(values[name] for name in self.names),
            tuple(tuple(map(float, row)) for row in table),
            tuple(map(float, residuals)),
            freedom,
            square,
            fit.held if fit is not None else (),
            {**formula, **{one.name: one.start for one in self.counted}},
            whole if self.counted else (),
            self.runs,
        )
