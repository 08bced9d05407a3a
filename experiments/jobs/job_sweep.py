"""What varies of a simulated job: every combination of axes, with the same seeds as today; or by its formula."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.experiments.jobs.job_file import JobQuestion
from slipstick.experiments.jobs.simulate_job import (
    FEWEST,
    LOST,
    PERCENTILES,
    Progress,
    quiet,
    require_services,
    runs_of,
    services_limit,
    simulate,
)

if TYPE_CHECKING:
    import pandas as pd

MOST_POINTS = 1_000


def sweep(
    question: JobQuestion,
    axes: Sequence[tuple[str, Sequence[str]]],
    runs: int | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> pd.DataFrame:
    """Every combination of the axes: ratios to today with the same seeds, so that chance cancels where it can.

    Columns: the names that vary, time_ratio (median over runs), low_ratio and high_ratio (80 %), time_s (median),
    p90_s, p99_s, formula_s (of a formula without waiting, or the file's), step_s, idle, and where failures cost some
    of the time of a point, lost (`LOST_TEXT`).
    Raises InputError where the points are more than `MOST_POINTS`.
    """
    import pandas as pd

    changed = [(one, question.using([f"{name}={value}" for name, value in one])) for one in _points(axes)]
    jobs = [one.job()[0] for one in (question, *(point for _, point in changed))]
    most = services_limit(question)
    if runs is None:
        runs = question.file.runs or max(
            FEWEST, min(runs_of(jobs[0]), most // max(1, sum(job.services() for job in jobs)))
        )
    require_services(jobs, runs, most)
    today = simulate(question, runs=runs, seed=seed)
    rows = []
    for number, (values, point) in enumerate(changed, 1):
        simulated = simulate(point, runs=today.runs, seed=seed)
        progress(number, len(changed))
        ratios = simulated.numbers["time_s"] / today.numbers["time_s"]
        low, middle, high = np.percentile(ratios, [10, 50, 90])
        times = np.percentile(simulated.numbers["time_s"], PERCENTILES)
        row: dict[str, Any] = {name: _number(value) for name, value in values}
        row |= {"time_ratio": middle, "low_ratio": low, "high_ratio": high}
        row |= {"time_s": times[0], "p90_s": times[1], "p99_s": times[2]}
        row |= {"formula_s": simulated.formula, "step_s": float(np.mean(simulated.steps))}
        shares = {name: float(np.mean(simulated.numbers.get(name, 0.0))) for name in ("idle", LOST)}
        rows.append({**row, **shares})
    frame = pd.DataFrame(rows)
    return frame if frame[LOST].any() else frame.drop(columns=LOST)


def formula_sweep(question: JobQuestion, axes: Sequence[tuple[str, Sequence[str]]]) -> pd.DataFrame:
    """Every combination of the axes by the job's formula: the names that vary, time_ratio (to today), time_s, step_s.

    Raises InputError where the points are more than `MOST_POINTS`.
    """
    import pandas as pd

    points = _points(axes)
    today, _ = question.formula(question.job()[0])
    rows: list[dict[str, Any]] = []
    for changes in points:
        changed = question.using([f"{name}={value}" for name, value in changes])
        job = changed.job()[0]
        seconds, _ = changed.formula(job)
        row: dict[str, Any] = {name: _number(value) for name, value in changes}
        rows.append({**row, "time_ratio": seconds / today, "time_s": seconds, "step_s": seconds / job.steps})
    return pd.DataFrame(rows)


def _points(axes: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[tuple[str, str], ...]]:
    """Every combination of the axes as names with values."""
    count = int(np.prod([len(values) for _, values in axes]))
    if count > MOST_POINTS:
        raise InputError(f"{count} points: want at most {MOST_POINTS} simulated ones")
    return list(product(*[[(name, value) for value in values] for name, values in axes]))


def axis_of(text: str) -> tuple[str, tuple[str, ...]]:
    """``name=v1,v2`` or ``name=low..high:n`` (even steps) or ``:nlog`` (equal ratios) as texts of values.

    Raises InputError where the text has another form.
    """
    name, equals, written = (part.strip() for part in text.partition("="))
    if not equals or "." not in name or not written:
        raise InputError(f"{text[:60]!r}: want NAME=VALUES, such as job.copies=1,4,16 or job.population=1..240:9log")
    low, dots, rest = written.partition("..")
    if not dots:
        return name, tuple(part.strip() for part in written.split(","))
    high, _, steps = rest.partition(":")
    log = steps.endswith("log")
    try:
        first, last, count = float(low), float(high), int(steps.removesuffix("log") or 2)
    except ValueError:
        raise InputError(f"{text[:60]!r}: want plain numbers, name=low..high:n") from None
    if not (last > first and 2 <= count <= 1000 and (first > 0 or not log)):
        raise InputError(f"{text[:60]!r}: want high > low and 2 to 1000 steps, and low > 0 for equal ratios")
    values = np.geomspace(first, last, count) if log else np.linspace(first, last, count)
    whole = first == round(first) and last == round(last)
    return name, tuple(dict.fromkeys(f"{round(v)}" if whole else f"{v:.6g}" for v in values))


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
