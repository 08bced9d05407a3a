"""The first lines of a training plan."""

from __future__ import annotations

from slipstick.estimators.named.training.fitting import band_text
from slipstick.estimators.named.training.trained_model import WORDS
from slipstick.estimators.named.training.trained_step import TrainedStep, known_text
from slipstick.experiments.subjects.power.facility import Facility
from slipstick.experiments.subjects.training_plan.training_choice import TrainingPlan, row_of
from slipstick.hwmodels.files.shown import count_shown, shown

SHOWN = ("layout", "devices", "step_s", "low_s", "high_s", "tokens_per_s", "mfu", "memory_gb", "fits", "largest_part")


def seconds(value: float) -> str:
    """``1.23 s``, ``310 s``; below a second ``350 ms``."""
    return f"{value:.3g} s" if value >= 1 else shown(value, "s")


def training_lines(plan: TrainingPlan, facility: Facility | None = None, price: str = "") -> list[str]:
    """The question, the pick, what bounds it, why the second is worse."""
    best = plan.best[0]
    row = row_of(best)
    limit = "batch over the input rate" if plan.bound <= best.of.loading else "model flop at the peak of all devices"
    bounds = f"the input rate; {shares(best)}" if best.time.parts["input"] > 0 else shares(best)
    lines = [
        f"pick: {best.layout.text()} on {best.layout.devices} devices: {seconds(row['step_s'])} a step "
        f"({seconds(row['low_s'])} to {seconds(row['high_s'])} with 80 %), "
        f"{count_shown(row['tokens_per_s'])} tokens/s, MFU {row['mfu']:.1%} of the {plan.precision} peak; "
        f"{plan.provenance}",
        f"training {plan.model} on at most {plan.devices} x {plan.machine}: {plan.batch} sequences of {plan.sequence} "
        f"tokens, {plan.precision}, {plan.flop / 1e9:,.1f} Gflop a token",
        f"{plan.fitted:,} layouts fit; {plan.doubtful:,} may not, {plan.short:,} do not fit in memory, "
        f"{plan.refused:,} do not divide",
        f"bound by: {bounds}; no layout is below {seconds(plan.bound)} ({limit})",
        f"memory of its fullest device: {memory_text(best)}",
        *band_text(best.stages, plan.capacity, best.layout),
    ]
    if not plan.fitted:
        lines.append("beware: no layout surely fits in memory; these may not")
    lines += [f"beware: {text}" for text in plan.remarks]
    if plan.tight is not None:
        memory = plan.tight.memory
        lines.append(
            f"faster, but may not fit: {plan.tight.layout.text()}: {seconds(plan.tight.time.seconds)} a step, "
            f"{memory.low / 1e9:.3g} to {memory.high / 1e9:.3g} GB"
        )
    if row["power_W"] is not None:
        lines.append(
            f"power: {row['power_W']:,.0f} W of all devices ({row['low_power_W']:,.0f} .. {row['high_power_W']:,.0f}; "
            f"factors of metered GPUs), {row['energy_J_per_token']:.3g} J a token; hosts and cooling apart"
        )
        if facility is not None and facility.counted:
            lines.append(facility.text(row["power_W"], best.layout.devices))
    if price:
        lines.append(f"cost: {row['cost_usd_per_million_tokens']:.3g} $ a million tokens at {price}")
    if plan.calibration is not None:
        lines.append(known_text(plan.calibration))
    if plan.grown is not None:
        row = row_of(plan.grown)
        lines.append(
            f"as measured, with more data ranks: {plan.grown.layout.text()} on {plan.grown.layout.devices} devices: "
            f"{seconds(row['step_s'])} a step ({seconds(row['low_s'])} to {seconds(row['high_s'])} with 80 %)"
        )
    if best.layout.devices > plan.joined:
        lines.append(
            f"assuming: the links of {plan.machine} join {plan.joined} devices; beyond, the last link's rate is kept"
        )
    if len(plan.best) > 1:
        lines.append(f"second: {plan.best[1].layout.text()}: {why_worse(best, plan.best[1])}")
    return lines


def shares(choice: TrainedStep) -> str:
    """The three largest parts of a step."""
    largest = sorted(choice.time.parts.items(), key=lambda part: -part[1])[:3]
    return ", ".join(f"{WORDS[name]} {seconds / choice.time.seconds:.0%}" for name, seconds in largest)


def memory_text(choice: TrainedStep) -> str:
    """Parts of the memory."""
    parts = ", ".join(f"{name} {size / 1e9:.3g}" for name, size in choice.memory.counted.parts().items() if size > 0)
    return f"{choice.memory.counted.total / 1e9:.3g} GB ({parts})"


def why_worse(best: TrainedStep, other: TrainedStep) -> str:
    """Which parts of a step make another layout slower."""
    slower = other.time.seconds / best.time.seconds - 1
    gaps = {name: other.time.parts[name] - best.time.parts[name] for name in best.time.parts}
    if slower == 0:
        return "as fast, for both wait for input"
    worst = [name for name, gap in sorted(gaps.items(), key=lambda part: -part[1]) if gap > 0][:2]
    reasons = ", ".join(f"{WORDS[name]} +{seconds(gaps[name])}" for name in worst) or "the same parts"
    return f"{slower:.1%} slower: {reasons}"


def training_rows_shown(plan: TrainingPlan) -> list[dict[str, object]]:
    """The columns of the table; JSON and CSV have all."""
    return [{name: row[name] for name in SHOWN} for row in plan.rows()]
