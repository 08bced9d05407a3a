"""The formulas of a composite with sizes left open, and what decides all that is read off them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from slipstick.common.expressions import symbol
from slipstick.common.records import Table
from slipstick.estimators.base.operation_model import FormulaModel, grouped, promised_form
from slipstick.estimators.base.schedule_model import FormulaSchedule
from slipstick.estimators.composition.formula_group_steps import SCHEDULE
from slipstick.estimators.composition.formula_groups import Group, constant_group, groups_of
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.formula_cache import promises
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kept import content_text
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    from slipstick.estimators.composition.composed_estimator import Composite

OURS = "slipstick."
"""Where the sources are that tell old formulas from new ones (see `disk_cache`)."""
UNTOLD = (" at 0x", "array(")
"""What stands in a text that other values could have, too."""


@dataclass(frozen=True)
class Opened:
    """The formulas of a composite, made when somebody reads them.

    `bound`: the operations handed over, with all sizes put in that are not `free`.
    """

    composite: Composite
    schedule: FormulaSchedule
    bound: Workload
    machine: Machine
    free: tuple[str, ...]
    run: Table[float]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Operations by formula, the names of its parameters as they are outside."""
        model, operations = self.composite.operation, self.bound.operations
        if not isinstance(model, FormulaModel):
            times = model.times(self.bound.bound(self.run).operations, self.machine)
            return (constant_group(times, operations, self.schedule.lane),)
        formulas = [
            (formula.outside(model, "operation"), indices)
            for formula, indices in grouped(model, operations, self.machine)
        ]
        return groups_of(formulas, operations, self.schedule.lane, model.amount)

    def formula(self, place: str) -> Formula:
        """That of the schedule, or of the group of a number."""
        return self._whole if place == SCHEDULE else self.groups[int(place)].formula

    @cached_property
    def _whole(self) -> Formula:
        # a layout that a schedule reads is a size, too
        sizes = {f"run.{name[9:]}": symbol(name) for name in self.free if name.startswith("workload.")}
        formula = self.schedule.formula(self.bound, self.machine)
        return formula.outside(self.schedule, "schedule").substitute(sizes)


def opened_identity(made: Opened) -> str | None:
    """All that decides the formulas and amounts, as text; None where no text says it, so that nothing is kept."""
    composite, schedule, machine = made.composite, made.schedule, made.machine
    model = composite.operation
    ours = all(type(one).__module__.startswith(OURS) for one in (composite, model, schedule))
    if not ours or not isinstance(model, FormulaModel) or not promises(type(schedule), "formula"):
        return None
    forms = promised_form(model, machine), schedule.form(made.bound, machine)
    content = None if None in forms else content_text(made.bound)
    if content is None:
        return None
    names = [f"{type(one).__module__}.{type(one).__qualname__}" for one in (composite, model, schedule)]
    text = f"{names} {composite!r} {forms!r} {machine.model_dump_json()} {made.free} {made.run!r} {content}"
    return None if any(word in text for word in UNTOLD) else text
