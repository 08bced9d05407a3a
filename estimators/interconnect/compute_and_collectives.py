"""Formulas of several operation models under one roof: arithmetic by one, collectives by another."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import Clock, FormulaModel, promised_form
from slipstick.estimators.interconnect.collectives import Collectives
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.parameters import parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op


@dataclass(frozen=True)
class DeviceAndCollectives(FormulaModel):
    """What a device does by itself, and what it does over its links.

    `device`: evaluated for every kind but "collective".
    `links`: evaluated for collectives.
    """

    device: FormulaModel
    links: Collectives = Collectives()

    def key(self, op: Op, machine: Machine) -> Hashable:
        """The part, and its own key."""
        name, part = self._part(op)
        return name, part.key(op, machine)

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """As that of the part does."""
        return self._part(op)[1].holds_open(op, machine)

    def form(self, machine: Machine) -> Hashable:
        """Those of both parts; None where one has none."""
        return joint_form({"device": self.device, "links": self.links}, machine)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """The part's formula; its parameters get the part's name before theirs."""
        name, part = self._part(op)
        renamed = {f"parameter.{one}": symbol(f"parameter.{name}.{one}") for one in parameters(part)}
        return part.formula(op, machine).substitute(renamed)

    def amount(self, op: Op, name: str) -> Amount:
        """As the part counts it."""
        return self._part(op)[1].amount(op, name)

    def amounts(self, operations: Sequence[Op], name: str) -> list[Amount]:
        """As the part of the first counts them: keys name the part."""
        return self._part(operations[0])[1].amounts(operations, name)

    def caches(self, machine: Machine) -> str:
        """As the device has them."""
        return self.device.caches(machine)

    def runs_at(self) -> Clock:
        """As the device."""
        return self.device.runs_at()

    def check_free(self, free: Sequence[str]) -> None:
        """Raise InputError where one of the parts does."""
        self.device.check_free(free)
        self.links.check_free(free)

    def _part(self, op: Op) -> tuple[str, FormulaModel]:
        return ("links", self.links) if op.kind == "collective" else ("device", self.device)


def joint_form(parts: Mapping[str, FormulaModel], machine: Machine) -> Hashable:
    """The forms of some parts, and their kinds; None where one has none."""
    forms = {name: promised_form(part, machine) for name, part in parts.items()}
    ours = all(type(part).__module__.startswith("slipstick.") for part in parts.values())
    if None in forms.values() or not ours:
        return None
    kinds = {name: f"{type(part).__module__}.{type(part).__qualname__}" for name, part in parts.items()}
    return tuple((name, kinds[name], forms[name]) for name in parts)


OTHER = "other"


@dataclass(frozen=True)
class ComputeAndCollectives(FormulaModel):
    """A model for each kind of operation.

    `kinds`: by kind ("gemm"); "other" serves those that are not named.
    """

    kinds: FrozenDict[FormulaModel]

    def key(self, op: Op, machine: Machine) -> tuple[Hashable, ...]:
        """The part, and its own key."""
        name = self._name(op)
        return name, self.kinds[name].key(op, machine)

    def holds_open(self, op: Op, machine: Machine) -> bool:
        """As that of the part does."""
        return self.kinds[self._name(op)].holds_open(op, machine)

    def form(self, machine: Machine) -> Hashable:
        """Those of all parts; None where one has none."""
        return joint_form(self.kinds, machine)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """The part's formula; its parameters get the kind's name before theirs."""
        name = self._name(op)
        part = self.kinds[name]
        renamed = {f"parameter.{one}": symbol(f"parameter.kinds.{name}.{one}") for one in parameters(part)}
        return part.formula(op, machine).substitute(renamed)

    def caches(self, machine: Machine) -> str:
        """As the model of the rest has them."""
        return self.kinds[OTHER].caches(machine)

    def runs_at(self) -> Clock:
        """As the model of the rest."""
        return self.kinds[OTHER].runs_at()

    def check_free(self, free: Sequence[str]) -> None:
        """Raise InputError where one of the parts does."""
        for part in self.kinds.values():
            part.check_free(free)

    def _name(self, op: Op) -> str:
        return op.kind if op.kind in self.kinds else OTHER
