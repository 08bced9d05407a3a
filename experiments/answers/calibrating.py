"""What `slipstick calibrate` prints and writes of a fit: parameters, warnings, groups left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipstick.estimators.calibration.calibration_file import save, to_dict
from slipstick.experiments.answers.device_report import report_devices
from slipstick.experiments.calibrate.device_study import device_study, is_device_study
from slipstick.experiments.pages.fit_picture import draw_fit
from slipstick.experiments.pages.output import emit
from slipstick.experiments.studies.fitted_study import INTERVALS, FittedStudy, fit_study
from slipstick.hwmodels.files.readers import InputError, read_toml, unknown_name


def spans_devices(path: str) -> bool:
    """Whether a study file calibrates operations across devices.

    Raises
    ------
    InputError
        Where it cannot be read.
    """
    return is_device_study(read_toml(path))


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
    fitted = fit_study(path, intervals, level, trusted)
    if out:
        save(fitted.calibration, fitted.estimator, out)
    if plot:
        draw_fit(fitted.objective, fitted.fit, Path(plot))
    if form == "json":
        parts = {"fitted": fitted.rows(), "correlations": fitted.correlation_rows(), "held_out": fitted.held_out_rows()}
        emit([to_dict(fitted.calibration, fitted.estimator) | parts], form)
    elif form == "csv":
        emit(fitted.rows(), form)
    else:
        _print_fit(fitted)
        if out:
            print(f"calibration: {out}")
        if plot:
            print(f"picture: {plot}")


def _print_fit(fitted: FittedStudy) -> None:
    after, before = fitted.errors
    together = fitted.correlation_rows()
    heads = [
        f"{fitted.estimator}: {len(fitted.fit.names)} parameters fitted to {len(fitted.objective.measured)} "
        f"measurements in log time ({fitted.method})",
        f"median |log(estimated / measured)|: {after:.3g} fitted, {before:.3g} before",
        *(f"warning: {line}" for line in fitted.calibration.warnings),
    ]
    emit(fitted.rows(), notes=heads)
    if len(together) > 1:
        emit(together, title="correlations of the fitted parameters")
    if fitted.held_out:
        emit(fitted.held_out_rows(), title="each group, fitted to the others")
