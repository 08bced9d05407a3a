"""The sliders of a page, what they compute, and the picture that follows them; it needs no library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from slipstick.experiments.report.page import breakable


def slider_html(names: Sequence[str], first: Sequence[str] = (), note: str = "") -> str:
    """The sliders, the ratio they give, its band, memory, and what bounds the time.

    `first`: names that matter, in their order: these stand open, the others are folded. All but fitted parameters where
        none is given.
    `note`: what holds for all sliders together, below them.
    """
    shown = [name for name in first if name in names] or [name for name in names if not name.startswith("estimator.")]
    folded = [name for name in names if name not in shown]
    choices = "".join(f'<option value="{names.index(name)}">{escape(name)}</option>' for name in [*shown, *folded])
    rest = "".join(_slider(name, names.index(name)) for name in folded)
    more = f"<details><summary>{len(folded)} more quantities</summary>{rest}</details>" if folded else ""
    return (
        "<div class=cards><div class=card><b id=ratio></b><small>of today's time</small>"
        "<div id=ratio-band class=note></div></div>"
        "<div class=card><b id=time></b><small>time</small><div id=time-band class=note></div></div>"
        "<div class=card><b id=bound></b><small>bounds most of the time</small>"
        "<div id=bound-shares class=note></div></div>"
        "<div class=card id=memory-card hidden><b id=memory></b><small>memory</small>"
        "<div id=memory-fit class=note></div></div></div>"
        f"<div id=curve class=figure></div><p><label>over <select id=over>{choices}</select></label> "
        "<button id=reset>today</button></p>"
        f"{''.join(_slider(name, names.index(name)) for name in shown)}{more}"
        + (f"<p class=note>{escape(note)}</p>" if note else "")
    )


def _slider(name: str, index: int) -> str:
    return (
        f"<label class=slider><span>{breakable(name)}</span>"
        f'<input type=range min=-3 max=3 step=0.01 value=0 data-dial="{index}">'
        f'<output id="dial{index}"></output></label>'
    )
