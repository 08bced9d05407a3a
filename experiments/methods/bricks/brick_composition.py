"""Models composed from measured bricks, with what the framework adds from the first model on.

A brick that runs again at once finds its weights and the framework's code in the caches; inside a model it finds some
of both. How much of that comes back, and how far a model differs from its bricks' sum, is a law (`WHOLE_LAW`) that was
fitted to other machines; whole models that were measured on the user's move it as far as they predict each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.schedule_model import Schedule
from slipstick.estimators.bricks.brick_law import WHOLE_LAW, extra_seconds, shipped
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.fitted_model import LawFit, LawRows
from slipstick.estimators.fitting.updated_model import with_known
from slipstick.estimators.roofline.measured_table import MeasuredTimes, measured_key
from slipstick.estimators.schedules.critical_path import CriticalPath
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.experiments.measure.bricks.brick_store import BrickStore, Composition, MeasuredBricks
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.bricks import find_bricks, quotient

LAW = WHOLE_LAW
CONFIGURATION = ("whole", "network")
"""Parameter and level of the law that take what rows of one network have in common."""
UNSEEN = "a network that was not measured"
WORTH = 4.0
"""Whole models of the machine that the scatter of others is worth."""
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


def whole_models(measured: MeasuredBricks, known: Iterable[Composition]) -> list[Composition]:
    """The models of which every brick and the whole are measured."""
    return [one for one in known if one.whole in measured.warm and all(brick in measured.warm for brick in one.bricks)]


def law_rows(measured: MeasuredBricks, models: Sequence[Composition], source: str = "") -> LawRows:
    """Whole models as rows of `WHOLE_LAW`; a model whose whole was not measured takes 1 s.

    Where bricks were timed warm alone, each is given what others took longer cold (`extra_seconds`).
    """
    warm = [sum(measured.warm[brick] * count for brick, count in one.bricks.items()) for one in models]
    counts = [sum(one.bricks.values()) for one in models]
    cold = [sum(measured.cold.get(brick, 0.0) * count for brick, count in one.bricks.items()) for one in models]
    extra = np.subtract(cold, warm) if measured.cold else np.multiply(counts, extra_seconds())
    names, machine = [one.name for one in models], [measured.machine.fingerprint] * len(models)
    return LawRows(
        {"warm": np.array(warm), "extra": np.maximum(extra, 0.0)},
        {"family": machine, "instance": machine, "host": machine, "network": names, "caches": names},
        names,
        np.array([measured.warm.get(one.whole, 1.0) for one in models]),
        [source] * len(models),
    )


@dataclass(frozen=True, eq=False)
class Composer:
    """Measured bricks, and what a framework adds to them by what ships and by whole models of this machine.

    `known`: how many whole models moved the law.
    """

    measured: MeasuredBricks
    fit: LawFit
    known: int

    @classmethod
    def of(cls, measured: MeasuredBricks, known: Sequence[Composition], prior: LawFit | None = None) -> Composer:
        """From whole models of the machine (`whole_models`), if any, and the `prior`, None for what ships.

        How far models lie from the law is a scatter of `WORTH` models of others and of those of the machine.
        """
        fit = prior or shipped()
        if not known:
            return cls(measured, fit, 0)
        rows = law_rows(measured, known)
        moved = with_known(fit, LAW, rows, CONFIGURATION).fit
        unseen = dict.fromkeys(("network", "caches"), [UNSEEN] * len(rows))
        apart = np.log(rows.seconds / moved.seconds(LAW, rows.columns, {**rows.groups, **unseen}))
        squares = WORTH * max(fit.scatter.values()) ** 2 + float(apart @ apart)
        widths = {**moved.widths, CONFIGURATION: fit.widths[CONFIGURATION]}
        scatter = {"": float(np.sqrt(squares / (WORTH + len(rows))))}
        return cls(measured, replace(moved, widths=widths, scatter=scatter), len(known))

    def time(self, parts: Workload, schedule: Schedule | None = None) -> tuple[float, float, float]:
        """Seconds of a model in bricks, and the ends of its 80 % band; one brick after the other if `schedule` is None.

        Raises InputError where a brick was not measured.
        """
        missing = [op.name for op in parts if measured_key(op) not in self.measured.warm]
        if missing:
            named = f"{', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}"
            raise InputError(f"no measured time for {named}")
        counts: dict[str, int] = {}
        for op in parts:
            counts[measured_key(op)] = counts.get(measured_key(op), 0) + int(op.times)
        row = law_rows(self.measured, [Composition(UNSEEN, "", FrozenDict(counts))])
        values = {name: float(value[0]) for name, value in self.fit.values(LAW, row.groups).items()}
        both, share = bool(self.measured.cold), values["share"]
        table = MeasuredTimes(
            self.measured.cold if both else self.measured.warm,
            self.measured.machine.fingerprint,
            self.measured.protocol,
            "measured bricks",
            scale=values["whole"],
            overhead=0.0 if both else values["whole"] * share * extra_seconds(),
            warm=self.measured.warm if both else FrozenDict(),
            warmth=1.0 - share if both else 0.0,
        )
        source = "DLBricks (Li et al. 2020)"
        composed = ComposedEstimator(table, schedule or Sequential(), source)
        seconds = values["start"] + composed.estimate(parts, self.measured.machine).time
        band = float(np.exp(self.fit.half_width(LAW, row.columns, row.groups)[0]))
        return seconds, seconds / band, seconds * band


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
    measured: MeasuredBricks, known: Iterable[Composition], prior: LawFit | None = None
) -> list[ModelScore]:
    """Every model composed with the others as evidence beside the `prior` (what ships, if None).

    Models that are not wholly measured are left out.
    Raises InputError where none is.
    """
    complete = whole_models(measured, known)
    if not complete:
        raise InputError("no model has all its bricks and its whole measured: want at least one")
    scores = []
    for held in complete:
        composer = Composer.of(measured, [one for one in complete if one is not held], prior)
        time, low, high = composer.time(as_workload(held))
        alone = sum(measured.warm[brick] * count for brick, count in held.bricks.items())
        layers = sum(held.bricks.values())
        scores.append(ModelScore(held.name, layers, alone, time, measured.warm[held.whole], low, high))
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
    composer = Composer.of(measured, whole_models(measured, [one for one in known if one.whole != whole]))
    reason = ""
    try:
        row["time_s"], row["low_s"], row["high_s"] = composer.time(parts, schedule)
    except InputError as error:
        reason = str(error)
    hourly = machine.price / 3600 if machine.price else None
    return row | {
        "dollars_per_million": hourly * row["time_s"] * 1e6 if hourly and row["time_s"] else None,
        "measured_s": measured.warm.get(whole),
        "bricks": len(parts),
        "fitted_to": composer.known,
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
