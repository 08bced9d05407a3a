"""A workload's graph, each operation coloured by what bounds it on a machine."""

from __future__ import annotations

from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.formatting import shown
from slipstick.common.writer import write_text
from slipstick.estimators.base.estimate import Estimate, OperationTime
from slipstick.experiments.question.question import Question
from slipstick.experiments.report.summary import heads
from slipstick.workloads.graph.draw import Shade, to_html, to_svg
from slipstick.workloads.graph.workload import Workload

BOUNDS = {"compute": "#0072B2", "memory": "#E69F00", "latency": "#CC79A7", "host": "#CC79A7"}
"""Colours that few confuse (Okabe and Ito 2008); what is not here takes one of `OTHERS`."""
OTHERS = ("#D55E00", "#009E73", "#56B4E9", "#F0E442")
UNKNOWN, WITHIN = "not stated", "in the kernel of another operation, or free"
GREYS = {UNKNOWN: "#FFFFFF", WITHIN: "#DDDDDD"}


def bounded(question: Question, answer: Estimate) -> tuple[dict[str, Shade], list[tuple[str, str]]]:
    """The shade of each operation, and the legend: what bounds, with its share of the time."""
    parts = {part.name: part for part in answer.parts}
    bounds = {op.name: _bound(parts.get(op.name)) for op in question.workload}
    seconds = {
        name: sum(parts[op].contribution for op, bound in bounds.items() if bound == name and op in parts)
        for name in dict.fromkeys(bounds.values())
    }
    strange = [name for name in seconds if name not in BOUNDS and name not in GREYS]
    colours = {**BOUNDS, **GREYS} | {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(strange)}
    shades = {}
    for op in question.workload:
        part, bound = parts.get(op.name), bounds[op.name]
        share = part.contribution / answer.time if part else None
        words = f"{op.kind}, {shown(part.contribution, 's')}" if part and part.contribution else op.kind
        shades[op.name] = Shade(colours[bound], words, share)
    ordered = sorted(seconds, key=lambda name: (name in GREYS, -seconds[name]))
    legend = [
        (
            colours[name],
            name if name == WITHIN else f"{name}: {shown(100 * seconds[name] / answer.time, '%')} of the time",
        )
        for name in ordered
    ]
    most = max((shade.share or 0.0 for shade in shades.values()), default=0.0)
    return shades, [*legend, ("", f"bars: share of the time, the longest {shown(100 * most, '%')}")]


def _bound(part: OperationTime | None) -> str:
    """What bounds an operation, in a word of the legend."""
    if part is None or not part.contribution:
        return WITHIN
    return part.bound_by or UNKNOWN


def write_graph(workload: Workload, path: str | Path, question: Question | None = None) -> Path:
    """Write a picture of a graph, FILE.svg or FILE.html; coloured by what bounds where a machine answers for it.

    Raises InputError where the name ends otherwise, or there are too many operations to draw.
    """
    drawers = {".svg": to_svg, ".html": to_html}
    file = Path(path)
    if file.suffix not in drawers:
        raise InputError(f"--plot {file}: want a name ending in {' or '.join(drawers)}")
    if question is None:
        text = drawers[file.suffix](workload)
    else:
        answer = question.answer()
        text = drawers[file.suffix](question.workload, *bounded(question, answer), "; ".join(heads(question, answer)))
    write_text(file, text)
    return file
