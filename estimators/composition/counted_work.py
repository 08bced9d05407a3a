"""The work of a whole workload, of which its energy follows: flop at their energy, and bytes moved."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache

from slipstick.common.lazy_sympy import sp
from slipstick.common.records import Same
from slipstick.estimators.power.energy import MATRIX_ENERGY
from slipstick.estimators.roofline.roofline import serving_engine
from slipstick.estimators.symbolic.lambdified import steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import KeptParts
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount, symbols_of
from slipstick.workloads.graph.kept import content_text
from slipstick.workloads.graph.workload import Op, Workload


def work_of(workload: Workload, machine: Machine) -> tuple[Amount | Evaluable, Amount | Evaluable]:
    """Flop, each at its energy over that of a float32 flop, and bytes moved, of all executions; open ones as steps."""
    kept = _kept_work(Same(workload), machine.form)
    if not kept:
        kept.append(_work(workload, machine))
    return kept[0]


def _work(workload: Workload, machine: Machine) -> tuple[Amount | Evaluable, Amount | Evaluable]:
    """The work of all executions; with open sizes as steps, which are kept."""
    content = content_text(workload) if workload.symbols else None
    if content is None:
        return _work_of(workload, machine)
    parts = KeptParts(f"work {machine.form!r} {content}", "functions")

    def made(place: int) -> Evaluable:
        return Evaluable("1", steps_of(sp.sympify(_work_of(workload, machine)[place], strict=True)))

    flop = parts.part("flop", Evaluable.of, lambda: made(0))
    moved = parts.part("bytes moved", Evaluable.of, lambda: made(1))
    parts.keep()
    return _number_or_steps(flop), _number_or_steps(moved)


def _number_or_steps(amount: Evaluable) -> Amount | Evaluable:
    return amount if amount.names else float(amount.evaluate({}))


def _work_of(workload: Workload, machine: Machine) -> tuple[Amount, Amount]:
    """Flop, each at its energy over that of a float32 flop, and bytes moved, of all executions."""
    pairs = zip(workload.distinct.operations, workload.merged_times, strict=True)
    worked = [(op, times) for op, times in pairs if op.kind not in machine.runtime.free_kinds]
    flop = _sum(part for op, times in worked for part in _float32_flop(op, times, machine))
    return flop, _sum(times * op.cost.bytes_moved for op, times in worked)


@lru_cache(maxsize=8)
def _kept_work(workload: Same[Workload], form: Hashable) -> list[tuple[Amount | Evaluable, Amount | Evaluable]]:
    """The place for the work of a workload on machines of one form: their engines decide what a flop costs."""
    return []


def _float32_flop(op: Op, times: Amount, machine: Machine) -> Iterator[Amount]:
    """Flop of all executions, each weighted with its energy over that of a float32 flop of a vector engine."""
    for name, amount in op.cost.items():
        if name.startswith("flop."):
            _, unit, dtype = name.split(".")
            engine = serving_engine(machine, unit, dtype)
            yield amount * times * (MATRIX_ENERGY.get(dtype, 1.0) if engine == "matrix" else 1.0)


def _sum(amounts: Iterable[Amount]) -> Amount:
    """Numbers as numbers; open amounts added at once, for sympy sorts the terms of a sum at every step."""
    listed = list(amounts)
    open_ = [amount for amount in listed if symbols_of(amount)]
    if not open_:
        return math.fsum(map(float, listed))
    return sp.Add(sp.Float(math.fsum(float(amount) for amount in listed if not symbols_of(amount))), *open_)
