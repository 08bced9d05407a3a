"""The answer of every estimator, the question's run, and a measurement.

What an estimate's time goes into, by kind of operation, as a notebook shows it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

from slipstick.common.answer import Answer, Event, Provenance
from slipstick.common.errors import InputError
from slipstick.common.formatting import count_shown, ends_shown, format_quantity, share_shown, shown, shown_together
from slipstick.common.html_tables import html_table
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import Condition, NotUsed, conditions_lines
from slipstick.estimators.base.operation_shares import OperationTime as OperationTime
from slipstick.estimators.base.operation_shares import Parts
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.base.sureness import verdict_text
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    import pandas as pd


ROWS = 10
WORTH = 0.01
"""Share of the time from which what no operation takes is shown."""


def breakdown_html(parts: Sequence[OperationTime], time: float) -> str:
    """Kinds of operations, the longest first, in at most `ROWS` rows; "" where there are no parts.

    `time`: of the whole, in seconds: what the shares are of.
    """
    kinds: dict[str, list[OperationTime]] = {}
    for part in parts:
        kinds.setdefault(part.kind or part.name, []).append(part)
    ordered = sorted(kinds.items(), key=lambda one: -_seconds(one[1]))
    if len(ordered) > ROWS:
        least = ordered[ROWS - 1 :]
        rest = f"other: {', '.join(name for name, _ in least)}"
        ordered = [*ordered[: ROWS - 1], (rest, [part for _, inside in least for part in inside])]
    texts = shown_together([_seconds(inside) for _, inside in ordered], "s")
    rows = [
        (name, count_shown(sum(part.times for part in inside)), text, share_shown(_seconds(inside) / time), _by(inside))
        for (name, inside), text in zip(ordered, texts, strict=True)
    ]
    apart = time - sum(_seconds(inside) for _, inside in ordered)
    if rows and apart > WORTH * time:
        rows.append(("in no operation: host, waiting", "", shown(apart, "s"), share_shown(apart / time), ""))
    return html_table(("kind", "count", "time", "share", "bound by"), rows) if rows else ""


def _seconds(parts: Sequence[OperationTime]) -> float:
    return sum(part.contribution for part in parts)


def _by(parts: Sequence[OperationTime]) -> str:
    """What bounds most of the time of these."""
    bounds: dict[str, float] = {}
    for part in parts:
        bounds[part.bound_by or ""] = bounds.get(part.bound_by or "", 0.0) + part.contribution
    return max(bounds, key=lambda name: bounds[name])


DEFAULT_LEVEL = 0.80
REPEAT = 0.04
"""Standard deviation of the log of a time between two runs of the same program on the same machine: sweeps of training
steps that were measured twice are 0 to 7 % apart (docs/notes/seqpoint.md), a difference of two such runs."""
NOTHING = 1e-6
"""Share of a time below which nothing is left beside its parts but rounding."""
LARGEST_SPREAD = 100.0
"""Standard deviations of log time beyond it are no statement: a factor of e^100."""
FIXED, OVERLAP, BESIDE, WAITING = "fixed", "overlap", "side by side", "waiting"
"""Names of what is left of a time beside its parts; see `Estimate.remainder`."""
RunParameters = FrozenDict[float]
"""Numbers of one run (threads, images, epochs, workers, ...); they also bind workload symbols of their name."""


TRACED = 2_000
"""Operations of a graph whose answer carries a trace; those of larger ones carry none."""


@dataclass(frozen=True)
class Spread:
    """How sure an answer is: relative standard deviations (of log time); None is unknown, never 0.

    Parameters
    ----------
    parameter
        From the uncertainty of fitted parameters.
    residual
        Scatter of measurements around the fitted model.
    degrees_of_freedom
        Of the fit, for Student's t; None for many.
    residual_freedom
        Of the scatter's own Student's t, where its tails are heavier; then `residual` is its scale.
    common
        The part of `residual` that all answers of the model for the machine have alike: one of several libraries runs,
        and none was named. It cancels in a ratio of two of them.
    """

    parameter: float | None = None
    residual: float | None = None
    degrees_of_freedom: float | None = None
    residual_freedom: float | None = None
    common: float = 0.0

    @property
    def total(self) -> float | None:
        """Both together; None where neither is known."""
        known = [part for part in (self.parameter, self.residual) if part is not None]
        return math.hypot(*known) if known else None

    def half_width(self, level: float) -> float | None:
        """Half of the central interval of log time that holds with probability `level`; None where nothing is known."""
        parts = [
            (self.parameter, self.degrees_of_freedom),
            (self.residual, self.residual_freedom or self.degrees_of_freedom),
        ]
        known = [quantile(level, freedom) * part for part, freedom in parts if part is not None]
        return math.hypot(*known) if known else None


@dataclass(frozen=True)
class Estimate(Answer):
    """How long a workload takes on a machine, what else an estimator says of it, and how sure that is.

    An answer is a set of named quantities (`quantities`). Most estimators give one, the time; what else they give
    stands in `others`, and `head` names the one with which the answer begins.

    Parameters
    ----------
    time
        Seconds.
    energy
        Joules; None where the estimator does not say.
    parts
        Per operation.
    rule
        How the whole follows from the parts ("sum of parts", a formula, "simulated").
    fixed
        Seconds of the time that no operation takes: start-up, sessions, checkpoints.
    metrics
        Shares and utilisations by name, 0..1.
    metric_intervals
        Between what a measured metric lies with probability 80 %, for those whose scatter is known.
    assumptions
        What the answer takes for granted; shown first.
    least
        Seconds that physics needs: no band reaches below.
    sides
        Seconds that the device works and that its host works for it, by name, whichever of them makes the time.
    others
        Quantities that the estimator gives beside the time: rates, latencies, power, memory.
    name, head
        Of the time ("latency" where a request's is meant), and of the quantity with which the answer begins.
    band
        Ends of the 80 % band of the time [s] where they do not lie evenly around it; None: by `spread`.
    devices
        How many devices of the machine work.
    doubts
        What contradicts it in what was given, as a measured time far from the model's: a line each.
    work
        What it is for, in a line (`WorkTimed.text`); "" where nobody asked a question.
    provenance
        "measured" where it is a time that was taken itself, "calibrated" where measurements of one's own moved it.
    conditions
        What the time depends on beside sizes and peaks, each with who said it and by how much it widens the band; of an
        estimator without a question those that it decides itself.
    not_used
        What the question sets and the answer did not read; looked for by `question.unused_inputs.examined` alone.
    """

    time: float
    energy: float | None = None
    parts: Sequence[OperationTime] = ()
    rule: str = ""
    metrics: FrozenDict[float] = FrozenDict()
    spread: Spread = Spread()
    assumptions: tuple[str, ...] = ()
    trace: tuple[Event, ...] = field(default=(), repr=False)
    metric_intervals: FrozenDict[tuple[float, float]] = FrozenDict()
    fixed: float = 0.0
    least: float = 0.0
    sides: FrozenDict[float] = FrozenDict()
    others: tuple[Quantity, ...] = ()
    name: str = "time"
    head: str = ""
    band: tuple[float, float] | None = None
    devices: int = 1
    doubts: tuple[str, ...] = ()
    work: str = ""
    provenance: Provenance = "estimated"
    conditions: tuple[Condition, ...] = ()
    not_used: tuple[NotUsed, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time) and self.time > 0):
            raise InputError(f"estimated time = {self.time!r} s: want a finite time > 0")
        if self.band is not None and not 0 < self.band[0] <= self.time <= self.band[1] < math.inf:
            raise InputError(f"band of the estimated time = {self.band} s: want two finite times around {self.time} s")
        if self.energy is not None and not (math.isfinite(self.energy) and self.energy >= 0):
            raise InputError(f"estimated energy = {self.energy!r} J: want a finite energy >= 0")
        for name in ("parameter", "residual"):
            width = getattr(self.spread, name)
            if width is not None and not (0 <= width <= LARGEST_SPREAD):
                raise InputError(
                    f"{name} spread of the estimate = {width!r}: want 0 to {LARGEST_SPREAD:g} (of log time)"
                )

    def __repr__(self) -> str:
        band = self.interval()
        ends = f"80 % {_three(band[0])} to {_three(band[1])}" if band else "no band"
        return f"Estimate({_three(self.time)}, {ends}, operations: {len(self.parts):,})"

    def interval(self, level: float = DEFAULT_LEVEL) -> tuple[float, float] | None:
        """Seconds between which the measured time lies with probability `level`; None where the spread is unknown.

        An uneven band is that of two halves of a log-normal with one mode, so that each side grows with its own width.
        """
        if self.band is not None:
            wider = 1.0 if level == DEFAULT_LEVEL else quantile(level, None) / quantile(DEFAULT_LEVEL, None)
            low, high = self.band if wider == 1.0 else (self.time * (end / self.time) ** wider for end in self.band)
            return max(low, min(self.least, self.time)), high
        half = self.spread.half_width(level)
        if half is None:
            return None
        factor = math.exp(half)
        return max(self.time / factor, min(self.least, self.time)), self.time * factor

    @property
    def quantities(self) -> FrozenDict[Quantity]:
        """All that the answer says, by name: the time, energy, sides and shares where known, then `others`."""
        low, high = self.interval() or (None, None)
        known = [Quantity(self.name, self.time, "s", low, high)]
        known += [] if self.energy is None else [Quantity("energy", self.energy, "J")]
        known += [Quantity(name, seconds, "s") for name, seconds in self.sides.items() if seconds > 0]
        for name, share in self.metrics.items():
            low, high = self.metric_intervals.get(name, (None, None))
            known.append(Quantity(name, share, "1", low, high, "neither"))
        return FrozenDict({one.name: one for one in (*known, *self.others)})

    @property
    def headline(self) -> Quantity:
        """The quantity with which the answer begins: the time, unless the estimator or the question says another.

        Raises
        ------
        InputError
            Where the answer does not give it.
        """
        name, known = self.head or self.name, self.quantities
        if name not in known:
            raise unknown_name("quantity of this answer", name, list(known))
        return known[name]

    def write_trace(self, path: str | os.PathLike[str]) -> int:
        """Write the simulated trace as a Chrome trace, each lane a thread; returns how many events it has.

        Raises
        ------
        InputError
            Where the answer has no trace.
        """
        if not self.trace:
            raise InputError(
                f"{path}: this answer has no timeline (its time is {self.rule or 'no schedule'}): schedules that place "
                f"each operation have one (roofline-dispatch, contended-dispatch, of at most {TRACED:,} operations; "
                "phi-simulated, phi-queue; your own), and jobs with --simulate"
            )
        return super().write_trace(path)

    def events(self) -> Sequence[Event]:
        """Where each operation ran, of a schedule that places them."""
        return self.trace

    def about(self, name: str) -> Estimate:
        """The answer about one of its quantities; one in seconds becomes its time, with its own parts and band.

        Raises
        ------
        InputError
            Where the answer does not give it; those that it gives are listed.
        """
        wanted = replace(self, head=name).headline
        if wanted.unit != "s" or name == self.name:
            return replace(self, head=name)
        rest = (self.quantities[self.name], *(one for one in self.others if one.name != name))
        sides = FrozenDict({side: seconds for side, seconds in self.sides.items() if side != name})
        parts = tuple(OperationTime(part, part, seconds) for part, seconds in wanted.parts.items())
        even = math.log(wanted.high / wanted.low) / 2 if wanted.low and wanted.high else None
        spread = Spread() if even is None else Spread(residual=even / quantile(DEFAULT_LEVEL, None))
        return replace(
            self, time=wanted.value, name=name, head=name, parts=parts, others=rest, band=wanted.band, spread=spread,
            trace=(), fixed=0.0, least=0.0, sides=sides,
        )  # fmt: skip

    @property
    def remainder(self) -> FrozenDict[float]:
        """Seconds by name that the parts leave of the time: with the parts' contributions they sum to it.

        fixed: no operation's; overlap: several lanes work, so that no operation alone would save it; side by side
        (below 0): operations that run beside others, where the schedule gives no more than their work; waiting: no
        operation works.
        """
        if not self.parts:
            return FrozenDict()
        left = self.time - self.fixed - math.fsum(Parts.of(self.parts).contributions.tolist())
        known = all(part.elapsed is not None for part in self.parts)
        name = BESIDE if left < 0 else OVERLAP if known else WAITING
        seconds = {FIXED: self.fixed, name: left}
        return FrozenDict({name: each for name, each in seconds.items() if abs(each) > NOTHING * self.time})

    def rows(self) -> list[dict[str, Any]]:
        """`to_frame` as plain values, one row an operation."""
        return [{str(name): value for name, value in row.items()} for row in self.to_frame().to_dict("records")]

    def to_frame(self) -> pd.DataFrame:
        """One row an operation: time_s of one execution, times, total_s, share of the whole, bound_by.

        The column total_s is of seconds of the whole that it accounts for; with `remainder` they sum to the time.
        """
        import pandas as pd

        rows = [
            (p.name, p.kind, p.time, p.times, p.contribution, p.contribution / self.time, p.bound_by)
            for p in self.parts
        ]
        return pd.DataFrame(rows, columns=["operation", "kind", "time_s", "times", "total_s", "share", "bound_by"])

    @property
    def heads(self) -> tuple[str, ...]:
        """The time with its band, what it is for, and what was given and not used."""
        band = self.interval()
        whole = _three(self.time) + (f" (80 %: {ends_shown(*band)})" if band else " (spread unknown)")
        whole += verdict_text(self.quantities[self.name].within)
        work = (f"work: {self.work}",) if self.work else ()
        return (whole, *work, *(one.text() for one in self.not_used))

    @property
    def notes(self) -> tuple[str, ...]:
        """On what it depends, and what was assumed."""
        return (*conditions_lines(self.conditions), *self.assumptions)

    def picture_html(self) -> str:
        """What the time goes into, by kind of operation."""

        return breakdown_html(self.parts, self.time)


def _three(seconds: float) -> str:
    return format_quantity(float(f"{seconds:.3g}"), "s")


def quantile(level: float, degrees_of_freedom: float | None) -> float:
    """Half-width of a central interval in standard deviations, Student's t where the degrees of freedom are known.

    Raises InputError where `level` is no probability between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(f"level = {level!r}: want a probability between 0 and 1")
    upper = 0.5 + level / 2
    if degrees_of_freedom is None:
        return NormalDist().inv_cdf(upper)
    from scipy.special import stdtrit

    return float(stdtrit(max(degrees_of_freedom, 1.0), upper))


@dataclass(frozen=True)
class Measurement:
    """A measured quantity of a workload on a machine.

    Parameters
    ----------
    value
        In seconds, joules, watts or as a share, by `quantity`.
    protocol
        How it was taken ("cold, trimmed mean of 100 runs, thread CPU time").
    group
        What is held out together (a device, a source); "" for none.
    """

    workload: Workload
    machine: Machine
    value: float
    run: RunParameters = FrozenDict()
    quantity: Literal["time", "energy", "power", "share"] = "time"
    protocol: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise InputError(f"measured {self.quantity} = {self.value!r}: want a finite value > 0")
