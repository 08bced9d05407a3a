"""The first lines of an estimate: time, throughput, memory, what bounds it, energy; then assumptions, shortened."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from slipstick.common.formatting import count_shown, ends_shown, money_shown, share_shown, shortened, shown
from slipstick.estimators.base.conditions import conditions_lines
from slipstick.estimators.base.estimate import WAITING, Estimate
from slipstick.estimators.base.sureness import verdict_text
from slipstick.estimators.composition.energy_and_cost import EXCESS, HELD, power_half_width
from slipstick.estimators.power.serving_power_law import power_fit
from slipstick.estimators.schedules.host_issue import DEVICE
from slipstick.experiments.question.cautions import caution_lines
from slipstick.experiments.question.facts import Facts, Throughput
from slipstick.experiments.question.memory_need import NOT, MemoryNeed
from slipstick.experiments.question.question import Question
from slipstick.workloads.graph.kinds import BYTE, FLOP

SHORT = 110
"""Assumptions are cut to one line of so many characters; --verbose has them whole."""


def band_shown(answer: Estimate) -> str:
    """``83 .. 134 ms``; "" where none is known."""
    ends = answer.interval()
    return "" if ends is None else ends_shown(*ends)


A_DEVICE = " a device: "
"""Stands in what a layout of many devices says of their memory."""


def headline(question: Question, answer: Estimate, memory: MemoryNeed | None = None) -> str:
    """The quantity that is wanted, with its band: the time, unless the estimator or the question names another.

    `memory`: what it needs, where that is known beside the answer; what does not fit is told instead of how sure.
    """
    uncalibrated = ": this estimator is not calibrated" if answer.interval() is None else ""
    note = "" if answer.headline.band else f"; no band{uncalibrated}"
    many = f"{answer.devices} x " if answer.devices > 1 else ""
    named = "" if answer.headline.name == "time" else f"{answer.headline.name} "
    what = f"{question.workload.name} on {many}{question.machine.name}"
    large = memory is not None and memory.verdict == NOT
    large = large or any(A_DEVICE in text and NOT in text for text in answer.assumptions)
    sure = ", but it does not fit in memory" if large else verdict_text(answer.headline.within)
    return f"{what}: {named}{answer.headline.text()}{sure}; {answer.provenance}{note}"


def heads(question: Question, answer: Estimate, memory: MemoryNeed | None = None) -> list[str]:
    """The first lines of every answer: the quantity with its band (see `headline`), and what it is for."""
    return [headline(question, answer, memory), *answer.heads[1:]]


def summary(answer: Estimate, known: Facts, question: Question) -> list[str]:
    """The lines below the headline that are known."""
    lines = [
        sides_line(answer),
        throughput_line(known),
        *([memory_line(known.memory)] if known.memory else []),
        bound_line(known),
    ]
    lines += [f"memory: {text}" for text in answer.assumptions if known.memory is None and A_DEVICE in text]
    lines.append(energy_line(answer, known, question))
    return [line for line in lines if line]


def sides_line(answer: Estimate) -> str:
    """Seconds of the device and of its host, and what the time has of them; "" where no host is modelled."""
    if not answer.sides:
        return ""
    device, host = (shown(answer.sides[name], "s") for name in ("device", "host"))
    if DEVICE in answer.rule:
        return f"device: {device}; host: {host} if issued one by one"
    together = answer.time >= sum(answer.sides.values()) * (1 - 1e-9)
    return f"device: {device}; host: {host}, {'one after the other' if together else 'the longer counts'}"


def energy_line(answer: Estimate, known: Facts, question: Question) -> str:
    """Joules and mean power; "" where they are unknown. Cap x time, where the work would draw more without it."""
    if answer.energy is None:
        return ""
    made, watts = known.throughput, answer.energy / (answer.time or 1.0)
    over = any(text.startswith(EXCESS) for text in answer.assumptions)
    each = (
        f", {shown(answer.energy / made.items, 'J')} for each of its {made.unit}"
        if made and made.items > 1 and made.unit not in (FLOP, BYTE)
        else ""
    )
    held = any(text.startswith(HELD) for text in answer.assumptions)
    sure = "the power cap, which holds the clock" if held else _sure(answer, question)
    sure = "the power cap: the work would draw more, so that it would take longer" if over else sure
    return f"energy: {shown(answer.energy, 'J')}{each}, {shown(watts, 'W')} on average ({sure})"


def energy_band(answer: Estimate, question: Question) -> tuple[float, float] | None:
    """80 % band of the energy: of the factors of power and of the time together; None where none was fitted.

    It ends at the power cap over the longest time.
    """
    half = power_half_width(question.workload, question.machine, answer.time, question.run)
    times = answer.interval()
    if half is None or answer.energy is None or times is None or not answer.time:
        return None
    paces = max(abs(math.log(answer.time / times[0])), abs(math.log(times[1] / answer.time)))
    both = math.exp(math.hypot(half, paces))
    most = (question.machine.power.cap or math.inf) * answer.devices * times[1]
    return answer.energy / both, max(answer.energy, min(answer.energy * both, most))


def _sure(answer: Estimate, question: Question) -> str:
    band = energy_band(answer, question)
    if band is None:
        return "factors not fitted"
    of = "" if power_fit().knows(question.machine) else " other"
    return f"80 %: {ends_shown(*band, 'J')}; factors from{of} metered GPUs"


def rate_shown(made: Throughput) -> str:
    """``2,470 images/s``, ``612 TFLOP/s``, ``2.88 TB/s``."""
    if made.unit in (FLOP, BYTE):
        return shown(made.rate, f"{made.unit}/s")
    sequences = f" ({count_shown(made.sequences)} sequences/s)" if made.sequences else ""
    return f"{count_shown(made.rate)} {made.unit}/s{sequences}"


def dollars_line(dollars: float, made: Throughput | None, price: str) -> str:
    """What the answer costs, and the field's unit of it: a million tokens, a thousand of anything else."""
    texts = [f"cost: {money_shown(dollars)}"]
    if made and made.items and made.unit not in (FLOP, BYTE):
        count, what = (1e6, "million tokens") if made.unit == "tokens" else (1e3, f"1,000 {made.unit}")
        texts.append(f"{money_shown(dollars / made.items * count)} per {what}")
    return f"{', '.join(texts)} at {price}"


def throughput_line(known: Facts) -> str:
    """Rate in the field's unit, MFU, share of the bandwidth."""
    parts = []
    if known.throughput:
        parts.append(rate_shown(known.throughput))
    if known.mfu is not None:
        parts.append(f"MFU {share_shown(known.mfu)} of {known.mfu_of}")
    if known.bandwidth is not None:
        parts.append(f"{share_shown(known.bandwidth)} of the memory bandwidth")
    return f"throughput: {'; '.join(parts)}" if parts else ""


def memory_line(need: MemoryNeed) -> str:
    """Needed, with its band, beside there."""
    lasting = "parameters, gradients, optimizer" if need.trains else "parameters and cache"
    known = need.activations is not None
    rest = f"activations {shown(need.activations or 0.0, 'byte')}" if known else "activations not known"
    both = f"{'' if known else 'at least '}{shown(need.needed, 'byte')} of {shown(need.there, 'byte')} {need.level}"
    if known and need.scatter:
        both += f" (80 %: {ends_shown(*need.band, 'byte')})"
    rest += f", context {shown(need.beside, 'byte')}" if need.beside else ""
    rest += f", allocator {shown(need.needed - need.counted, 'byte')}" if need.taken > 1 else ""
    return f"memory: {both}: {need.verdict} ({lasting} {shown(need.lasting, 'byte')}, {rest})"


def bound_line(known: Facts) -> str:
    """Shares of the time by what bounds it."""
    shares = [f"{name} {share_shown(share)}" for name, share in known.bounds[:3] if share >= 0.005]
    return f"bound by: {', '.join(shares)}" if shares else ""


def metric_lines(answer: Estimate) -> list[str]:
    """Shares that the schedule gives, on one line; those with a band of their own by themselves."""
    banded = answer.metric_intervals
    metrics = {name: value for name, value in answer.metrics.items() if name not in (*banded, "device_busy") and value}
    shares = ", ".join(f"{name} {share_shown(value)}" for name, value in metrics.items())
    lines = [f"shares: {shares}"] if metrics else []
    for name, (low, high) in banded.items():
        if not low and not high:
            continue
        ends = f"(80 %: {ends_shown(100 * low, 100 * high, '%')})"
        lines.append(f"{name}: {share_shown(answer.metrics[name])} {ends}")
    return lines


def quantity_rows(answer: Estimate, *, verbose: bool) -> list[dict[str, Any]]:
    """One row a quantity but the shares of `metric_lines`; percentiles (`ttft_p99`) with `verbose`."""
    rows = []
    for one in answer.quantities.values():
        if one.name in answer.metrics or (PERCENTILE.search(one.name) and not verbose):
            continue
        text, _, band = one.text().partition(" (80 %: ")
        rows.append({"quantity": one.name, "value": text, "80 %": band.removesuffix(")"), "meaning": one.meaning})
    return rows


PERCENTILE = re.compile(r"_p\d+$")


def part_rows(answer: Estimate, count: int) -> list[dict[str, Any]]:
    """What the time goes to, largest first."""
    largest = sorted(answer.parts, key=lambda part: -part.contribution)[:count]
    return [
        {
            "part": part.name,
            "time": shown(part.contribution, "s"),
            "share": shown(100 * part.contribution / answer.time, "%"),
        }
        for part in largest
    ]


def group_rows(known: Facts, count: int = 5) -> list[dict[str, Any]]:
    """At most `count` rows: kinds of operations; what is left is one row."""
    first = known.groups[: count - 1] if len(known.groups) > count else known.groups[:count]
    rest = known.groups[len(first) :]
    rows = [_group_row(one.kind, one.count, one.time, one.share, one.bound_by) for one in first]
    if rest:
        names = ", ".join(one.kind for one in rest)
        sums = (sum(one.count for one in rest), sum(one.time for one in rest), sum(one.share for one in rest))
        rows.append(_group_row(shortened(f"other: {names}", 60), *sums, ""))
    return rows


def _group_row(kind: str, count: float, time: float, share: float, bound_by: str) -> dict[str, Any]:
    return {"kind": kind, "count": count_shown(count), "time_s": time, "share": share, "bound_by": bound_by}


def remainder_rows(answer: Estimate, column: str) -> list[dict[str, Any]]:
    """What is left of the time beside its parts, by name, so that the shares of a table sum to 100 %."""
    left = {name: seconds for name, seconds in answer.remainder.items() if abs(seconds) >= 5e-4 * answer.time}
    of_host = {WAITING: "waiting for the host"} if answer.metrics.get("device_busy", 1.0) < 1.0 else {}
    return [
        {
            column: f"({of_host.get(name, name)})",
            "time_s": seconds,
            "share": seconds / answer.time,
        }
        for name, seconds in left.items()
    ]


def assumptions(question: Question, answer: Estimate, *, verbose: bool, reason: bool = False) -> list[str]:
    """Why this model, and what the answer takes for granted; cut unless `verbose`, with the `reason` where asked."""
    lines = [f"model: {question.reason if verbose or reason else question.why}"] if question.why else []
    lines += caution_lines(question, verbose=verbose)
    # a calibration that the user chose is named; that of the default answer stands in the line of the model
    elsewhere = ELSEWHERE if question.why else ELSEWHERE[1:]
    shared = [text for text in answer.assumptions if A_DEVICE not in text]
    texts = [text for text in _grouped(shared) if verbose or not text.startswith(elsewhere)]
    lines += [f"{'assuming: ' if index == 0 else ' ' * 10}{text}" for index, text in enumerate(texts)]
    lines = lines if verbose else [cut(line) for line in lines]
    return [*conditions_lines(answer.conditions), *lines]


def narrow(answer: Estimate) -> list[str]:
    """Which narrow format a machine does not multiply, so that the weights alone are stored in it."""
    texts = (text for text in answer.assumptions if text.startswith("weights alone in ") and ": no engine" in text)
    return [_LISTED.sub("", text) for text in texts]


_LISTED = re.compile(r" \([^()]*\)")
ELSEWHERE = ("calibrated on", "does not fit", "flop as")
"""Shown in the lines above the table, or of use to those who check."""


def cut(line: str) -> str:
    """A line of at most `SHORT` characters."""
    return shortened(line, SHORT, " ... (--verbose)")


def _grouped(texts: Sequence[str]) -> list[str]:
    """Short assumptions together on a line, long ones by themselves."""
    lines: list[str] = []
    for text in texts:
        alone = text.startswith(ELSEWHERE) or (lines and lines[-1].startswith(ELSEWHERE))
        if lines and not alone and len(lines[-1]) + len(text) < SHORT - 12:
            lines[-1] = f"{lines[-1]}; {text}"
        else:
            lines.append(text)
    return lines
