"""Pictures of a workload: Graphviz text, an SVG, and an HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape as escaped

from slipstick.common.errors import InputError
from slipstick.common.formatting import visible
from slipstick.workloads.graph.compare import amount_text, phase_of
from slipstick.workloads.graph.kinds import family_of
from slipstick.workloads.graph.workload import Op, Workload

MAX_DRAWN = 4000
_PHASE_BORDER = {"forward": "#000000", "backward": "#888888", "optimizer": "#CC79A7"}
WIDTH, HEIGHT, GAP, STEP = 176, 32, 12, 52
"""Of a box, between boxes of a row, and from row to row, in pixels."""
PAPER, DARK = "#FFFFFF", ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#FF0000")
"""Background, and the colours on which text is white."""


@dataclass(frozen=True)
class Shade:
    """How an operation is drawn.

    `words`: below its name.
    `share`: of the whole, 0..1: a bar at the foot of its box, as long as the largest share's is the box; None: no bar.
    """

    colour: str
    words: str = ""
    share: float | None = None


def to_graphviz(workload: Workload) -> str:
    """The graph in the dot language: colour is the family of kinds, border the phase."""
    lines = ["digraph workload {", "  rankdir=TB; node [shape=box, style=filled, fontname=Helvetica, fontsize=10];"]
    number = {op.name: index for index, op in enumerate(workload)}
    for op in workload:
        label = "\\n".join(_quoted(line) for line in _label(op))
        colour, border = family_of(op.kind).colour, _PHASE_BORDER.get(phase_of(op), "#000000")
        lines.append(f'  n{number[op.name]} [label="{label}", fillcolor="{colour}", color="{border}"];')
    lines += [f"  n{number[before]} -> n{number[after]};" for before, after in workload.edges]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _label(op: Op) -> list[str]:
    dims = ", ".join(f"{name}={amount_text(amount)}" for name, amount in op.dims.items() if amount != 1)
    times = [] if op.times == 1 else [f"x {amount_text(op.times)}"]
    return [op.name, f"{op.kind} {dims}"[:160], *times]


def escape(text: str) -> str:
    """A text for a picture: marks of HTML and what would steer a terminal are shown as text."""
    return escaped("\n".join(map(visible, text.split("\n"))))


def by_kind(workload: Workload) -> tuple[dict[str, Shade], list[tuple[str, str]]]:
    """Shades of the operations by the family of their kind, and the legend: colour and word."""
    shades = {op.name: Shade(family_of(op.kind).colour, op.kind) for op in workload}
    used = dict.fromkeys(op.kind for op in workload)
    return shades, [(family_of(kind).colour, kind) for kind in used]


def to_svg(
    workload: Workload,
    shades: Mapping[str, Shade] | None = None,
    legend: Sequence[tuple[str, str]] = (),
    title: str = "",
) -> str:
    """The graph as SVG, operations in rows by how deep they stand; the whole name and the sizes show on hover.

    `shades`: of each operation by name; None: coloured by the family of its kind.
    `legend`: colours and what they mean; "" where words stand alone.
    Raises InputError where there are more operations than a page can show.
    """
    if len(workload) > MAX_DRAWN:
        raise InputError(f"workload {workload.name!r}: {len(workload)} operations, more than {MAX_DRAWN} to draw")
    if shades is None:
        shades, legend = by_kind(workload)
    title = title or f"{workload.name}: {len(workload)} operations, {len(workload.edges)} edges"
    words = max((len(word) for _, word in legend), default=0)
    top = 48 + 18 * len(legend)
    place = _places(workload, top)
    right = max([*(x + WIDTH + GAP for x, _ in place.values()), 60 + 7 * words, 40 + 9.5 * len(title)]) + GAP
    bottom = max(y for _, y in place.values()) + HEIGHT + GAP
    most = max((shade.share or 0.0 for shade in shades.values()), default=0.0)
    lines = [_edge(place[before], place[after]) for before, after in workload.edges]
    boxes = [_box(op, *place[op.name], shades.get(op.name, Shade(PAPER)), most) for op in workload]
    entries = [
        (f'<rect x="20" y="{40 + 18 * row}" width="14" height="12" fill="{colour}" stroke="#444"/>' if colour else "")
        + f'<text x="42" y="{50 + 18 * row}" font-size="12">{escape(word)}</text>'
        for row, (colour, word) in enumerate(legend)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:g}" height="{bottom:g}" role="img" '
        f'font-family="sans-serif" aria-label="graph of {escape(workload.name)}">'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<text x="20" y="24" font-size="15" font-weight="bold">{escape(title)}</text>'
        f"{''.join(entries)}{''.join(lines)}{''.join(boxes)}</svg>"
    )


def to_html(
    workload: Workload,
    shades: Mapping[str, Shade] | None = None,
    legend: Sequence[tuple[str, str]] = (),
    title: str = "",
) -> str:
    """The picture of `to_svg` as a page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(workload.name)}</title></head><body>{to_svg(workload, shades, legend, title)}</body></html>\n"
    )


def _places(workload: Workload, top: float) -> dict[str, tuple[float, float]]:
    """The left upper corner of each box: below what it waits for, and near the middle of that."""
    import networkx as nx

    graph, place = workload.structure, dict[str, tuple[float, float]]()
    for row, names in enumerate(nx.topological_generations(graph)):
        wanted = {}
        for name in names:
            above = [place[one][0] for one in graph.predecessors(name)]
            wanted[name] = sum(above) / len(above) if above else 0.0
        ordered = sorted(names, key=lambda name: (wanted[name], name))
        free = wanted[ordered[0]] - (WIDTH + GAP) * sum(wanted[name] == wanted[ordered[0]] for name in ordered[1:]) / 2
        for name in ordered:
            x = max(free, wanted[name] if wanted[name] > wanted[ordered[0]] else free)
            place[name] = (x, top + row * STEP)
            free = x + WIDTH + GAP
    left = min(x for x, _ in place.values())
    return {name: (x - left + 20, y) for name, (x, y) in place.items()}


def _edge(before: tuple[float, float], after: tuple[float, float]) -> str:
    """A line from box to box; where it would run behind the boxes between them, it leaves and arrives at the right."""
    x, y, u, v = before[0] + WIDTH / 2, before[1] + HEIGHT, after[0] + WIDTH / 2, after[1]
    far = v - y > STEP
    if far and abs(u - x) < WIDTH:
        x, y, u, v = before[0] + WIDTH, before[1] + HEIGHT / 2, after[0] + WIDTH, after[1] + HEIGHT / 2
        aside = max(x, u) + 2 * GAP
        path = f"M{x:g} {y:g}C{aside:g} {y:g} {aside:g} {v:g} {u:g} {v:g}"
    else:
        bend = min(40.0, (v - y) / 2)
        path = f"M{x:g} {y:g}C{x:g} {y + bend:g} {u:g} {v - bend:g} {u:g} {v:g}"
    return f'<path d="{path}" fill="none" stroke="{"#DDD" if v - y > 12 * STEP else "#777"}"/>'


def _box(op: Op, x: float, y: float, shade: Shade, most: float) -> str:
    border = _PHASE_BORDER.get(phase_of(op), "#000000")
    name, words = (text if len(text) <= 25 else f"{text[:11]}…{text[-13:]}" for text in (op.name, shade.words))
    ink = PAPER if shade.colour in DARK else "#000000"
    long = (WIDTH - 8) * (shade.share or 0.0) / most if most else 0.0
    bar = (
        f'<rect x="{x + 4:g}" y="{y + HEIGHT - 4:g}" width="{long:.4g}" height="3" fill="{ink}"/>' if long > 0.5 else ""
    )
    hover = escape(chr(10).join([*_label(op), shade.words]))
    return (
        f'<g><title>{hover}</title><rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="3" '
        f'fill="{shade.colour}" stroke="{border}"/>'
        f'<text x="{x + 5:g}" y="{y + 12:g}" font-size="11" fill="{ink}">{escape(name)}</text>'
        f'<text x="{x + 5:g}" y="{y + 25:g}" font-size="10" fill="{ink}">{escape(words)}</text>{bar}</g>'
    )
