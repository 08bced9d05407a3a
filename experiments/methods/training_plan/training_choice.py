"""The plan of a training: the fastest layouts, each an estimate, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstick.common.answer import Answer, Provenance
from slipstick.common.columns import Column, in_seconds
from slipstick.common.formatting import count_shown, money_shown, share_shown, shown
from slipstick.estimators.base.conditions import Condition, NotUsed, conditions_lines, depends_on, remarks_of
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.sureness import sure_row, verdict_text
from slipstick.estimators.power.facility import Facility
from slipstick.estimators.training.layout_memory import band_text, fit_of
from slipstick.estimators.training.own_steps import StepCalibration
from slipstick.estimators.training.time_breakdown import PARTS
from slipstick.estimators.training.training_estimator import WORDS, answer_of
from slipstick.estimators.training.training_step_answer import TrainingStepAnswer, known_text
from slipstick.experiments.methods.training_plan.whole_run import WholeRun

SHOWN = ("layout", "devices", "step_s", "low_s", "high_s", "tokens_per_s", "mfu", "memory_gb", "fits", "largest_part")


def row_of(step: TrainingStepAnswer) -> dict[str, Any]:
    """A step as a row of a table: the quantities of its estimate, under the keys of a plan, and seconds by part."""
    known = answer_of(step).quantities

    def value(name: str) -> float | None:
        return known[name].value if name in known else None

    time, memory, power = known["time"], known["memory"], known.get("power")
    return {
        "layout": step.layout.text(),
        "devices": step.layout.devices,
        "step_s": time.value,
        "low_s": time.low,
        "high_s": time.high,
        **sure_row(time.within),
        "tokens_per_s": value("tokens"),
        "mfu": value("mfu"),
        "memory_gb": memory.value / 1e9,
        "low_memory_gb": None if memory.low is None else memory.low / 1e9,
        "high_memory_gb": None if memory.high is None else memory.high / 1e9,
        "fits": fit_of(step.stages, step.of.capacity),
        "power_W": value("power"),
        "low_power_W": None if power is None else power.low,
        "high_power_W": None if power is None else power.high,
        "energy_J_per_token": value("energy"),
        "cost_usd_per_million_tokens": value("cost"),
        "largest_part": step.time.bound,
        **{f"{name}_s": step.time.parts[name] for name in PARTS},
    }


@dataclass(frozen=True, repr=False)
class TrainingPlan(Answer):
    """The best layouts, fastest first.

    Parameters
    ----------
    flop
        Model flop of a token.
    peak
        Flop/s of a device in the precision of the layers' products, by which MFU counts.
    bound
        Seconds below which no layout of these devices comes.
    joined
        Devices that the machine's links join by its file; beyond them the last link's rate is assumed to hold.
    capacity
        Bytes of a device's main memory.
    fitted, doubtful, short, refused
        Layouts that fit in memory; that may not; that do not; those that do not divide.
    tight
        The fastest layout that may not fit, where it is faster than the best; None where there is none.
    calibration
        Factors fitted to measured steps of one's own; None without them.
    outside
        Where the question leaves the runs that the terms were fitted to, none where measured steps calibrate them; that
        a power cap holds the clock.
    grown
        The measured layout of most devices with more data ranks, so that it fills the devices; None where it cannot.
    facility, price
        Hosts and building beside the devices; the price of a device's hour in words.
    run
        The whole run of which these are steps.
    given, not_used
        What of the machine the question sets; what of it the steps do not read.
    """

    model: str
    machine: str
    devices: int
    batch: int
    sequence: int
    precision: str
    flop: float
    peak: float
    bound: float
    joined: int
    best: tuple[TrainingStepAnswer, ...]
    capacity: float
    fitted: int
    doubtful: int
    short: int
    refused: int
    calibration: StepCalibration | None = None
    grown: TrainingStepAnswer | None = None
    tight: TrainingStepAnswer | None = None
    outside: tuple[str, ...] = ()
    facility: Facility = Facility()
    price: str = ""
    run: WholeRun = WholeRun()
    given: tuple[Condition, ...] = ()
    not_used: tuple[NotUsed, ...] = ()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What is set of the machine, then what trains."""
        return (*self.given, *self.best[0].conditions)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What contradicts the plan in what was measured; what makes the bands wider, each with its factor."""
        return (*(self.calibration.doubts if self.calibration else ()), *remarks_of(self.conditions))

    @property
    def depends(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """Conditions, and what was set and not used."""
        return depends_on(self.conditions, self.not_used)

    @property
    def provenance(self) -> Provenance:
        """ "calibrated" where measured steps moved the law."""
        return "estimated" if self.calibration is None else "calibrated"

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The best layouts as answers, what `estimate` says of each."""
        return tuple(map(answer_of, self.best))

    def rows(self) -> list[dict[str, Any]]:
        """The best layouts; days and dollars of the whole run where its tokens are known."""
        return [self._row(step) for step in self.best]

    def _row(self, step: TrainingStepAnswer) -> dict[str, Any]:
        row = row_of(step)
        ends = {"": row["step_s"], "low_": row["low_s"], "high_": row["high_s"]}
        meter = self.facility.watts(row["power_W"], step.layout.devices) if self._metered(row) else None
        return {**row, "meter_W": meter, "carbon_kg_per_h": self.facility.carbon(meter), **self.run.row(step, ends)}

    def _metered(self, row: Mapping[str, Any]) -> bool:
        return bool(self.facility.counted) and row["power_W"] is not None

    @property
    def declared(self) -> tuple[Column, ...]:
        """Parts of a step are seconds; dollars and joules are a token's."""
        return (
            *in_seconds(PARTS),
            Column("largest_part", "largest part"),
            Column("energy_J_per_token", "energy a token", "J", better="less"),
            Column("cost_usd_per_million_tokens", "$ a million tokens", better="less"),
            Column("run_days", "days", better="less"),
            Column("run_cost_usd", "$", better="less"),
        )

    @property
    def heads(self) -> tuple[str, ...]:
        """The pick, what bounds it, and why the second is worse."""
        best = self.best[0]
        row = self._row(best)
        limit = (
            "batch over the input rate" if self.bound <= best.of.loading else "model flop at the peak of all devices"
        )
        bounds = f"the input rate; {shares(best)}" if best.time.parts["input"] > 0 else shares(best)
        lines = [
            f"pick: {best.layout.text()} on {best.layout.devices} devices: {seconds(row['step_s'])} a step "
            f"({seconds(row['low_s'])} to {seconds(row['high_s'])} with 80 %)"
            f"{verdict_text(row['probability_within_20_percent'])}, "
            f"{count_shown(row['tokens_per_s'])} tokens/s, MFU {share_shown(row['mfu'])} of the stated "
            f"{self.precision} peak of {shown(self.peak, 'FLOP/s')}",
            f"training {self.model} on at most {self.devices} x {self.machine}: {self.batch} sequences of "
            f"{self.sequence} tokens, {self.precision}, {self.flop / 1e9:,.1f} Gflop a token",
            f"{self.fitted:,} layouts fit; {self.doubtful:,} may not, {self.short:,} do not fit in memory, "
            f"{self.refused:,} do not divide",
            f"bound by: {bounds}; no layout is below {seconds(self.bound)} ({limit})",
            f"memory of its fullest device: {memory_text(best)}",
            *band_text(best.stages, self.capacity, best.layout),
        ]
        lines[1:1] = [one.text() for one in self.not_used]
        lines[1:1] = [f"beware: {text}" for text in (self.calibration.doubts if self.calibration else ())]
        if not self.fitted:
            lines.append("beware: no layout surely fits in memory; these may not")
        lines += [f"note: {text}" for text in self.outside]
        if self.tight is not None:
            memory = self.tight.memory
            lines.append(
                f"faster, but may not fit: {self.tight.layout.text()}: {seconds(self.tight.time.seconds)} a step, "
                f"{memory.low / 1e9:.3g} to {memory.high / 1e9:.3g} GB"
            )
        if row["power_W"] is not None:
            lines.append(
                f"power: {row['power_W']:,.0f} W of all devices "
                f"({row['low_power_W']:,.0f} .. {row['high_power_W']:,.0f}; factors of metered GPUs), "
                f"{row['energy_J_per_token']:.3g} J a token; hosts and cooling apart"
            )
            if self.facility.counted:
                lines.append(self.facility.text(row["power_W"], best.layout.devices))
        if self.price:
            lines.append(f"cost: {money_shown(row['cost_usd_per_million_tokens'])} a million tokens at {self.price}")
        if self.run.tokens:
            lines.append(self.run.text(best, row))
        if self.calibration is not None:
            lines.append(known_text(self.calibration))
        if self.grown is not None:
            row, layout = row_of(self.grown), self.grown.layout
            lines.append(
                f"as measured, with more data ranks: {layout.text()} on {layout.devices} devices: "
                f"{seconds(row['step_s'])} a step ({seconds(row['low_s'])} to {seconds(row['high_s'])} with 80 %)"
            )
        if len(self.best) > 1:
            lines.append(f"second: {self.best[1].layout.text()}: {why_worse(best, self.best[1])}")
        return tuple(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """Where the network is larger than the machine's file says, and whose numbers answer for another model."""
        links = f"the links of {self.machine} join {self.joined} devices; beyond, the last link's rate is kept"
        assumed = [self.best[0].of.model.stands_for, links if self.best[0].layout.devices > self.joined else ""]
        return (*conditions_lines(self.conditions), *(f"assuming: {text}" for text in assumed if text))

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the table; JSON and CSV have all."""
        return SHOWN


def seconds(value: float) -> str:
    """``1.23 s``, ``310 s``; below a second ``350 ms``."""
    return f"{value:.3g} s" if value >= 1 else shown(value, "s")


def shares(choice: TrainingStepAnswer) -> str:
    """The three largest parts of a step."""
    largest = sorted(choice.time.parts.items(), key=lambda part: -part[1])[:3]
    return ", ".join(f"{WORDS[name]} {share_shown(seconds / choice.time.seconds)}" for name, seconds in largest)


def memory_text(choice: TrainingStepAnswer) -> str:
    """Parts of the memory."""
    parts = ", ".join(f"{name} {size / 1e9:.3g}" for name, size in choice.memory.counted.parts().items() if size > 0)
    return f"{choice.memory.counted.total / 1e9:.3g} GB ({parts})"


def why_worse(best: TrainingStepAnswer, other: TrainingStepAnswer) -> str:
    """Which parts of a step make another layout slower."""
    slower = other.time.seconds / best.time.seconds - 1
    gaps = {name: other.time.parts[name] - best.time.parts[name] for name in best.time.parts}
    if slower == 0:
        return "as fast, for both wait for input"
    worst = [name for name, gap in sorted(gaps.items(), key=lambda part: -part[1]) if gap > 0][:2]
    reasons = ", ".join(f"{WORDS[name]} +{seconds(gaps[name])}" for name in worst) or "the same parts"
    return f"{share_shown(slower)} slower: {reasons}"
