"""Plain tables of HTML, as notebooks show them: no script and no style, so that they survive an export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of texts, escaped; those that begin with a digit stand right.

    >>> html_table(["kind", "count"], [("gemm", "12")])
    '<table><tr><th>kind</th><th>count</th></tr><tr><td>gemm</td><td style="text-align:right">12</td></tr></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<tr>{head}</tr>{body}</table>"


def _cell(text: str) -> str:
    right = ' style="text-align:right"' if text[:1].isdigit() else ""
    return f"<td{right}>{escape(text)}</td>"
