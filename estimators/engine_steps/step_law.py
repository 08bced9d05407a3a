"""The law of a server's step: parameters with what is expected of them, and by what they vary from machine to engine.

A row is a sum of two steps, `plains` times one without prompts and `mixeds` times one with; where only a share of the
steps reads a prompt, `share` moves from the one to the other. Dense models and those with experts are one law, by the
bytes that are read and the flop that are computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.engine_steps.step_amounts import Amounts, Batch
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.engine_steps.step_time import (
    LayerCounts,
    StepParameters,
    StepTime,
    demands,
    step_parts,
)
from slipstick.estimators.fitting.fitted_model import (
    SOURCE,
    UNGROUPED,
    Columns,
    FormulaLaw,
    Grouping,
    ParameterPrior,
)
from slipstick.estimators.symbolic.formula import parameters
from slipstick.hwmodels.machine import Machine

LEVELS = tuple(
    Grouping(name, width)
    for name, width in {
        "vendor": 0.3,
        "stack": 0.3,
        "generation": 0.1,
        "chip": 0.1,
        "engine": 0.15,
        "version": 0.15,
        "engine on generation": 0.1,
        "weights": 0.1,
        "weights on generation": 0.1,
        "model": 0.1,
        SOURCE: 0.2,
    }.items()
)
"""Makers differ by a third, generations and chips of one maker by a tenth beyond their data sheets; how weights are
stored, and what an engine or a type of weights makes of one generation, by as much. That generations differ so little
is known of one maker, whose libraries all engines are written for; those of another, of whom fewer than three were
measured, may differ as makers do: his `stack`."""
ONE_STACK = ("nvidia",)
"""Makers of whom three generations or more were measured under the same engines."""
ON_KERNELS = (
    "vendor", "stack", "generation", "chip", "engine", "version", "engine on generation", "weights",
    "weights on generation",
)  # fmt: skip
VARY = {
    "reading": ("vendor", "stack", "generation", "engine", "engine on generation"),
    "computing": ON_KERNELS,
    "fixed": (*ON_KERNELS, SOURCE),
    "routed": ("version",),
    "factor": ("vendor", "stack", "model", SOURCE),
}
"""Experts' kernels change from version to version of an engine beyond all others: chosen among `step_terms.CHOICES`."""
SURE = {"weights": 0.2, "narrow": 0.2}
SHARE, TIME = 0.3, 0.5
"""Log standard deviations that are expected: of shares of the data sheet's rates, and of fixed times."""


def _priors() -> tuple[ParameterPrior, ...]:
    made = []
    for name, (value, note) in parameters(StepParameters()).items():
        kind = "time" if note.unit == "s" else "share"
        width = 0.0 if name in VARY else SURE.get(name, TIME if kind == "time" else SHARE)
        made.append(
            ParameterPrior(name, note.unit, note.meaning, value, width, note.low, note.high, kind, VARY.get(name, ()))
        )
    return tuple(made)


def _seconds(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row."""
    q: Any = SimpleNamespace(**parameters)
    device, layers = _record(Device, "device", columns), _record(LayerCounts, "layers", columns)
    plain, mixed = (
        step_parts(_record(Amounts, name, columns), columns[f"{name}.sequences"], device, layers, q, columns["stages"])
        for name in ("plain", "mixed")
    )
    share = columns["share"]
    seconds = (columns["plains"] - share) * plain.seconds + (columns["mixeds"] + share) * mixed.seconds
    return np.asarray(seconds, dtype=float)


STEP_LAW = FormulaLaw("serving-steps", _priors(), _seconds, LEVELS, at_once=True)
"""Seconds of sums of steps of a server."""


@dataclass(frozen=True)
class StepSum:
    """One row: which steps it is the sum of, on which device."""

    plain: Amounts
    mixed: Amounts
    device: Device
    layers: LayerCounts
    sequences: float
    share: float = 0.0
    plains: float = 1.0
    mixeds: float = 0.0
    stages: float = 1.0


def columns_of(rows: Sequence[StepSum]) -> dict[str, FloatArray]:
    """What the law reads of rows, arrays of shape (rows,)."""
    made = {}
    for name, kind in (("plain", Amounts), ("mixed", Amounts), ("device", Device), ("layers", LayerCounts)):
        for field in _names(kind):
            made[f"{name}.{field}"] = [getattr(getattr(row, name), field) for row in rows]
    for name in ("share", "plains", "mixeds", "stages"):
        made[name] = [getattr(row, name) for row in rows]
    made["plain.sequences"] = made["mixed.sequences"] = [row.sequences for row in rows]
    return {name: np.array(values, dtype=float) for name, values in made.items()}


def columns_of_batch(step: StepTime, batch: Batch) -> dict[str, FloatArray]:
    """What the law reads of single steps, a row each: a batch of arrays of shape (rows,)."""
    stages, rows = float(step.shares.layout.pipeline), len(np.atleast_1d(batch.tokens))
    amounts = step.shares.amounts(batch)
    made: dict[str, Any] = {}
    for name, one in (("plain", amounts), ("mixed", amounts), ("device", step.device), ("layers", step.layers)):
        made.update({f"{name}.{field}": getattr(one, field) for field in _names(type(one))})
    made.update({"share": 0.0, "plains": 1.0, "mixeds": 0.0, "stages": stages})
    made["plain.sequences"] = made["mixed.sequences"] = batch.decodes
    return {name: np.array(np.broadcast_to(value, rows), dtype=float) for name, value in made.items()}


def least_seconds(columns: Columns) -> FloatArray:
    """What the data sheet allows of each row: bytes over bandwidth or flop over peak, the larger of each step."""

    def least(name: str) -> FloatArray:
        memory, flop = demands(_record(Amounts, name, columns), _record(Device, "device", columns))
        return np.asarray(np.maximum(memory, flop) * columns["stages"], dtype=float)

    share = columns["share"]
    return (columns["plains"] - share) * least("plain") + (columns["mixeds"] + share) * least("mixed")


def machine_groups(machine: Machine, name: str) -> dict[str, str]:
    """The groups of a machine: maker, his stack of software, generation, chip."""
    vendor, generation = machine.family.split("-")[0], generation_of(machine.family)
    stack = UNGROUPED if vendor in ONE_STACK else generation
    return {"vendor": vendor, "stack": stack, "generation": generation, "chip": name}


def generation_of(family: str) -> str:
    """Maker and generation of a family, "nvidia-ada" of "nvidia-ada-ad102"."""
    return "-".join(family.split("-")[:2])


def _record(kind: Any, name: str, columns: Columns) -> Any:
    return kind(**{field: columns[f"{name}.{field}"] for field in _names(kind)})


def _names(kind: Any) -> tuple[str, ...]:
    """Fields of a record, in their order."""
    return tuple(kind.__match_args__)
