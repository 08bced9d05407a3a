"""Which remarks on an answer are warnings: those with which answers were measured to be worse.

A remark says where an answer leaves what its model was made for. Not every such way makes answers worse: each kind was
compared on published figures that nothing was fitted to, the median error of answers with the remark over that of
answers without (``slipstick validate remarks``). What does not separate, or was not measured, is a note of
``--verbose``.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstick.estimators.base.ratio_band import DISAGREES
from slipstick.workloads.importers.torch.value_branches import DECIDED

LEAST = 1.5
"""Median error with a remark over that without, from which it is a warning."""
MOST = 2
"""Warnings shown with an answer."""
BARELY = "shapes beyond the measured"
"""Words of the remark on shapes so near the measured that the band does not widen: a note, whatever it separated."""
SEPARATION: dict[str, float | None] = {
    "shapes beyond the measured, wider band": 1.5,
    BARELY: 1.8,
    "no measured row is of": 2.6,
    "its data sheet under terms of others": 0.6,
    "a second model": 1.4,
    "products run on the vector engine": 0.9,
    "16-bit products with rows of": None,
    "fitted to image networks": None,
    "tiles of a GPU's cores": None,
    "kernels as of any of them": None,
}
"""Words of a kind of remark -> how much larger errors were with it; None where fewer than `ENOUGH` figures speak.

The first that a remark holds counts. Accelerators of no fitted run are judged by the folds of `validate training`:
4 to 8 % off where a model unseen is 11 to 13.
"""
ENOUGH = 3
ON_VECTOR_ENGINE = "products run on the vector engine"
"""Words of the remark that another data type is far faster: no doubt of the answer, but of the question."""


def kind_of(remark: str) -> str:
    """The kind of a remark, as `SEPARATION` names it; "" where none is known."""
    return next((words for words in SEPARATION if words in remark), "")


def warnings_among(remarks: Sequence[str]) -> tuple[str, ...]:
    """A measured time far from the model, what decided which operations were counted, and remarks with which answers
    were worse; at most `MOST`."""
    decided = sorted((text for text in remarks if text.startswith((DISAGREES, DECIDED))), key=_by_weight)
    measured = [text for text in remarks if kind_of(text) and separates(text) and SEPARATION[kind_of(text)]]
    return tuple([*decided, *measured][:MOST])


def _by_weight(text: str) -> bool:
    """A measured time that disagrees comes first: the answer is that time, whatever was counted."""
    return not text.startswith(DISAGREES)


def separates(remark: str) -> bool:
    """Whether answers were worse with its kind, or nobody measured it."""
    kind = kind_of(remark)
    return kind != BARELY and (SEPARATION.get(kind) or LEAST) >= LEAST


def notes_among(remarks: Sequence[str]) -> tuple[str, ...]:
    """The other remarks."""
    shown = warnings_among(remarks)
    return tuple(text for text in remarks if text not in shown)


def warning_lines(remarks: Sequence[str], *, verbose: bool) -> list[str]:
    """Lines below an answer: warnings, the hint at another data type, and with `verbose` every other remark."""
    rest = notes_among(remarks)
    hints = [text for text in rest if ON_VECTOR_ENGINE in text]
    lines = [f"beware: {text}" for text in warnings_among(remarks)] + [f"hint: {text}" for text in hints[:1]]
    return lines + ([f"note: {text}" for text in rest if text not in hints[:1]] if verbose else [])
