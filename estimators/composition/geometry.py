"""Numbers of a machine that follow others: rates the geometry they are stated at, bandwidth the dies' connections."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from slipstick.common.expressions import sp, symbol
from slipstick.common.records import Same
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.formula_steps import FormulaSteps
from slipstick.hwmodels.link import Dies
from slipstick.hwmodels.machine import REACHED, Machine

SOURCE = "stated numbers times the ratio of the geometry that they are stated at; what connections between dies leave"


def followed(machine: Machine, free: Collection[str]) -> Mapping[str, FormulaSteps]:
    """What `Machine.using` makes of numbers that follow the free ones: as formulas, to vary on arrays."""
    return _followed(Same(machine), frozenset(free))


def follows(machine: Machine) -> Mapping[str, FormulaSteps]:
    """All numbers that follow others; dies are a number of the machine where it says of what they are."""
    names = [name for name in machine.numbers if name != "dies.count" or machine.stated.dies != Dies()]
    return followed(machine, [f"machine.{name}" for name in names])


@lru_cache(maxsize=64)
def _followed(same: Same[Machine], free: frozenset[str]) -> Mapping[str, FormulaSteps]:
    machine = same.it
    made: dict[str, sp.Expr] = {}
    for path, scaled in machine.geometry.items():
        if f"machine.{path}" in free and (stated := machine.get(path)):
            for name in (f"machine.{each}" for each in scaled):
                made[name] = made.get(name, symbol(name)) * symbol(f"machine.{path}") / stated
    if machine.memory and machine.dies.bandwidth is not None:
        whole = sp.Mul(*(_now(f"machine.{path}", made) for path in machine.stated_factors(machine.main_memory)))
        count, local = symbol("machine.dies.count"), symbol("machine.dies.local")
        afar = (count - 1) / count if machine.dies.local is None else 1 - local
        reached = sp.Min(whole, count / sp.Max(afar, sp.Float(1e-12)) * symbol("machine.dies.bandwidth"))
        if not free.isdisjoint(map(str, reached.free_symbols)) or whole.has(*map(symbol, made)):
            made[f"machine.memory.{machine.main_memory}.{REACHED}"] = reached
    return {name: FormulaSteps.of(Formula(one, "as stated", SOURCE)) for name, one in made.items()}


def _now(name: str, made: Mapping[str, sp.Expr]) -> sp.Expr:
    return made.get(name, symbol(name))
