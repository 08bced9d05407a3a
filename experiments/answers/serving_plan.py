"""The first lines of a plan, and prices as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstick.experiments.serve.limits import limits_text
from slipstick.experiments.serve.planning import SURE, Plan
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.files.shown import count_shown, shown


def plan_lines(plan: Plan) -> list[str]:
    """The question, the result, the pick."""
    lines = [f"serving {plan.model}: {plan.text()}"]
    lines.append(
        f"{len(plan.candidates)} layouts and loads answered, "
        f"{sum(plan.refused.values())} layouts left out (they do not fit)"
    )
    lines += [f"beware: {text}" for text in plan.remarks]
    if plan.best is None:
        nearest = max(plan.candidates, key=lambda c: c.keeps)
        lines.append(f"none keeps {limits_text(plan.limits)} with {SURE:.0%} probability")
        lines.append(f"nearest: {nearest.text()} ({nearest.keeps:.0%})")
        return lines
    best = plan.best
    why = "least dollars a token" if best.dollars is not None else "most tokens/s a device (no prices: --price)"
    lines.append(f"pick ({why}): {best.text()}")
    figures = f"first token {best.ttft * 1e3:.4g} ms, further token {best.tpot * 1e3:.4g} ms"
    figures += f", {best.per_device:,.0f} tokens/s a device"
    if best.dollars is not None:
        figures += f", {best.dollars:.3g} $ a million tokens"
    lines.append(f"{figures}; limits kept with {best.keeps:.0%} probability")
    for words in _refusals(plan):
        lines.append(words)
    lines.append("first, further token; tokens/s a user and a device; $ a million tokens; *: the pick")
    return lines


def plan_table(plan: Plan) -> list[dict[str, Any]]:
    """The front and the pick for people: three digits with their units; no column of limits or prices without any."""
    rows = []
    off = [] if plan.best is None or plan.best in plan.front else [plan.best]  # what keeps the limits may lie inside
    for candidate in [*plan.front, *off]:
        row = candidate.row()
        shown_row = {
            "machine": row["machine"] + (" *" if candidate == plan.best else ""),
            "layout": row["layout"],
            "weights": row["weights"],
            "users": row["users"],
            "first": shown(row["ttft_s"], "s"),
            "further": shown(row["tpot_s"], "s"),
            "a user": count_shown(row["tokens_per_s_per_user"]),
            "a device": count_shown(row["tokens_per_s_per_device"]),
        }
        if plan.limits:
            shown_row["keeps"] = f"{row['keeps_limits']:.0%}"
        if any(one.dollars is not None for one in plan.front):
            dollars = row["cost_usd_per_million_tokens"]
            shown_row["$/M"] = "" if dollars is None else f"{dollars:.3g}"
        rows.append({**shown_row, "80 % a device": f"{count_shown(row['low'])} .. {count_shown(row['high'])}"})
    return rows


def _refusals(plan: Plan) -> list[str]:
    most = sorted(plan.refused.items(), key=lambda item: -item[1])[:2]
    return [f"left out: {reason} ({count} layouts)" for reason, count in most]


def prices(text: str, machines: Sequence[str]) -> Table[float]:
    """Dollars an hour by machine from "h100-sxm=2.5,mi300x=2".

    Raises
    ------
    InputError
        Where a machine is not among those searched, or a price is no number above 0.
    """
    result: dict[str, float] = {}
    for word in text.split(",") if text else ():
        name, _, value = (part.strip() for part in word.partition("="))
        if name not in machines:
            raise unknown_name("machine with a price", name, list(machines))
        try:
            result[name] = float(value)
        except ValueError:
            raise InputError(f"price of {name}: {value!r}: want dollars an hour") from None
        if not 0 < result[name] < 1e6:
            raise InputError(f"price of {name} = {value} $/h: want a number above 0")
    return Table(result)
