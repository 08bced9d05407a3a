"""What `slipstick calibrate` does: fit a study's measurements, say what is known of the parameters, keep it as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.estimators.calibration.calibration import fingerprint, from_objective
from slipstick.estimators.calibration.calibration_file import save, to_dict
from slipstick.estimators.calibration.fitting import Fit
from slipstick.estimators.calibration.identifiability import correlations
from slipstick.estimators.calibration.leave_one_out import HeldOut, leave_one_group_out
from slipstick.estimators.calibration.objective import Objective
from slipstick.estimators.calibration.parameter_intervals import bootstrap, profile
from slipstick.estimators.core.estimate import quantile
from slipstick.estimators.core.parameters import parameters
from slipstick.experiments.answers.device_report import report_devices
from slipstick.experiments.calibrate.device_study import device_study, is_device_study
from slipstick.experiments.pages.fit_picture import draw_fit
from slipstick.experiments.pages.output import emit
from slipstick.experiments.question.registry import estimator_to_fit
from slipstick.experiments.studies.study import load_study
from slipstick.hwmodels.files.readers import InputError, read_toml, unknown_name

INTERVALS = ("covariance", "profile", "bootstrap")


def calibrate_study(
    path: str,
    intervals: str | None,
    level: float,
    out: str | None,
    form: str,
    trusted: Sequence[str] = (),
    plot: str | None = None,
) -> None:
    """Fit, report, and write `out` and the picture `plot`.

    Parameters
    ----------
    level
        Probability of the intervals.
    form
        table, json or csv.

    Raises
    ------
    InputError
        Where the study has no [fit], or a name or number cannot be used.
    """
    if intervals is not None and intervals not in INTERVALS:
        raise unknown_name("intervals", intervals, INTERVALS)
    if not 0 < level < 1:
        raise InputError(f"--level {level:g}: want a probability between 0 and 1")
    document = read_toml(path)
    if is_device_study(document):
        report_devices(device_study(document, path), Path(path).parent, out, form)
        return
    study = load_study(path, trusted)
    if study.fit is None:
        raise InputError(f"{path}: no [fit]: want measured = FILE.csv and parameters = [...]")
    question = study.fitted_question(study.workloads[0], study.machines[0])
    inner = question.estimator.model
    measured = study.measurements()
    names = [name.removeprefix("estimator.") for name in study.fit.parameters]
    objective = Objective.of(inner, measured, names)
    fit = objective.fit(study.fit.loss, study.fit.starts)
    source = f"{study.fit.source or study.fit.measured} ({len(measured)} measurements)"
    calibration = from_objective(inner, objective, fit, fingerprint(measured), source, study.fit.loss)
    bands = _bands(objective, fit, intervals or study.fit.intervals, level)
    known = parameters(inner)
    rows = [
        {
            "parameter": name,
            "value": value,
            "unit": known[name][1].unit,
            "low": bands[name][0] if name in bands else None,
            "high": bands[name][1] if name in bands else None,
            "interval_level": level if name in bands else None,
            "held": name in fit.held,
            "start": known[name][0],
            "bounds": f"{known[name][1].low:g} .. {known[name][1].high:g}",
            "meaning": known[name][1].meaning,
        }
        for name, value in zip(fit.names, fit.values, strict=True)
    ]
    lines = list(calibration.warnings)
    together = _correlation_rows(fit)
    left_out = _left_out(objective, study.fit.loss, study.fit.starts)
    estimator_name = study.estimator or estimator_to_fit(question.workload)
    if out:
        save(calibration, estimator_name, out)
    if plot:
        draw_fit(objective, fit, Path(plot))
    if form == "json":
        document = to_dict(calibration, estimator_name)
        emit([{**document, "fitted": rows, "correlations": together, "held_out": _rows(left_out)}], form)
    elif form == "csv":
        emit(rows, form)
    else:
        before = float(np.median(np.abs(objective.residuals(objective.start))))
        after = float(np.median(np.abs(fit.residuals)))
        heads = [
            f"{estimator_name}: {len(fit.names)} parameters fitted to {len(measured)} measurements in log time "
            f"({study.fit.loss} loss, {study.fit.starts} start{'s' if study.fit.starts > 1 else ''})",
            f"median |log(estimated / measured)|: {after:.3g} fitted, {before:.3g} before",
            *(f"warning: {line}" for line in lines),
        ]
        emit(rows, form, notes=heads)
        if len(together) > 1:
            emit(together, form, title="correlations of the fitted parameters")
        if left_out:
            emit(_rows(left_out), form, title="each group, fitted to the others")
        if out:
            print(f"calibration: {out}")
        if plot:
            print(f"picture: {plot}")


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


def _correlation_rows(fit: Fit) -> list[dict[str, Any]]:
    """One row a parameter that was not held; None where a correlation is unknown."""
    table = correlations(fit)
    free = [i for i, name in enumerate(fit.names) if name not in fit.held]
    return [
        {
            "parameter": fit.names[i],
            **{fit.names[j]: round(float(table[i, j]), 4) if np.isfinite(table[i, j]) else None for j in free},
        }
        for i in free
    ]


def _left_out(objective: Objective, loss: str, starts: int) -> list[HeldOut]:
    """Empty where there are no groups, or too few measurements beside one."""
    if len(set(objective.groups)) < 2:
        return []
    largest = max(objective.groups.count(group) for group in set(objective.groups))
    if len(objective.groups) - largest < len(objective.names):
        return []
    return leave_one_group_out(objective, loss, starts)


def _rows(left_out: list[HeldOut]) -> list[dict[str, Any]]:
    return [
        {
            "group": one.group,
            "measurements": one.measurements,
            "median_log_error": one.median,
            "worst_log_error": one.worst,
            "one_factor_log_error": one.baseline,
        }
        for one in left_out
    ]
