"""Pictures of a workload: Graphviz text, and an HTML page that needs nothing else."""

from __future__ import annotations

from html import escape

from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.graph.compare import amount_text, phase_of
from slipstick.workloads.graph.workload import Op, Workload

MAX_DRAWN = 4000
# One colour a family of kinds, readable by those who see few colours (Okabe and Ito 2008).
COLOURS = {
    "gemm": "#0072B2",
    "convolution": "#0072B2",
    "attention": "#0072B2",
    "recurrent": "#56B4E9",
    "norm": "#009E73",
    "softmax": "#009E73",
    "pool": "#009E73",
    "elementwise": "#F0E442",
    "reduction": "#F0E442",
    "gather": "#E69F00",
    "move": "#E69F00",
    "view": "#DDDDDD",
    "upsample": "#E69F00",
    "optimizer": "#CC79A7",
    "collective": "#D55E00",
    "host": "#D55E00",
    "sparse": "#D55E00",
    "uncounted": "#FF0000",
}
_PHASE_BORDER = {"forward": "#000000", "backward": "#888888", "optimizer": "#CC79A7"}


def to_graphviz(workload: Workload) -> str:
    """The graph in the dot language: colour is the family of kinds, border the phase."""
    lines = ["digraph workload {", "  rankdir=TB; node [shape=box, style=filled, fontname=Helvetica, fontsize=10];"]
    number = {op.name: index for index, op in enumerate(workload)}
    for op in workload:
        label = "\\n".join(_quoted(line) for line in _label(op))
        colour, border = COLOURS.get(op.kind, "#FFFFFF"), _PHASE_BORDER.get(phase_of(op), "#000000")
        lines.append(f'  n{number[op.name]} [label="{label}", fillcolor="{colour}", color="{border}"];')
    lines += [f"  n{number[before]} -> n{number[after]};" for before, after in workload.edges]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _label(op: Op) -> list[str]:
    dims = ", ".join(f"{name}={amount_text(amount)}" for name, amount in op.dims.items() if amount != 1)
    times = [] if op.times == 1 else [f"x {amount_text(op.times)}"]
    return [op.name, f"{op.kind} {dims}"[:160], *times]


def to_html(workload: Workload) -> str:
    """A page with the graph as SVG, operations in rows by how deep they stand; names and sizes show on hover.

    Raises
    ------
    InputError
        Where there are more operations than a page can show.
    """
    if len(workload) > MAX_DRAWN:
        raise InputError(f"workload {workload.name!r}: {len(workload)} operations, more than {MAX_DRAWN} to draw")
    place: dict[str, tuple[int, int]] = {}
    width, step, row = 150, 34, 0
    import networkx as nx

    for row, names in enumerate(nx.topological_generations(workload.graph)):
        for column, name in enumerate(sorted(names)):
            place[name] = (20 + column * (width + 14), 20 + row * step)
    right = max((x for x, _ in place.values()), default=0) + width + 20
    bottom = 40 + (row + 1) * step
    lines = [
        f'<line x1="{place[a][0] + width / 2:g}" y1="{place[a][1] + 20}" x2="{place[b][0] + width / 2:g}" '
        f'y2="{place[b][1]}" stroke="#999" stroke-width="0.6"/>'
        for a, b in workload.edges
    ]
    boxes = [_box(op, *place[op.name], width) for op in workload]
    used = dict.fromkeys(op.kind for op in workload)
    legend = " ".join(
        f'<span style="background:{COLOURS.get(kind, "#FFF")};padding:2px 6px">{escape(kind)}</span>' for kind in used
    )
    name = escape(workload.name)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{name}</title></head>"
        f'<body style="font-family:sans-serif"><h1>{name}</h1><p>{len(workload)} operations, '
        f"{len(workload.edges)} edges. {legend}</p>"
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right}" height="{bottom}" role="img" '
        f'aria-label="graph of {name}">{"".join(lines)}{"".join(boxes)}</svg></body></html>\n'
    )


def _box(op: Op, x: int, y: int, width: int) -> str:
    colour, border = COLOURS.get(op.kind, "#FFFFFF"), _PHASE_BORDER.get(phase_of(op), "#000")
    short = op.name if len(op.name) <= 24 else "…" + op.name[-23:]
    dark = colour == "#0072B2"
    return (
        f'<g><title>{escape(chr(10).join(_label(op)))}</title><rect x="{x}" y="{y}" width="{width}" height="20" rx="3" '
        f'fill="{colour}" stroke="{border}"/><text x="{x + 5}" y="{y + 14}" font-size="10" '
        f'fill="{"#fff" if dark else "#000"}">{escape(short)}</text></g>'
    )
