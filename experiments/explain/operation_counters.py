"""What a GPU's counters would show of one run of a workload, by kind of operation."""

from __future__ import annotations

from typing import Any

from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.operation.gpu.counters import counters
from slipstick.estimators.operation.gpu.tiled import TiledRoofline
from slipstick.experiments.pages.output import emit
from slipstick.experiments.question.question import Question
from slipstick.hwmodels.files.readers import InputError


def counter_rows(asked: Question) -> tuple[list[dict[str, Any]], float]:
    """One row a kind, most cycles first, and `all`; and the vector instructions a cycle, all cores.

    Raises
    ------
    InputError
        Where the estimator's operations are not tiles on a GPU (`tiled-roofline`): others tell no bytes by level.
    """
    of = asked.estimator.estimator if isinstance(asked.estimator, Calibration) else asked.estimator
    model = of.operation if isinstance(of, Composite) else None
    if not isinstance(model, TiledRoofline):
        raise InputError("--counters: bytes by level are those of tiles; give --estimator tiled-roofline")
    known = {name: value for name, value in asked.run.items() if name in asked.workload.symbols}
    found = counters(asked.workload.bind_known(known).bound(), asked.machine, model)
    frame = found.to_frame().drop(columns="operation").groupby("kind").sum().sort_values("cycles", ascending=False)
    sums = {"all": frame.sum(), **{str(kind): row for kind, row in frame.iterrows() if row["cycles"] > 0}}
    named = {name: "time_s" if name == "seconds" else name.replace(".", "_") for name in found.values}
    shown: list[dict[str, Any]] = [
        {"kind": kind, **{named[name]: float(row[name]) for name in named}} for kind, row in sums.items()
    ]
    return shown, found.instructions_per_cycle


def print_counters(asked: Question, form: str) -> None:
    """The rows, with what they stand for."""
    rows, per_cycle = counter_rows(asked)
    notes = [
        f"{asked.workload.name} on {asked.machine.name}: {per_cycle:.3g} vector instructions a cycle, all cores",
        "predicted: instructions of 64 elements, bytes out of each level of the memory; a level that is off shows none",
    ]
    emit(rows, form, notes=notes)
