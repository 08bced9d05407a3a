"""What `slipstick estimate` prints of one machine or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstick.common.formatting import count_shown
from slipstick.estimators.base.conditions import depends_on
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.sureness import sure_row
from slipstick.estimators.composition.energy_and_cost import COST, ENERGY
from slipstick.estimators.power.facility import price_text
from slipstick.experiments.explain.operation_counters import counter_rows
from slipstick.experiments.question.cautions import contradictions, hints, remarks
from slipstick.experiments.question.facts import Facts
from slipstick.experiments.question.objectives import consumptions
from slipstick.experiments.question.question import Question
from slipstick.experiments.report import machine_comparison, summary
from slipstick.experiments.report.output import emit, emit_line, line_width


def print_answers(
    questions: Sequence[Question], form: str, parts: int, *, verbose: bool, refused: Sequence[str] = ()
) -> None:
    """The answers to one or several questions of one workload; `refused`: a line for each that has no answer.

    Raises InputError where no question has an answer.
    """
    known, refusals = machine_comparison.answered(questions, refused)
    if form != "table":
        emit([_row(one, answer, known_facts, parts, full=form == "json") for one, answer, known_facts in known], form)
    elif len(known) == 1 and not refusals:
        _print_one(*known[0], parts, verbose=verbose)
    else:
        rest_on = " or ".join(dict.fromkeys(answer.provenance for _, answer, _ in known))
        notes = [f"{known[0][0].workload.name} on {len(known)} machines; {machine_comparison.winner(known)}; {rest_on}"]
        dropped = {one.machine.name: [use.text() for use in answer.not_used] for one, answer, _ in known}
        notes += [*machine_comparison.work_lines(known), *machine_comparison.shared(dropped, "given")]
        emit(machine_comparison.rows(known, line_width()), form, notes=notes)
        models: dict[str, list[str]] = {}
        for one, _, _ in known:
            models.setdefault(one.why, []).append(one.machine.name)
        whom = {why: "" if len(models) == 1 else f", {', '.join(names)}" for why, names in models.items()}
        doubts = machine_comparison.shared(
            {one.machine.name: _warning_lines(one, answer, verbose=verbose) for one, answer, _ in known}
        )
        hinted = {one.machine.name: hints(one) for one, _, _ in known}
        above = [*machine_comparison.host_lines(known), *machine_comparison.default_lines(known)]
        above += [*(f"model{whom[why]}: {why}" for why in models if why)]
        above += [machine_comparison.INDEPENDENT] if verbose else []
        for text in [*refusals, *above, *doubts, *machine_comparison.shared(hinted, "hint")]:
            emit_line(text)


def print_counters(question: Question, form: str) -> None:
    """What a GPU's counters would show, by kind of operation, with what the rows stand for."""
    rows, per_cycle = counter_rows(question)
    notes = [
        f"{question.workload.name} on {question.machine.name}: {per_cycle:.3g} vector instructions a cycle, all cores",
        "predicted: instructions of 64 elements, bytes out of each level of the memory; a level that is off shows none",
    ]
    emit(rows, form, notes=notes)


def _warning_lines(question: Question, answer: Estimate, *, verbose: bool) -> list[str]:
    """Of one machine among several: its narrow format, which no line of assumptions shows, and what contradicts it."""
    texts = [*summary.narrow(answer), *([] if question.estimator.alone else contradictions(question))]
    return texts if verbose else [summary.cut(text) for text in texts]


def operations(answer: Estimate, parts: int | None) -> list[dict[str, Any]]:
    """The slowest operations, in documented keys; all where None."""
    return [
        {
            "operation": part.name,
            "kind": part.kind,
            "time_s": part.time,
            "times": part.times,
            "total_s": part.contribution,
            "share": part.contribution / answer.time,
            "bound_by": part.bound_by,
        }
        for part in sorted(answer.parts, key=lambda part: -part.contribution)[:parts]
    ]


def _dollars(question: Question, answer: Estimate) -> tuple[float | None, list[str]]:
    consumed, unknown = consumptions(question, (COST,) if answer.energy is not None else (ENERGY, COST))
    known = {one.name: float(one({}, answer.time)) for one in consumed}
    return known.get(COST), [text for text in unknown if not (text.startswith("energy") and answer.energy is not None)]


def _print_quantities(question: Question, answer: Estimate, parts: int, *, verbose: bool) -> None:
    """An answer with several quantities: the one that is wanted, then all; single percentiles with --verbose."""
    first, *rest = summary.heads(question, answer)
    emit_line(first, "bold")
    for text in rest:
        emit_line(text)
    emit(summary.quantity_rows(answer, verbose=verbose), "table", notes=summary.metric_lines(answer))
    for text in (text for text in answer.assumptions if summary.A_DEVICE in text and "DOES NOT FIT" in text):
        emit_line(f"memory: {text}", "red")
    if parts:
        emit(summary.part_rows(answer, parts), "table", f"what the {answer.name} goes to")
    for text in summary.assumptions(question, answer, verbose=verbose):
        emit_line(text)


def _print_one(question: Question, answer: Estimate, known: Facts, parts: int, *, verbose: bool) -> None:
    if answer.others:
        _print_quantities(question, answer, parts, verbose=verbose)
        return
    dollars, unknown = _dollars(question, answer)
    notes = [*summary.heads(question, answer, known.memory), *summary.summary(answer, known, question)]
    if dollars is not None:
        notes.append(summary.dollars_line(dollars, known.throughput, price_text(question.machine)))
    notes += summary.metric_lines(answer)
    rows: Sequence[Mapping[str, Any]] = summary.group_rows(known)
    if parts:
        rows = [
            {
                "operation": one["operation"],
                "kind": one["kind"],
                "time_s": one["time_s"],
                "times": count_shown(one["times"]),
                "share": one["share"],
                "bound_by": one["bound_by"],
            }
            for one in operations(answer, parts)
        ]
    rows = [*rows, *summary.remainder_rows(answer, "operation" if parts else "kind")]
    for text in notes:
        emit_line(text, "bold" if text is notes[0] else "red" if "DOES NOT FIT" in text else "")
    emit(rows, "table")
    for text in [
        *summary.assumptions(question, answer, verbose=verbose),
        *(unknown if verbose or question.estimator.alone else []),
    ]:
        emit_line(text)


def _row(question: Question, answer: Estimate, known: Facts, parts: int, *, full: bool) -> dict[str, Any]:
    band = answer.interval()
    dollars, _ = _dollars(question, answer)
    joules = summary.energy_band(answer, question)
    row = {
        "workload": question.workload.name,
        "machine": question.machine.name,
        "time_s": answer.time,
        "low_s": band[0] if band else None,
        "high_s": band[1] if band else None,
        "interval_level": 0.8 if band else None,
        **sure_row(answer.headline.within),
        "device_s": answer.sides.get("device"),
        "host_s": answer.sides.get("host"),
        "energy_J": answer.energy,
        "low_energy_J": joules[0] if joules else None,
        "high_energy_J": joules[1] if joules else None,
        "cost_usd": dollars,
        "rule": answer.rule,
        "work": answer.work,
        "rate_per_s": known.throughput.rate if known.throughput else None,
        "rate_unit": known.throughput.unit if known.throughput else None,
        "mfu": known.mfu,
        "mfu_of": known.mfu_of or None,
        "memory_needed_B": known.memory.needed if known.memory else None,
        "memory_low_B": known.memory.band[0] if known.memory else None,
        "memory_high_B": known.memory.band[1] if known.memory else None,
        "memory_there_B": known.memory.there if known.memory else None,
        "fit": known.memory.verdict if known.memory else None,
        "why": question.reason or None,
        "provenance": answer.provenance,
    }
    if not full:
        return row
    return {
        **row,
        "quantities": [one.row() for one in answer.quantities.values()],
        "headline": answer.headline.name,
        "devices": answer.devices,
        "dtype": question.workload.metadata.get("dtype"),
        **depends_on(answer.conditions, answer.not_used),
        "assumptions": list(answer.assumptions),
        "remarks": list(remarks(question)),
        "notes": hints(question),
        "metrics": dict(answer.metrics),
        "metric_intervals": {name: list(ends) for name, ends in answer.metric_intervals.items()},
        "parts": operations(answer, parts or None),
        "remainder": dict(answer.remainder),
    }
