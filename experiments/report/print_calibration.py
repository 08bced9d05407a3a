"""What `slipstick calibrate` prints and writes of a fit: parameters, warnings, groups left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import read_toml, unknown_name
from slipstick.estimators.fitting.calibration_file import save
from slipstick.experiments.calibrate.device_study import device_study, is_device_study
from slipstick.experiments.report.device_report import report_devices
from slipstick.experiments.report.fit_chart import draw_fit
from slipstick.experiments.report.output import show
from slipstick.experiments.studies.fitted_study import INTERVALS, fit_study
from slipstick.experiments.studies.study_records import with_todays_keys


def spans_devices(path: str) -> bool:
    """Whether a study file calibrates operations across devices.

    Raises InputError where it cannot be read.
    """
    return is_device_study(read_toml(path))


def calibrate_study(
    path: str,
    intervals: str | None,
    level: float,
    out: str | None,
    form: str,
    allow_code: Sequence[str] = (),
    plot: str | None = None,
) -> None:
    """Fit, report, and write `out` and the picture `plot`.

    `level`: probability of the intervals.
    `form`: table, json or csv.
    Raises InputError where the study has no [fit], or a name or number cannot be used.
    """
    if intervals is not None and intervals not in INTERVALS:
        raise unknown_name("intervals", intervals, INTERVALS)
    if not 0 < level < 1:
        raise InputError(f"--level {level:g}: want a probability between 0 and 1")
    document = read_toml(path)
    if is_device_study(document):
        report_devices(device_study(with_todays_keys(document, path), path), Path(path).parent, out, form)
        return
    fitted = fit_study(path, intervals, level, allow_code)
    if out:
        save(fitted.calibration, fitted.estimator, out)
    if plot:
        draw_fit(fitted.objective, fitted.fit, Path(plot))
    written = {"calibration": out, "picture": plot}
    show(fitted, form, [f"{what}: {path}" for what, path in written.items() if path])
