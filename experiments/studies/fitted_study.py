"""A study's measurements fitted: values, intervals, correlations, and the score on groups left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slipstick.common.answer import Answer, AnswerTable, Provenance
from slipstick.common.columns import Column
from slipstick.common.errors import InputError
from slipstick.common.formatting import ratio_shown, shown
from slipstick.estimators.base.estimate import REPEAT, quantile
from slipstick.estimators.fitting.calibration import Calibration, fingerprint, from_objective
from slipstick.estimators.fitting.calibration_file import to_dict
from slipstick.estimators.fitting.identifiability import correlations
from slipstick.estimators.fitting.least_squares import Fit
from slipstick.estimators.fitting.leave_one_out import Holdout, leave_one_group_out
from slipstick.estimators.fitting.objective import Objective
from slipstick.estimators.fitting.parameter_intervals import bootstrap, profile
from slipstick.estimators.fitting.user_rows import lone_rows
from slipstick.estimators.symbolic.formula import parameters
from slipstick.experiments.question.registry import estimator_to_fit
from slipstick.experiments.studies.study import load_study

INTERVALS = ("covariance", "profile", "bootstrap")
NAMED = 5
"""Rows far off all others that are named."""


@dataclass(frozen=True)
class FittedStudy(Answer):
    """What a study's [fit] gave.

    `estimator`: the name under which the calibration is saved.
    `method`: loss and number of starts, in words.
    `bands`: parameter -> its interval, in the parameter's unit; none where it is not known.
    """

    estimator: str
    method: str
    calibration: Calibration
    objective: Objective
    fit: Fit
    bands: Mapping[str, tuple[float, float]]
    level: float
    held_out: tuple[Holdout, ...]

    @property
    def provenance(self) -> Provenance:
        """Fitted to measurements."""
        return "calibrated"

    @property
    def errors(self) -> tuple[float, float]:
        """Median |log(estimated / measured)| as fitted, and before."""
        before, after = self.objective.residuals(self.objective.start), self.fit.residuals
        return float(np.median(np.abs(after))), float(np.median(np.abs(before)))

    @property
    def declared(self) -> tuple[Column, ...]:
        """Each row states the unit of its numbers."""
        return (
            *(Column(name, unit_in="unit") for name in ("value", "start")),
            Column("low", high="high", unit_in="unit"),
        )

    @property
    def heads(self) -> tuple[str, ...]:
        """To what was fitted, and how well."""
        after, before = self.errors
        return (
            f"{self.estimator}: {len(self.fit.names)} parameters fitted to {len(self.objective.measured)} "
            f"measurements in log time ({self.method})",
            f"median |log(estimated / measured)|: {after:.3g} fitted, {before:.3g} before",
            *(f"warning: {line}" for line in self.calibration.warnings),
        )

    def tables(self) -> tuple[AnswerTable, ...]:
        """The parameters, how they hang together, and each group left out."""
        together, apart = self.correlation_rows(), self.held_out_rows()
        tables = list(super().tables())
        if len(together) > 1:
            tables.append(AnswerTable(together, title="correlations of the fitted parameters"))
        if apart:
            tables.append(AnswerTable(apart, title="each group, fitted to the others"))
        return tuple(tables)

    def document(self) -> list[dict[str, Any]]:
        """The calibration as it is saved, and the tables."""
        parts = {"fitted": self.rows(), "correlations": self.correlation_rows(), "held_out": self.held_out_rows()}
        return [to_dict(self.calibration, self.estimator) | parts]

    def rows(self) -> list[dict[str, Any]]:
        """One row a parameter, in its unit."""
        notes = {name: note for name, (_, note) in parameters(self.calibration.estimator).items()}
        return [
            {
                "parameter": name,
                "value": value,
                "unit": notes[name].unit,
                "low": self.bands[name][0] if name in self.bands else None,
                "high": self.bands[name][1] if name in self.bands else None,
                "interval_level": self.level if name in self.bands else None,
                "held": name in self.fit.held,
                "start": start,
                "bounds": f"{notes[name].low:g} .. {notes[name].high:g}",
                "meaning": notes[name].meaning,
            }
            for name, value, start in zip(self.fit.names, self.fit.values, self.objective.start.tolist(), strict=True)
        ]

    def correlation_rows(self) -> list[dict[str, Any]]:
        """One row a parameter that was not held; None where a correlation is unknown."""
        fit = self.fit
        table = correlations(fit.covariance)
        free = [i for i, name in enumerate(fit.names) if name not in fit.held]
        return [
            {
                "parameter": fit.names[i],
                **{fit.names[j]: round(float(table[i, j]), 4) if np.isfinite(table[i, j]) else None for j in free},
            }
            for i in free
        ]

    def held_out_rows(self) -> list[dict[str, Any]]:
        """One row a group, fitted to the others; errors are of logarithms of times."""
        return [
            {
                "group": one.group,
                "measurements": one.measurements,
                "median_log_error": one.median,
                "worst_log_error": one.worst,
                "one_factor_log_error": one.baseline,
            }
            for one in self.held_out
        ]


def fit_study(path: str, intervals: str | None, level: float, allow_code: Sequence[str] = ()) -> FittedStudy:
    """Fit the parameters that a study names to its measurements.

    `intervals`: covariance, profile or bootstrap; None: as the study says.
    `level`: probability of the intervals.
    Raises InputError where the study has no [fit], or a name or number cannot be used.
    """
    study = load_study(path, allow_code)
    if study.fit is None:
        raise InputError(f"{path}: no [fit]: want measured = FILE.csv and parameters = [...]")
    question = study.fitted_question(study.workloads[0], study.machines[0])
    inner = question.estimator.model
    measured = study.measurements()
    names = [name.removeprefix("estimator.") for name in study.fit.parameters]
    objective = Objective.of(inner, measured, names)
    loss, starts = study.fit.loss, study.fit.starts
    fit = objective.fit(loss, starts)
    source = f"{study.fit.source or study.fit.measured} ({len(measured)} measurements)"
    made = from_objective(inner, objective, fit, fingerprint(measured), source, loss)
    slips = tuple(
        f"{study.fit.measured}: row {place + 1}: time = {shown(measured[place].value, 's')} is "
        f"x{ratio_shown(math.exp(-fit.residuals[place]))} of what is fitted, far off all other rows: a slip, another "
        "unit? loss = 'cauchy' lets such rows weigh less"
        for place in list(lone_rows(np.asarray(fit.residuals), REPEAT, sorted_rows=False)[0])[:NAMED]
    )
    return FittedStudy(
        study.estimator or estimator_to_fit(question.workload),
        f"{loss} loss, {starts} start{'s' if starts > 1 else ''}",
        replace(made, warnings=(*made.warnings, *slips)),
        objective,
        fit,
        _bands(objective, fit, intervals or study.fit.intervals, level),
        level,
        tuple(_left_out(objective, loss, starts)),
    )


def _bands(objective: Objective, fit: Fit, how: str, level: float) -> Mapping[str, tuple[float, float]]:
    if how == "profile":
        return profile(objective, fit, level)
    if how == "bootstrap":
        return bootstrap(objective, fit, level=level)
    if fit.degrees_of_freedom < 1:
        return {}
    reach = quantile(level, float(fit.degrees_of_freedom))
    bands = {}
    for name, value, error, low, high in zip(
        fit.names, fit.values, fit.standard_errors, objective.low, objective.high, strict=True
    ):
        if name in fit.held or not np.isfinite(error):
            continue
        if low >= 0 and 0 < error <= value:  # of its logarithm: a positive parameter has a positive interval
            factor = math.exp(min(reach * error / value, 700.0))
            ends = value / factor, value * factor
        else:
            ends = value - reach * error, value + reach * error
        bands[name] = (float(max(ends[0], low)), float(min(ends[1], high)))
    return bands


def _left_out(objective: Objective, loss: str, starts: int) -> list[Holdout]:
    """Empty where there are no groups, or too few measurements beside one."""
    if len(set(objective.groups)) < 2:
        return []
    largest = max(objective.groups.count(group) for group in set(objective.groups))
    if len(objective.groups) - largest < len(objective.names):
        return []
    return leave_one_group_out(objective, loss, starts)
