"""A timeline inside a page: a row a lane, stretches coloured by their kind; the wheel zooms and a drag moves it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from html import escape
from itertools import islice

from slipstick.common.answer import Event
from slipstick.common.formatting import shown
from slipstick.experiments.report.plots import COLOURS

MOST_DRAWN = 5_000
"""Stretches on a page: the first ones, where there are more; `--timeline FILE` holds all."""


def timeline_html(events: Iterable[Event]) -> str:
    """The timeline as a part of a page, drawn by the script of every page; "" where nothing is to draw."""
    kept = list(islice(events, MOST_DRAWN + 1))
    cut, kept = len(kept) > MOST_DRAWN, kept[:MOST_DRAWN]
    if not kept:
        return ""
    kinds = [kind for kind, _ in Counter(map(_kind, kept)).most_common()]
    colours = {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}
    lanes = {lane: place for place, lane in enumerate(dict.fromkeys(one.lane for one in kept))}
    drawn = [[lanes[one.lane], one.start, one.end, colours[_kind(one)], _in_words(one)] for one in kept]
    data = escape(json.dumps({"lanes": list(lanes), "events": drawn}))
    named = kinds[: len(COLOURS)]
    legend = ", ".join(f'<span style="color: {colours[kind]}">&#9632;</span> {escape(kind)}' for kind in named)
    few = f"The first {MOST_DRAWN:,} stretches; --timeline FILE writes all. " if cut else ""
    note = f"<p class=note>{few}The wheel zooms, a drag moves, a double click shows all. {legend}</p>"
    return f'<div class=timeline data-timeline="{data}"><canvas></canvas></div>{note}'


def _kind(event: Event) -> str:
    """What a stretch is coloured by: its kind, else its name without a number behind it."""
    return event.kind or event.name.partition(" ")[0]


def _in_words(event: Event) -> str:
    facts = "".join(f", {name.replace('_', ' ')} {value:g}" for name, value in event.facts.items())
    return f"{event.name}: {shown(event.end - event.start, 's')} from {shown(event.start, 's')}{facts}"
