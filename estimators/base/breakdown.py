"""What an estimate's time goes into, by kind of operation, as a notebook shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstick.common.formatting import count_shown, share_shown, shown, shown_together
from slipstick.common.html_tables import html_table

if TYPE_CHECKING:
    from slipstick.estimators.base.estimate import Part

ROWS = 10
WORTH = 0.01
"""Share of the time from which what no operation takes is shown."""


def breakdown_html(parts: Sequence[Part], time: float) -> str:
    """Kinds of operations, the longest first, in at most `ROWS` rows; "" where there are no parts.

    `time`: of the whole, in seconds: what the shares are of.
    """
    kinds: dict[str, list[Part]] = {}
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


def _seconds(parts: Sequence[Part]) -> float:
    return sum(part.contribution for part in parts)


def _by(parts: Sequence[Part]) -> str:
    """What bounds most of the time of these."""
    bounds: dict[str, float] = {}
    for part in parts:
        bounds[part.bound_by or ""] = bounds.get(part.bound_by or "", 0.0) + part.contribution
    return max(bounds, key=lambda name: bounds[name])
