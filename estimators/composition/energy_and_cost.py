"""What a run uses up beside time: joules and dollars, as formulas of its time, its work and the machine's numbers.

The work of a whole workload, of which its energy follows: flop at their energy, and bytes moved.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import is_symbolic, sp, symbol
from slipstick.common.formatting import format_quantity
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.base.operation_model import Clock, machine_values
from slipstick.estimators.composition.geometry import followed
from slipstick.estimators.power.energy import PowerModel, flop_energy, pooled_power, with_flop_energy
from slipstick.estimators.power.power_cap import RATED_CLOCK, rating
from slipstick.estimators.power.serving_power_law import Use
from slipstick.estimators.power.voltage import knee, squared_voltage
from slipstick.estimators.roofline.roofline import rated_flop
from slipstick.estimators.symbolic.formula import Formula, parameters
from slipstick.estimators.symbolic.lambdified import evaluate, steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import CachedParts, Formulas, text_as_steps
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.cost import Amount, symbols_of
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_cache import content_text
from slipstick.workloads.graph.workload_kind import workload_kind


def work_of(workload: Workload, machine: Machine) -> tuple[Amount | Evaluable, Amount | Evaluable]:
    """Flop, each at its energy over that of a float32 flop, and bytes moved, of all executions; open ones as steps."""
    kept = _cached_work(Same(workload), machine.form)
    if not kept:
        kept.append(_work(workload, machine))
    return kept[0]


def _work(workload: Workload, machine: Machine) -> tuple[Amount | Evaluable, Amount | Evaluable]:
    """The work of all executions; with open sizes as steps, which are kept."""
    content = content_text(workload) if workload.symbols else None
    if content is None:
        return _work_of(workload, machine)
    parts = CachedParts(f"work {machine.form!r} {content}", "functions")

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
def _cached_work(workload: Same[Workload], form: Hashable) -> list[tuple[Amount | Evaluable, Amount | Evaluable]]:
    """The place for the work of a workload on machines of one form: their engines decide what a flop costs."""
    return []


def _float32_flop(op: Op, times: Amount, machine: Machine) -> Iterator[Amount]:
    """Flop of all executions, each weighted with its energy over that of a float32 flop of a vector engine."""
    for name, *served in rated_flop(op, machine):
        yield op.cost[name] * times * flop_energy(*served)


def _sum(amounts: Iterable[Amount]) -> Amount:
    """Numbers as numbers; open amounts added at once, for sympy sorts the terms of a sum at every step."""
    listed = list(amounts)
    open_ = [amount for amount in listed if symbols_of(amount)]
    if not open_:
        return math.fsum(map(float, listed))
    return sp.Add(sp.Float(math.fsum(float(amount) for amount in listed if not symbols_of(amount))), *open_)


ENERGY, COST = "energy_J", "cost_usd"
SECONDS_PER_HOUR = 3600
EXCESS = "above the power cap"
"""Where a line on more power than the cap allows begins, in times that know no cap."""
HELD = "at the power cap"
"""Where a line on the same begins in times that are those of the clock which the cap leaves."""


@dataclass(frozen=True)
class Consumption:
    """A quantity that follows from the time of a run, its work, and the machine's numbers.

    `name`: with its unit: "energy_J", "cost_usd".
    `formula`: symbols: time [s], machine.PATH, parameter.NAME, and those of `work`.
    `machine`: whose numbers follow a geometry that varies (`geometry.followed`).
    `base`: the values of all symbols that do not vary, those of the workload among them by their own names.
    `work`: amounts of the whole workload, of the workload's symbols: operation.float32_flop, ...
    `demand`: what the work would take where no cap held it, in the same symbols; None where nothing holds it.
    `rated`: watts above which no cap of a board raises the clock of its times; infinite where the clock is the
        machine's.
    `falls`: what falls with the clock below the stated one: the joules of the work, as the square of the voltage, or
        the watts of a device at work, as those of a server do (`ServingPower`).
    """

    name: str
    formula: Evaluable
    machine: Machine
    base: FrozenDict[float]
    work: FrozenDict[Amount | Evaluable] = FrozenDict()
    demand: Evaluable | None = None
    rated: float = math.inf
    falls: Literal["joules", "watts"] = "joules"

    def reads(self, name: str) -> bool:
        """Whether a quantity (machine.*, workload.*, run.*) has a say beside the time."""
        inside = name.partition(".")[2]
        open_ = frozenset().union(*map(_names, self.work.values()))
        geometry = {f"machine.{path}" for path in self.machine.geometry.get(inside, ())}
        read = name in self.formula.names or not geometry.isdisjoint(self.formula.names)
        return read or (not name.startswith("machine.") and inside in open_)

    def __call__(self, free: Mapping[str, npt.ArrayLike], times: npt.ArrayLike) -> FloatArray:
        """The amount at times [s] and values of free quantities (machine.*, workload.*, run.*), in the times' shape."""
        return np.array(np.broadcast_to(self.formula.evaluate(self.values(free, times)), np.shape(times)))

    def values(self, free: Mapping[str, npt.ArrayLike], times: npt.ArrayLike) -> dict[str, Any]:
        """All symbols of the formula: numbers, or arrays of the free quantities' shapes."""
        values: dict[str, Any] = {**self.base, "time": np.asarray(times, dtype=np.float64)}
        for name, array in free.items():
            values[name if name.startswith("machine.") else name.partition(".")[2]] = np.asarray(array, dtype=float)
        follows = {name: one for name, one in followed(self.machine, free).items() if name in values}
        values |= {name: one.evaluate({**machine_values(one, self.machine), **values}) for name, one in follows.items()}
        for name, amount in self.work.items():
            if isinstance(amount, Evaluable):
                values[name] = amount.evaluate(values)
            else:
                values[name] = evaluate(amount, values) if is_symbolic(amount) else amount
        if "machine.power.cap" in values and math.isfinite(self.rated):
            values["machine.power.cap"] = np.minimum(
                values["machine.power.cap"], rating(self.machine, free)[0] * self.boards(free)
            )
        return values

    def boards(self, free: Mapping[str, npt.ArrayLike]) -> FloatArray:
        """Dies over those of the machine: each brings its share of the cap."""
        return np.asarray(free.get("machine.dies.count", self.machine.dies.count)) / self.machine.dies.count


def energy(
    workload: Workload,
    machine: Machine,
    run: Mapping[str, float] | None = None,
    power: PowerModel | None = None,
    clock: Clock = "held",
) -> Consumption:
    """Joules: the mean power of the whole workload (see `PowerModel`) times its time; symbols of the work stay open.

    `power`: if left out, the factors of `pooled_power`: fitted on metered GPUs alone; of a server's step the law that
        `serve` answers with (`step_watts`).
    `clock`: the clock of the times: the machine's own, or the one that the cap holds. The mean power is never above the
        cap; `over_cap` says where the work would draw more in these times.
    Raises InputError where the machine states no power, or the workload counts neither flop nor bytes.
    """
    if power is None and draws_as_server(workload, machine):
        return _joules_of_step(workload, machine, run or {}, clock)
    power = power or pooled_power(machine, use_of(workload))[0]
    machine = with_flop_energy(machine)
    joules, demand = _joules_of(power, machine, clock)
    flop, moved = work_of(workload, machine)
    if flop == 0 and moved == 0:
        raise InputError(f"workload {workload.name!r} counts neither flop nor bytes: its energy is unknown")
    symbols = {name: float(value) for name, value in {**workload.defaults, **(run or {})}.items()}
    symbols[RATED_CLOCK] = float(machine.stated.clock)
    values = {f"parameter.{name}": value for name, (value, _) in parameters(power).items()}
    work = FrozenDict(
        {"operation.float32_flop": flop, "operation.bytes_moved": moved, "operation.devices": devices_of(workload)}
    )
    numbers = machine_values(joules, machine)
    rated = machine.stated.power.cap if clock == "held" else None
    base = FrozenDict({**symbols, **values, **numbers})
    return Consumption(ENERGY, joules, machine, base, work, demand, rated or math.inf)


def _joules_of_step(workload: Workload, machine: Machine, run: Mapping[str, float], clock: Clock) -> Consumption:
    """Joules of a step of serving."""
    from slipstick.estimators.engine_steps.step_energy import step_joules, step_numbers, step_work  # of steps alone

    held, free = step_joules(workload, machine)
    sizes = {name: float(value) for name, value in {**workload.defaults, **run}.items()}
    base = FrozenDict(
        {**sizes, **step_numbers(machine), **machine_values(held, machine), **machine_values(free, machine)}
    )
    work: FrozenDict[Amount | Evaluable] = FrozenDict(
        {**step_work(workload), "operation.devices": devices_of(workload)}
    )
    rated = machine.stated.power.cap if clock == "held" else None
    return Consumption(ENERGY, held, machine, base, work, free if clock == "held" else None, rated or math.inf, "watts")


def _joules_of(power: PowerModel, machine: Machine, clock: Clock) -> tuple[Evaluable, Evaluable]:
    """The steps of `_joules`: those of machines of one form are the same, since they name their numbers."""
    known = _formulas((machine.form, knee(machine)))
    held = known.get(f"{clock} under the cap", lambda: _joules(power, machine, clock)[0].lowered)
    free = known.get(f"{clock} without it", lambda: _joules(power, machine, clock)[1].lowered)
    known.keep()
    return held, free


@lru_cache(maxsize=16)
def _formulas(form: Hashable) -> Formulas:
    return Formulas(f"{ENERGY} {form!r}")


def _joules(power: PowerModel, machine: Machine, clock: Clock) -> tuple[Formula, Formula]:
    """Joules under the cap, and what the work would take without it.

    Held times are those of a clock that the cap may have left: up to the rated one nothing is known of the voltage but
    the least, and above it the voltage rises with the clock that was set.
    """
    capped, free = power.formula(machine), power.uncapped(machine, squared_voltage(knee(machine)))
    demand = free.expression
    if clock == "held":
        raised = Largest(1, symbol("machine.clock") / symbol(RATED_CLOCK)) ** 2
        demand = Largest(power.uncapped(machine, raised).expression, capped.expression)
    taken = symbol("time") * symbol("operation.devices")
    return tuple(Formula(watts * taken, "J", free.source) for watts in (capped.expression, demand))  # type: ignore[return-value]


def devices_of(workload: Workload) -> int | Evaluable:
    """How many devices do what the workload says of one: its metadata `devices`, a formula of numbers of the run."""
    text = workload.metadata.get("devices")
    return text_as_steps(text) if isinstance(text, str) else 1


def device_count(workload: Workload, run: Mapping[str, float]) -> int:
    """The same at numbers of a run; defaults are those of the workload."""
    many = devices_of(workload)
    return many if isinstance(many, int) else int(many.evaluate({**workload.defaults, **run}))


def _names(amount: Amount | Evaluable) -> frozenset[str]:
    return frozenset(amount.names) if isinstance(amount, Evaluable) else symbols_of(amount)


def draws_as_server(workload: Workload, machine: Machine) -> bool:
    """Whether metered servers say what a workload draws: a step of serving on a GPU."""
    return machine.power.cap is not None and machine_kind(machine) == "gpu" and workload_kind(workload) == "step"


def use_of(workload: Workload) -> Use:
    """Training where the workload has operations of a backward pass or an optimizer."""
    forward = all(op.attributes.get("phase", "forward") == "forward" for op in workload.distinct.operations)
    return "inference" if forward else "training"


def power_half_width(
    workload: Workload, machine: Machine, seconds: float, run: Mapping[str, float] | None = None
) -> float | None:
    """Half of the 80 % band of the log power of a workload that takes so long; None where none was fitted."""
    if draws_as_server(workload, machine):
        from slipstick.estimators.engine_steps.step_energy import step_half_width  # of steps alone

        return step_half_width(workload, machine, seconds, run or {})
    return pooled_power(machine, use_of(workload))[1]


def energy_of(
    workload: Workload,
    machine: Machine,
    time: float,
    run: Mapping[str, float] | None = None,
    clock: Clock = "held",
) -> tuple[float | None, tuple[str, ...]]:
    """Joules of a bound workload that takes `time` seconds, all devices together, and a line where they pass the cap.

    None where they are unknown.
    """
    if time <= 0:
        return None, ()
    try:
        consumed = energy(workload, machine, run, clock=clock)
    except InputError:
        return None, ()
    return float(consumed({}, time)), over_cap(consumed, machine, {}, time)


def over_cap(
    consumed: Consumption, machine: Machine, free: Mapping[str, npt.ArrayLike], times: npt.ArrayLike
) -> tuple[str, ...]:
    """Lines where a device would draw more than its cap in these times.

    Times that know no cap are too short there. Those of the clock that the cap leaves, at most the stated one, have
    their clock lowered already: that is the energy counted for flop and bytes, which the cap ends.

    `consumed`: Joules of all devices.
    """
    seconds = np.atleast_1d(np.asarray(times, dtype=float))
    values = {name: np.atleast_1d(np.asarray(array, dtype=float)) for name, array in free.items()}
    known = consumed.values(values, seconds)
    demanded = np.broadcast_to((consumed.demand or consumed.formula).evaluate(known), seconds.shape)
    watts = demanded / seconds / np.asarray(known["operation.devices"], dtype=float)
    cap = values.get("machine.power.cap", float(machine.power.cap or np.inf)) * consumed.boards(values)
    cap = np.broadcast_to(cap, watts.shape)
    over = watts > cap * (1 + 1e-6)
    clock = np.broadcast_to(values.get("machine.clock", machine.clock), watts.shape)
    fallen = (clock <= machine.stated.clock * (1 + 1e-6)) & math.isfinite(consumed.rated)
    lines = []
    for begins, ends, points in (
        (
            EXCESS,
            "the clock would fall and the time grow; the energy is what the cap allows in this time",
            over > fallen,
        ),
        (
            HELD,
            "the time is that of the clock which it leaves; the energy is what it allows in this time",
            over & fallen,
        ),
    ):
        if points.any():
            worst = int(np.argmax(np.where(points, watts / cap, 0.0)))
            where = f" at {int(points.sum())} of {len(over)} points, at worst" if len(over) > 1 else ""
            drawn, allowed = format_quantity(float(watts[worst]), "W"), format_quantity(float(cap[worst]), "W")
            lines.append(f"{begins}{where}: would draw {drawn} on average, cap {allowed}: {ends}")
    return tuple(lines)


def mean_watts(consumed: Consumption, free: Mapping[str, npt.ArrayLike], times: npt.ArrayLike) -> FloatArray:
    """Mean power of a device [W] in these times, by joules of all devices."""
    seconds = np.asarray(times, dtype=float)
    return np.asarray(consumed(free, seconds) / seconds / _devices(consumed, free, seconds))


def moved_bytes(consumed: Consumption, free: Mapping[str, npt.ArrayLike]) -> FloatArray:
    """Bytes that the whole workload moves on a device."""
    return np.asarray(consumed.values(free, 1.0)["operation.bytes_moved"], dtype=float)


def _devices(consumed: Consumption, free: Mapping[str, npt.ArrayLike], seconds: FloatArray) -> FloatArray:
    return np.asarray(consumed.values(free, seconds)["operation.devices"], dtype=float)


def cost(machine: Machine, workload: Workload | None = None, run: Mapping[str, float] | None = None) -> Consumption:
    """Dollars: the machine's price an hour times the time, for each device of the workload (one where none is given).

    Raises InputError where the machine states no price.
    """
    if machine.price is None:
        raise InputError(f"machine {machine.name!r} gives no price in $/h: its cost is unknown")
    defaults = workload.defaults if workload else {}
    values = {name: float(value) for name, value in {**defaults, **(run or {})}.items()}
    work: FrozenDict[Amount | Evaluable] = FrozenDict({"operation.devices": devices_of(workload) if workload else 1})
    kept = Formulas(COST)
    dollars = kept.get(COST, _dollars)
    kept.keep()
    return Consumption(COST, dollars, machine, FrozenDict({**values, "machine.price": float(machine.price)}), work)


def dollars_formula() -> Formula:
    """Price an hour times the time of all devices, $."""
    price = symbol("machine.price") * symbol("operation.devices")
    return Formula(symbol("time") * price / SECONDS_PER_HOUR, "$", "price times time")


def _dollars() -> Evaluable:
    return dollars_formula().lowered
