"""What `slipstick calibrate` says of a calibration across devices."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from slipstick.common.formatting import ratio_shown
from slipstick.estimators.gpu.transfer.devices_file import save, summary
from slipstick.estimators.gpu.transfer.operation_times import Violation
from slipstick.experiments.calibrate.device_study import DeviceAnswer, DeviceStudy, calibrate_devices
from slipstick.experiments.calibrate.leave_one_device_out_report import DeviceLeftOut
from slipstick.experiments.report.output import emit

EXAMPLES = 5


def report_devices(study: DeviceStudy, folder: Path, out: str | None, form: str) -> None:
    """Fit, leave every machine out, warn of impossible rows, and write `out`."""
    answer = calibrate_devices(study, folder, _spoken)
    if out:
        save(answer.calibration, out)
    table = [left_out_row(one, study.level) for one in answer.left_out]
    if form == "json":
        flagged = [violation_row(one) for one in answer.violations]
        emit([{**summary(answer.calibration), "held_out": table, "impossible": flagged}], form)
        return
    if form == "csv":
        emit(table, form)
        return
    made = answer.calibration
    heads = [
        f"{study.name}: {answer.rows} measurements, {len(made.machines)} machines, "
        f"{len(made.classes)} classes of operations ({', '.join(one.name for one in made.classes)})",
        *_anchored(answer),
        *impossible_lines(answer.violations, study.fit.impossible),
        f"each machine predicted from the others; its band is of {study.level:.0%}:",
    ]
    emit([{key: value for key, value in row.items() if value is not None} for row in _filled(table)], form, notes=heads)
    if out:
        print(f"calibration: {out} (slipstick estimate WORKLOAD --on MACHINE --calibration {out})")


def left_out_row(one: DeviceLeftOut, level: float) -> dict[str, Any]:
    """A row of the table; shares and ratios without unit."""
    row: dict[str, Any] = {
        "machine": one.machine,
        "operation": one.operation,
        "rows": one.rows,
        "roofline_MAPE": one.roofline,
        "four_number_MAPE": one.calibrated_roofline,
        "MAPE": one.pooled.mape,
        "median_log_error": one.pooled.median,
        "ninetieth_log_error": one.pooled.ninetieth,
        "coverage": one.pooled.coverage,
        "high_over_low": one.pooled.width,
        "interval_score": one.pooled.interval,
        "interval_level": level,
        "noise_floor": one.noise_floor,
    }
    for name, field in (("MAPE", "mape"), ("coverage", "coverage"), ("high_over_low", "width")):
        row[f"anchored_{name}"] = getattr(one.anchored, field) if one.anchored else None
    return row


def violation_row(one: Violation) -> dict[str, Any]:
    """Rows of one form that undercut a bound."""
    return {
        "file": one.source,
        "machine": one.machine,
        "operation": one.operation,
        "bound": one.bound,
        "impossible": len(one.rows),
        "rows": one.total,
        "times_too_fast": one.worst,
        "example": one.example,
    }


def impossible_lines(violations: list[Violation], impossible: str) -> list[str]:
    """A warning, and the worst examples."""
    if not violations:
        return ["physics: no row is faster than its arithmetic, or than main memory where no cache holds it"]
    done = "kept: impossible = 'drop' leaves them out" if impossible == "keep" else "left out"
    counts = Counter[tuple[str, str, str]]()
    for one in violations:
        counts[one.source, one.machine, one.bound] += len(one.rows)
    lines = [f"warning: {sum(counts.values())} rows are faster than physics allows ({done})"]
    lines += [
        f"  {source}: {name}: {count} faster than {bound}" for (source, name, bound), count in counts.most_common()
    ]
    worst = sorted(violations, key=lambda one: -one.worst)[:EXAMPLES]
    return lines + [
        f"  {ratio_shown(one.worst)} x too fast: {one.machine}, {one.operation}, {one.example}" for one in worst
    ]


def _anchored(answer: DeviceAnswer) -> list[str]:
    names = sorted({form.machine.name for form in answer.calibration.anchors})
    return [f"too few rows for a fit, taken as anchors: {', '.join(names)}"] if names else []


def _filled(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns that any row fills; the level is given above, the interval score and more stand in CSV and JSON."""
    hidden = {"interval_level", "interval_score", "ninetieth_log_error"}
    kept = (
        [key for key in table[0] if key not in hidden and any(row[key] is not None for row in table)] if table else []
    )
    return [{key: "" if row[key] is None else row[key] for key in kept} for row in table]


def _spoken(done: str) -> None:
    """What is done, on a terminal's error stream."""
    if sys.stderr.isatty():
        print(done, file=sys.stderr)
