"""What if a number of the machine were another: ratios to today first, then rates and times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slipstick.estimators.named.serving.served_run import Serving, serve
from slipstick.experiments.question.axes import axis
from slipstick.experiments.question.settings import HEAD
from slipstick.experiments.serve.serving_question import Wanted
from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.runs.traffic import Traffic


def compared(wanted: Wanted, traffic: Traffic, vary: str) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a value, and the first lines.

    Parameters
    ----------
    vary
        "machine.NAME=VALUE,VALUE", or a range as `slipstick whatif` takes it.

    Raises
    ------
    InputError
        Where what varies is no number of the machine.
    """
    deployment = wanted.deployment()
    name, values = axis(vary, deployment.machine)
    if not name.startswith(HEAD):
        raise InputError(f"--vary {vary[:60]!r}: want a number of the machine, machine.NAME=VALUE,VALUE")
    path = name.removeprefix(HEAD)
    today = serve(deployment, traffic)
    rows = [_row(name, float(deployment.machine.get(path)), today, today)]
    for value in map(float, values):
        other = replace(wanted, changes={**wanted.changes, path: value})
        rows.append(_row(name, value, serve(other.deployment(), traffic), today))
    assumed = "assuming: " + "; ".join((*today.deployment.assumptions(), *today.deployment.remarks()))
    return rows, [f"{traffic.text()}; first row: today", assumed]


def _row(name: str, value: float, answer: Serving, today: Serving) -> dict[str, Any]:
    row: dict[str, Any] = {name: value, "ratio": answer.served.output_rate / today.served.output_rate}
    row["output_tokens_per_s"] = answer.served.output_rate
    for measure in ("ttft", "tpot"):
        quantiles = answer.served.quantiles(measure)
        row[f"{measure}_s"] = quantiles["mean"] if quantiles else None
    return row
