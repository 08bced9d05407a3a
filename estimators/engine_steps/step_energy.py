"""Joules of a server's step as formulas of its time: the law of `serving_power`, with which `serve` answers as well."""

from __future__ import annotations

from collections.abc import Mapping

from slipstick.common.expressions import sp, symbol
from slipstick.estimators.engine_steps.step_amounts import Amounts
from slipstick.estimators.engine_steps.step_device import Device, rated_types
from slipstick.estimators.engine_steps.step_graph import (
    GraphStep,
    graph_step,
    step_in_sizes,
    stored_and_multiplied,
)
from slipstick.estimators.engine_steps.step_time import demands
from slipstick.estimators.power.power_cap import RATED_CLOCK, at_stated_clock, rated_watts, share_of_board
from slipstick.estimators.power.power_constants import MEMORY
from slipstick.estimators.power.serving_power import ServingPower, ServingWork
from slipstick.estimators.power.serving_power_law import COLUMNS, MOST, power_fit, power_groups
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import formulas_of
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest, Smallest
from slipstick.hwmodels.machine import STATED, Machine
from slipstick.workloads.graph.cost import Amount, symbols_of
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.language.weight_types import WEIGHT_TYPES

RATED_CAP, IDLE = "rated.cap", "rated.idle"
"""The board's rated and idle power [W], whatever cap was set instead."""
SOURCE = "the law of metered servers (docs/notes/energy.md)"
WIDE_BITS = 16


def step_joules(workload: Workload, machine: Machine) -> tuple[Evaluable, Evaluable]:
    """Joules of a step of a server of all devices: under the cap, and where none held a clock that was raised.

    Symbols: time [s], operation.devices, machine.PATH, and the names of `step_work` and of `step_numbers`.
    """
    types = rated_types(machine, stored_and_multiplied(workload)[1])
    known = formulas_of(ServingPower, ("step", machine.form, machine.stated.form, *types))
    held = known.get("held", lambda: _joules(machine, types)[0].lowered)
    free = known.get("free", lambda: _joules(machine, types)[1].lowered)
    known.keep()
    return held, free


def step_work(workload: Workload) -> dict[str, Amount]:
    """What a step does, in the workload's symbols: bytes it reads, flop at both rates, and what else the law reads."""
    step = step_in_sizes(workload)
    a = step.amounts
    made: dict[str, Amount] = {
        "operation.bytes_moved": a.weight_bytes + a.expert_bytes + a.cache_bytes,
        "operation.narrow_flop": a.linear_flop + a.expert_flop,
        "operation.plain_flop": a.score_flop + a.head_flop,
        "operation.sequences": step.sequences,
        "operation.narrow": _narrow(step),
    }
    return {name: amount if symbols_of(amount) else float(amount) for name, amount in made.items()}


def _narrow(step: GraphStep) -> float:
    """1 where weights of experts have less than 16 bits."""
    kind = WEIGHT_TYPES.get(step.stored)
    return float(step.amounts.expert_bytes != 0 and kind is not None and kind.experts < WIDE_BITS)


def step_numbers(machine: Machine) -> dict[str, float]:
    """What the formulas read beside the work and the machine's fields: parameters of the law, powers of the board."""
    law, (rated, idle) = ServingPower.of(machine), rated_watts(machine)
    fitted = {f"parameter.{name}": float(getattr(law, name)) for name in ("base", *COLUMNS)}
    return {**fitted, RATED_CAP: rated, IDLE: idle, RATED_CLOCK: float(machine.stated.clock)}


def step_half_width(workload: Workload, machine: Machine, seconds: float, run: Mapping[str, float]) -> float:
    """Half of the 80 % band of log power of a step that takes `seconds`."""
    step = graph_step(workload, {**workload.defaults, **run})
    work = _work(step.amounts, seconds, machine, step.compute, step.sequences, _narrow(step))
    return power_fit().half_width(dict(zip(COLUMNS, work.columns(), strict=True)), power_groups(machine))


def clock_of_step(amounts: Amounts, seconds: float, machine: Machine, compute: str, sequences: float = 1.0) -> float:
    """The clock [Hz] that the machine's cap leaves a dense step, which takes `seconds` at the stated clock and cap.

    `compute`: the data type in which its weights are multiplied.
    Raises InputError where idle power and that of memory reach the cap.
    """
    work = _work(amounts, seconds, at_stated_clock(machine), compute, sequences, 0.0)
    return ServingPower.of(machine).held_clock(machine, work)


def _work(a: Amounts, seconds: float, machine: Machine, compute: str, sequences: float, narrow: float) -> ServingWork:
    here, board = (demands(a, Device.of(one, compute)) for one in (machine, machine.stated))
    read, flop = (share_of_board(machine, *both, seconds) for both in zip(board, here, strict=True))
    return ServingWork(read, flop, 1.0, max(sequences, 1.0), narrow)


def _joules(machine: Machine, types: tuple[str, str, str]) -> tuple[Formula, Formula]:
    time, rated, idle = symbol("time"), symbol(RATED_CAP), symbol(IDLE)
    raised = Largest(1, symbol("machine.clock") / symbol(RATED_CLOCK))
    # of what the board reads and multiplies, as it was metered (`share_of_board`)
    dies = symbol(f"{STATED}dies.count") / symbol("machine.dies.count") if machine.stated.dies.count > 1 else 1
    both = zip(_seconds(machine.stated, STATED, types), _seconds(machine, "machine.", types), strict=True)
    read, flop = (dies * board / Largest(time, here) for board, here in both)
    odds = symbol("parameter.base") + symbol("parameter.read") * read
    odds += symbol("parameter.flop") * flop
    odds += symbol("parameter.sequences") * sp.log(Largest(1, symbol("operation.sequences")))
    odds += symbol("parameter.narrow") * symbol("operation.narrow")
    drawn = MOST * rated / (1 + sp.exp(-odds))
    above = Largest(drawn - idle, 0)
    memory = Smallest(above, MEMORY * rated * Smallest(1, read))
    free = drawn + (above - memory) * (raised**3 - 1)
    capped = Smallest(symbol("machine.power.cap"), free)
    taken = time * symbol("operation.devices")
    return Formula(capped * taken, "J", SOURCE), Formula(free * taken, "J", SOURCE)


def _seconds(machine: Machine, whose: str, types: tuple[str, str, str]) -> tuple[sp.Expr, sp.Expr]:
    """Seconds of a step's bytes and of its flop at the rates of a machine, whose fields are named so."""
    unit, plain, narrow = types
    rates = {
        "bytes_moved": machine.bandwidth_factors(machine.main_memory),
        "narrow_flop": machine.peak_factors(unit, narrow),
        "plain_flop": machine.peak_factors(unit, plain),
    }
    moved, *flop = (
        symbol(f"operation.{name}") / sp.Mul(*(symbol(whose + path) for path in paths)) for name, paths in rates.items()
    )
    return moved, sp.Add(*flop)
