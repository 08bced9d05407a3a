"""Models composed from measured bricks, with what the framework adds calibrated on each machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.base.schedule_model import Schedule
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import Calibration, calibrate, from_fit
from slipstick.estimators.fitting.objective import Objective
from slipstick.estimators.roofline.measured_table import MeasuredTimes, measured_key
from slipstick.estimators.schedules.critical_path import CriticalPath
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.experiments.measure.bricks.brick_store import BrickStore, Composition, MeasuredBricks
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.bricks import find_bricks, quotient

PARAMETERS = ("operation.scale", "operation.overhead")
TOLERANCE = 1e-8
SCHEDULES: Mapping[str, Schedule] = {"sequential": Sequential(), "critical-path": CriticalPath()}


def composed(workload: Workload, granularity: int) -> Workload:
    """The workload as bricks of at most `granularity` layers."""
    return quotient(workload, find_bricks(workload, granularity))


def as_workload(composition: Composition) -> Workload:
    """A model known by its bricks alone; their order is not known, so only their sum is known."""
    return Workload(
        composition.name,
        tuple(
            Op(f"brick{i}", "brick", times=count, attributes=FrozenDict({"measured_as": identity}))
            for i, (identity, count) in enumerate(composition.bricks.items())
        ),
    )


def composer(measured: MeasuredBricks, schedule: Schedule | None = None) -> ComposedEstimator:
    """Measured bricks under a schedule (sequential if None), warm where both cold and warm ones are known."""
    both = bool(measured.cold)
    table = MeasuredTimes(
        measured.cold if both else measured.warm,
        measured.machine.fingerprint,
        measured.protocol,
        "measured bricks",
        warm=measured.warm if both else FrozenDict(),
        warmth=1.0 if both else 0.0,
    )
    return ComposedEstimator(table, schedule or Sequential(), "DLBricks (Li et al. 2020)")


def whole_models(measured: MeasuredBricks, known: Iterable[Composition]) -> dict[str, Measurement]:
    """The models of which every brick and the whole are measured, by name."""
    return {
        one.name: Measurement(
            as_workload(one), measured.machine, measured.warm[one.whole], protocol=measured.protocol, group=one.name
        )
        for one in known
        if one.whole in measured.warm and all(identity in measured.warm for identity in one.bricks)
    }


def calibrated(
    measured: MeasuredBricks,
    known: Iterable[Composition],
    schedule: Schedule | None = None,
    free: Sequence[str] = PARAMETERS,
) -> Calibration | ComposedEstimator:
    """The composer with what the framework adds fitted to whole models; as it is without more of them than parameters.

    The sum of bricks is what is fitted; another schedule takes over its parameters.
    """
    wholes = list(whole_models(measured, known).values())
    plain = composer(measured)
    if len(wholes) <= len(free):
        return composer(measured, schedule)
    fit = calibrate(plain, wholes, free, source=f"{len(wholes)} whole models")
    if schedule is None:
        return fit
    return replace(fit, estimator=ComposedEstimator(fit.estimator.operation, schedule, fit.estimator.source))


@dataclass(frozen=True)
class ModelScore:
    """One model: its latency composed without it in the calibration, and measured; seconds."""

    name: str
    layers: int
    plain: float
    calibrated: float
    measured: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Composed over measured, less one."""
        return self.calibrated / self.measured - 1


def leave_one_model_out(
    measured: MeasuredBricks, known: Iterable[Composition], free: Sequence[str] = PARAMETERS
) -> list[ModelScore]:
    """Every model with what the framework adds fitted to the others; models not wholly measured are left out.

    Raises InputError where so few models are complete that the others of one are no more than the parameters.
    """
    complete = whole_models(measured, known)
    if len(complete) < len(free) + 2:
        raise InputError(f"{len(complete)} models have all their bricks measured: want at least {len(free) + 2}")
    plain, wholes = composer(measured), list(complete.values())
    objective = Objective.of(plain, wholes, free)
    start = np.array(objective.fit(tolerance=TOLERANCE).values)
    scores = []
    for index, (name, held) in enumerate(complete.items()):
        others = [i for i in range(len(wholes)) if i != index]
        fit = from_fit(
            plain, objective.some(others).fit(start=start, tolerance=TOLERANCE), source=f"{len(others)} other models"
        )
        answer = fit.estimate(held.workload, measured.machine)
        low, high = answer.interval() or (np.nan, np.nan)
        alone = plain.estimate(held.workload, measured.machine).time
        layers = sum(int(op.times) for op in held.workload)
        scores.append(ModelScore(name, layers, alone, answer.time, held.value, low, high))
    return scores


def summary(scores: Sequence[ModelScore]) -> dict[str, float]:
    """Ratios of composed to measured times: geometric mean (plain and calibrated), mean and worst error, coverage."""
    plain = np.array([score.plain / score.measured for score in scores])
    ratio = np.array([score.calibrated / score.measured for score in scores])
    return {
        "models": float(len(scores)),
        "geomean_plain": float(np.exp(np.mean(np.log(plain)))),
        "geomean": float(np.exp(np.mean(np.log(ratio)))),
        "mean_error": float(np.mean(np.abs(ratio - 1))),
        "worst_error": float(np.max(np.abs(ratio - 1))),
        "coverage": float(np.mean([score.low <= score.measured <= score.high for score in scores])),
    }


def latencies(
    workloads: Mapping[str, Workload], granularity: int, stores: Sequence[BrickStore], schedule: Schedule | None = None
) -> list[dict[str, Any]]:
    """Latency and price of every model on every machine that the stores know, fastest first; nothing is run.

    A model's own whole time, where it was measured, is not fitted to, only shown.
    """
    rows: list[dict[str, Any]] = []
    for store in stores:
        known = store.models(granularity)
        for measured in store.measured():
            for name, workload in workloads.items():
                rows.append(_latency(name, workload, granularity, measured, known, schedule))
    return sorted(rows, key=lambda row: row["time_s"] or float("inf"))


def _latency(
    name: str,
    workload: Workload,
    granularity: int,
    measured: MeasuredBricks,
    known: Sequence[Composition],
    schedule: Schedule | None,
) -> dict[str, Any]:
    parts, machine = composed(workload, granularity), measured.machine
    whole = measured_key(composed(workload, len(workload)).operations[0])
    row: dict[str, Any] = {"model": name, "machine": machine.name, "time_s": None, "low_s": None, "high_s": None}
    reason, fitted = "", 0
    try:
        estimator = calibrated(measured, [one for one in known if one.whole != whole], schedule)
        answer = estimator.estimate(parts, machine)
        row["time_s"] = answer.time
        row["low_s"], row["high_s"] = answer.interval() or (None, None)
        fitted = len(estimator.uncertainty.residuals) if estimator.uncertainty else 0
    except InputError as error:
        reason = str(error)
    hourly = machine.price / 3600 if machine.price else None
    return row | {
        "dollars_per_million": hourly * row["time_s"] * 1e6 if hourly and row["time_s"] else None,
        "measured_s": measured.warm.get(whole),
        "bricks": len(parts),
        "fitted_to": fitted,
        "software": measured.software,
        "protocol": measured.protocol,
        "reason": reason,
    }


def schedule_named(name: str, rules: Sequence[str] = (), workers: int | None = None) -> Schedule:
    """ "sequential", "critical-path", or "rules" with what may run side by side.

    Raises InputError where the name or a rule is unknown.
    """
    if name == "rules":
        from slipstick.estimators.schedules.parallel_operations import SideBySide, parse_rule

        return SideBySide(tuple(parse_rule(rule) for rule in rules), workers)
    if rules or workers is not None:
        raise InputError(f"schedule {name!r} takes no rules and no workers: want --schedule rules")
    if name not in SCHEDULES:
        raise unknown_name("schedule", name, [*SCHEDULES, "rules"])
    return SCHEDULES[name]


def advice(rows: Sequence[Mapping[str, Any]], within: float | None = None) -> list[dict[str, Any]]:
    """Which machine for each model, which model for each machine: the fastest, and the cheapest within a latency [s].

    The upper end of the interval has to lie within, where there is one.
    """
    lines: list[dict[str, Any]] = []
    for wanted, offered in (("model", "machine"), ("machine", "model")):
        for name in sorted({str(row[wanted]) for row in rows}):
            chosen = [row for row in rows if row[wanted] == name and row["time_s"] is not None]
            fitting = [row for row in chosen if within is None or (row["high_s"] or row["time_s"]) <= within]
            priced = [row for row in fitting if row["dollars_per_million"] is not None]
            fastest = min(fitting, key=lambda row: row["time_s"], default=None)
            cheapest = min(priced, key=lambda row: row["dollars_per_million"], default=None)
            lines.append(
                {
                    "for": f"{wanted} {name}",
                    "known": len(chosen),
                    "within": len(fitting),
                    "fastest": fastest[offered] if fastest else None,
                    "time_s": fastest["time_s"] if fastest else None,
                    "cheapest": cheapest[offered] if cheapest else None,
                    "dollars_per_million": cheapest["dollars_per_million"] if cheapest else None,
                }
            )
    return lines
