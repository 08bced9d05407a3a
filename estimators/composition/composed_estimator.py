"""An estimator put together from an operation model and a schedule.

The formulas of a composite with sizes left open, and what decides all that is read off them.

Seconds of operations, asked once: in a loop over what the schedule alone reads, operations and machine stay.

What an answer of a composite takes for granted, line by line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.formatting import format_quantity
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Same
from slipstick.common.size_column import SizeColumn, Sized, is_column
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.estimator_base import EstimatorBase, PointByPoint, put_in
from slipstick.estimators.base.operation_model import (
    BoundingModel,
    Clock,
    FormulaModel,
    OperationModel,
    grouped,
    is_formula,
    machine_values,
    promised_form,
)
from slipstick.estimators.base.operation_shares import Parts
from slipstick.estimators.base.schedule_model import FormulaSchedule, Outcome, Schedule
from slipstick.estimators.composition.compiled_estimator import Compiled, check_free, leaves_operations
from slipstick.estimators.composition.energy_and_cost import energy_of
from slipstick.estimators.composition.formula_group_steps import SCHEDULE, group_steps
from slipstick.estimators.composition.formula_groups import Group, constant_group, groups_of
from slipstick.estimators.composition.geometry import follows
from slipstick.estimators.composition.power_capped import (
    CAP,
    CLOCK,
    PowerCappedTimes,
    cap_was_set,
    energy_on_board,
    estimate_power_capped,
)
from slipstick.estimators.composition.workload_cache import (
    FEW,
    arithmetic_of,
    as_compiled,
    bound_with,
    notes_on_dtypes,
    resident,
)
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.estimators.roofline.roofline import widened
from slipstick.estimators.symbolic.formula import OURS, Formula, parameters
from slipstick.estimators.symbolic.formula_steps import FormulaSteps
from slipstick.estimators.symbolic.lambdified.formula_cache import CachedParts, promises
from slipstick.hwmodels.machine import CHANGED, Machine
from slipstick.workloads.graph.footprint import attends_to_cache
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_cache import content_text
from slipstick.workloads.graph.workload_kind import WorkTimed, work_of
from slipstick.workloads.transforms.mixed import precision_notes


def served(machine: Machine, unit: str, dtype: str) -> str:
    """UNIT.DTYPE; a product that another engine or another data type serves says which."""
    if unit == "matrix" and widened(machine, dtype):
        why = "has a lower one" if ("vector", dtype) in machine.slow_halves else "states none"
        return f"{unit}.{dtype} at the rate of float32 ({machine.name} {why} for {dtype}: values are widened)"
    rated = [name for name in ("matrix", "vector") if name in machine.engines]
    rated = [name for name in rated if dtype in machine.engines[name].flop_per_cycle]
    return f"{unit}.{dtype}" + (" on the vector engine" if unit == "matrix" and rated == ["vector"] else "")


def geometry_notes(machine: Machine) -> tuple[str, ...]:
    """What of the geometry is not as stated, by how much that scales the rates, and that a rate is set beside it."""
    lines = []
    for path, scaled in machine.stated.geometry.items():
        before, now = machine.stated.get(path), machine.get(path)
        if not before or before == now:
            continue
        set_too = [name for name in scaled if machine.source_of(name).startswith(CHANGED)]
        beside = f", and a rate that is set beside ({', '.join(set_too)})" if set_too else ""
        lines.append(f"{path} {now:g} instead of {before:g} scales what is stated by {now / before:.4g}{beside}")
    return tuple(lines)


def fusion_notes(before: Workload, after: Workload) -> tuple[str, ...]:
    """How many operations the runtime fused into how many."""
    return (f"{len(before)} operations fused into {len(after)}",) if len(after) < len(before) else ()


def memory_notes(workload: Workload, machine: Machine) -> tuple[str, ...]:
    """That the machine cannot hold the workload, where the graph says so; graphs of many devices say their own."""
    kept = None if "devices" in workload.metadata else resident(Same(workload))
    main = machine.main_memory
    there = machine.memory[main].capacity * machine.instances(main)
    if kept is None or not there or kept <= there:
        return ()
    updates = "optimizer" in workload.kinds
    decodes = any(map(attends_to_cache, workload.distinct.operations))
    serving = "parameters, keys and values alone take" if decodes else "parameters alone take"
    what = "parameters, gradients and optimizer state alone take" if updates else serving
    sizes = [format_quantity(size, "byte") for size in (kept, there)]
    return (f"does not fit: {what} {sizes[0]}, {main} of {machine.name} has {sizes[1]}",)


def stands_for(workload: Workload) -> tuple[str, ...]:
    """That another model's numbers stand for it, where they do."""
    other = str(workload.metadata.get("stands_for", ""))
    return (other,) if other else ()


UNTOLD = (" at 0x", "array(")
"""What stands in a text that other values could have, too."""


@dataclass(frozen=True)
class FreeSizeFormulas:
    """The formulas of a composite, made when somebody reads them.

    `bound`: the operations handed over, with all sizes put in that are not `free`.
    """

    composite: ComposedEstimator
    schedule: FormulaSchedule
    bound: Workload
    machine: Machine
    free: tuple[str, ...]
    run: FrozenDict[float]

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


def opened_identity(made: FreeSizeFormulas) -> str | None:
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


def seconds_of(model: OperationModel, operations: tuple[Op, ...], machine: Machine) -> FloatArray:
    """Seconds of one execution of each operation, shape (operations,); not to be changed.

    Those of formulas are kept; what is measured or drawn is asked anew.
    `machine`: as the operations find it (`ComposedEstimator.as_found`).

    Raises InputError where one takes less than the machine's arithmetic and main memory need.
    """
    if is_formula(model):
        return _cached_seconds(Same(model), Same(operations), Same(machine))
    return _seconds(model, operations, machine)


@lru_cache(maxsize=FEW)
def _cached_seconds(
    model: Same[OperationModel], operations: Same[tuple[Op, ...]], machine: Same[Machine]
) -> FloatArray:
    times = _seconds(model.it, operations.it, machine.it)
    times.flags.writeable = False
    return times


def _seconds(model: OperationModel, operations: tuple[Op, ...], machine: Machine) -> FloatArray:
    times = model.times(operations, machine)
    PhysicalBound(machine).check(operations, times)
    return times


@dataclass(frozen=True)
class ComposedEstimator(EstimatorBase):
    """operation model -> times of operations -> schedule -> time of the workload.

    Parameters
    ----------
    operation
        How long one operation takes on a machine.
    schedule
        How operations share the machine's time.
    source
        Of the combination, for reports.
    """

    operation: OperationModel
    schedule: Schedule
    source: str = ""

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """The time of `workload` on `machine`; the run's numbers bind the workload's symbols of the same name.

        Raises
        ------
        InputError
            Where a symbol or a number of the run has no value, a part cannot answer, or an answer cannot be (0 s, not
            finite, or an operation below what the machine's arithmetic and main memory need).
        """
        run = FrozenDict({**self.schedule.run_defaults(machine), **(run or {})})
        # what is measured or drawn is asked anew
        by_formula = is_formula(self.operation) and isinstance(self.schedule, FormulaSchedule)
        kept = _cached_answer(Same(self), Same(workload), Same(machine), run) if by_formula else []
        if not kept:
            kept.append(estimate_power_capped(self, workload, machine, run, self.runs_at()))
        return kept[0]

    def time(self, workload: Workload, machine: Machine, run: Mapping[str, Sized] | None = None) -> Sized:
        """The seconds of `estimate` alone; of sizes in columns a column."""
        run = FrozenDict({**self.schedule.run_defaults(machine), **(run or {})})
        if any(map(is_column, run.values())):
            return self.in_columns(workload, machine, run)[2].view(SizeColumn)
        if cap_was_set(machine, self.runs_at()):
            return self.estimate(workload, machine, run).time
        return self._timed(workload, machine, run)[2].time

    def at(self, workload: Workload, machine: Machine, run: Mapping[str, float], point: Mapping[str, float]) -> float:
        """Seconds at one point of free quantities, without the parts and the energy of an estimate."""
        if type(self).estimate is not ComposedEstimator.estimate:
            return super().at(workload, machine, run, point)
        changed, values, given = put_in(machine, run, point)
        return float((self.with_parameters(given) if given else self).time(workload, changed, values))

    def as_clocked(self, workload: Workload, machine: Machine, run: FrozenDict[float]) -> Estimate:
        """The same at the machine's clock, whatever another cap than the rated one does to it."""
        bound, times, outcome = self._timed(workload, machine, run)
        workload = self.graph(workload, machine)
        joules, over_cap = energy_of(bound, machine, outcome.time, {**workload.defaults, **run}, self.runs_at())
        return Estimate(
            time=outcome.time,
            energy=joules,
            parts=self._parts(bound, times, machine, outcome),
            rule=outcome.rule,
            metrics=outcome.metrics,
            assumptions=(
                *self.assumptions(bound, machine),
                *fusion_notes(workload, bound),
                *memory_notes(bound, machine),
                *stands_for(workload),
                *outcome.assumptions,
                *over_cap,
            ),
            trace=outcome.trace,
            fixed=outcome.fixed,
            least=outcome.least,
            sides=outcome.sides,
        )

    def _timed(
        self, workload: Workload, machine: Machine, run: FrozenDict[float]
    ) -> tuple[Workload, FloatArray, Outcome]:
        """The bound operations, seconds of one execution of each, and what the schedule makes of them."""
        bound = self.bound(workload, machine, run)
        times = self.once(bound, machine)[bound.distinct.place]
        numbers = {**self.graph(workload, machine).defaults, **run}
        return bound, times, self.schedule.combine(bound, times, machine, numbers)

    def once(self, bound: Workload, machine: Machine) -> FloatArray:
        """Seconds of one execution of each distinct operation, shape (distinct,); of columns (distinct, points)."""
        return seconds_of(self.operation, bound.distinct.operations, self.as_found(bound, machine))

    def in_columns(
        self, workload: Workload, machine: Machine, run: Mapping[str, Sized]
    ) -> tuple[Workload, FloatArray, FloatArray]:
        """The bound operations, seconds of one execution of each distinct one, shape (distinct, points), and of the
        whole, shape (points,), where numbers of the run are columns (`SizeColumn`).

        Raises InputError where the schedule is no formula, SizesDifferError where operations or their laws differ
        between the points.
        """
        run = FrozenDict({**self.schedule.run_defaults(machine), **run})
        bound = self.bound(workload, machine, run)
        once = self.once(bound, machine)
        if not isinstance(self.schedule, FormulaSchedule):
            raise InputError(f"the schedule {type(self.schedule).__name__} is no formula: it takes one size at a time")
        numbers = {**self.graph(workload, machine).defaults, **run}
        return bound, once, self.schedule.seconds(bound, once[bound.distinct.place], machine, numbers)

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> Compiled | PowerCappedTimes | PointByPoint:
        """The time as a function of arrays of the free quantities (machine.*, workload.*, run.*, estimator.*).

        Formula parts compile once and run vectorised; others are evaluated point by point behind the same call.

        Raises
        ------
        InputError
            Where a symbol of the workload is neither free nor given by the run.
        """
        check_free(free)
        run = FrozenDict({**self.schedule.run_defaults(machine), **(run or {})})
        try:
            kept = _cached_compiled(self, Same(workload), machine, tuple(free), run)
        except TypeError:  # a part that has no hash
            kept = []
        if not kept:
            held = cap_was_set(machine, self.runs_at()) or (CAP in free and self.runs_at() == "held")
            kept.append((self._compile_held if held else self._compile)(workload, machine, free, run))
        return kept[0]

    def _compile_held(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: FrozenDict[float]
    ) -> Compiled | PowerCappedTimes | PointByPoint:
        """Under caps that are set."""
        inner = self._compile(workload, machine, tuple(dict.fromkeys((*free, CAP, CLOCK))), run)
        consumed = energy_on_board(self, workload, machine, run)
        if isinstance(inner, PointByPoint) or consumed is None:
            return self._compile(workload, machine, free, run)
        return PowerCappedTimes(inner, consumed, machine, free)

    def _compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: FrozenDict[float]
    ) -> Compiled | PointByPoint:
        workload = self.graph(workload, machine)
        self._check_names(workload, machine, free)
        is_formula, known = isinstance(self.operation, FormulaModel), parameters(self)
        folded = any(name.startswith("estimator.") and known[name[10:]][1].folded for name in free)
        leaves = is_formula or leaves_operations(workload, free)
        if folded or not isinstance(self.schedule, FormulaSchedule) or not leaves:
            return PointByPoint(self, workload, machine, run, tuple(free))
        sizes = tuple(name for name in free if name.startswith(("workload.", "run.")))
        if isinstance(self.operation, FormulaModel):
            self.operation.check_free(free)
        kept = _cached_with_sizes(Same(self), Same(workload), machine, sizes, run) if is_formula else []
        if not kept:
            kept.append(self._with_sizes(self.schedule, workload, machine, sizes, run))
        base = {name: value for name, value in kept[0].base.items() if name not in free}
        return replace(kept[0], base=base, free=tuple(free))

    def _with_sizes(
        self,
        schedule: FormulaSchedule,
        workload: Workload,
        machine: Machine,
        free: tuple[str, ...],
        run: FrozenDict[float],
    ) -> Compiled:
        """Compiled with sizes free alone: what else is free changes no formula."""
        open_names = {name.partition(".")[2] for name in free}
        defaults = {name: value for name, value in workload.defaults.items() if name not in open_names}
        bound = self.lowered_graph(workload, machine).bind_known(
            {**defaults, **{name: run[name] for name in run if name not in open_names}}
        )
        unbound = sorted(bound.symbols - open_names)
        if unbound:
            raise InputError(f"workload {workload.name!r}: give a value for {', '.join(unbound)}")
        source = FreeSizeFormulas(self, schedule, bound, machine, free, run)
        identity = opened_identity(source)
        parts = CachedParts(identity, "functions")
        groups = group_steps(source, parts)
        whole = FormulaSteps(parts, SCHEDULE, source)
        all_parameters = parameters(self)
        base: dict[str, float] = {f"estimator.{name}": value for name, (value, _) in all_parameters.items()}
        for formula in (whole, *(group.formula for group in groups)):
            base |= machine_values(formula, self.as_found(bound, machine))
        for name, followed_by in follows(machine).items():
            base |= machine_values(followed_by, machine) if name in base else {}
        base |= {f"run.{name}": float(value) for name, value in {**defaults, **run}.items()}
        bounds = {name: note for name, (_, note) in all_parameters.items()}
        return Compiled(groups, whole, base, free, machine, bounds, identity)

    def bound(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Workload:
        """What `estimate` has parts of: the operations handed over, with the run's numbers and the defaults put in.

        Raises
        ------
        InputError
            Where a symbol has no value.
        """
        run = FrozenDict({**self.schedule.run_defaults(machine), **(run or {})})
        return bound_with(Same(self.lowered_graph(self.graph(workload, machine), machine)), run)

    def graph(self, workload: Workload, machine: Machine) -> Workload:
        """The operations whose times are combined: by default those of the workload."""
        return workload

    def work(self, workload: Workload, machine: Machine, numbers: Mapping[str, float]) -> WorkTimed:
        """One execution of the workload, or as many as the schedule's run does."""
        return work_of(workload, numbers).repeated(self.schedule.steps_of(numbers))

    @property
    def keeps_open(self) -> frozenset[str]:
        """As the schedule has it."""
        return self.schedule.keeps_open()

    def lowered_graph(self, workload: Workload, machine: Machine) -> Workload:
        """The operations of `graph` as the machine's runtime gets them."""
        return as_compiled(workload, machine)

    def as_found(self, bound: Workload, machine: Machine) -> Machine:
        """The machine as the operations of a program find it: by default as it stands."""
        return machine

    def runs_at(self) -> Clock:
        """The clock whose times these are; learned ones are those of the clock that the cap left."""
        return self.operation.runs_at() if is_formula(self.operation) else "held"

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Numbers of the run that have a say: those of the schedule, and the workload's symbols."""
        workload = self.graph(workload, machine)
        return self.schedule.run_names(workload, machine) | workload.symbols | frozenset(workload.defaults)

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """Those of the schedule."""
        return self.schedule.run_defaults(machine)

    @property
    def operation_formulas(self) -> FormulaModel | None:
        """The operation model where it is a formula."""
        return self.operation if isinstance(self.operation, FormulaModel) else None

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """The whole as one readable formula in machine.*, run.*, workload symbols and estimator.* parameters.

        Raises
        ------
        InputError
            Where a part is no formula.
        """
        if not (isinstance(self.operation, FormulaModel) and isinstance(self.schedule, FormulaSchedule)):
            raise InputError("this estimator is no formula: its operation model or schedule is a table or a simulation")
        workload = self.lowered_graph(self.graph(workload, machine), machine)
        totals: dict[str, Any] = {}
        for formula, indices in grouped(self.operation, workload.operations, machine):
            for index in indices:
                op = workload.operations[index]
                amounts = {n: self.operation.amount(op, n) for n in formula.names if n.startswith("operation.")}
                one = formula.substitute(amounts).outside(self.operation, "operation").expression
                lane = self.schedule.lane(op)
                totals[f"time.{lane}"] = totals.get(f"time.{lane}", 0) + one * op.times
                totals[f"count.{lane}"] = totals.get(f"count.{lane}", 0) + op.times
        schedule = self.schedule.formula(workload, machine)
        empty = {n: 0 for n in schedule.names if n.partition(".")[0] in ("time", "count")}
        whole = schedule.outside(self.schedule, "schedule").substitute({**empty, **totals}).expression
        defaults = {n: v for n, v in workload.defaults.items() if n in {str(s) for s in whole.free_symbols}}
        return Formula(whole, "s", schedule.source, FrozenDict()).substitute({n: symbol(f"run.{n}") for n in defaults})

    def assumptions(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        """What every answer takes for granted: dtypes, cache state."""
        dtypes = [served(machine, *name.split(".")[1:]) for name in arithmetic_of(Same(workload))]
        texts = (
            self._caches(machine),
            *geometry_notes(machine),
            *notes_on_dtypes(Same(workload)),
            *precision_notes(workload.metadata),
            f"flop as {', '.join(dtypes)}" if dtypes else "",
        )
        return tuple(text for text in texts if text)

    def _caches(self, machine: Machine) -> str:
        note = self.operation.caches(machine) if is_formula(self.operation) else ""
        state = machine.runtime.cache
        return note or (f"{state} caches, of which this model knows nothing" if state else "")

    def _parts(self, workload: Workload, times: FloatArray, machine: Machine, outcome: Outcome) -> Parts:
        operation, distinct, counts = self.operation, workload.distinct, workload.executions
        if outcome.alone:
            whole = np.asarray(outcome.elapsed, dtype=np.float64)
            times = np.divide(whole, counts, out=np.zeros_like(whole), where=counts > 0)

        def bounds() -> Sequence[str | None]:
            if not isinstance(operation, BoundingModel):
                return [None] * len(times)
            known = operation.bounds(distinct.operations, machine)
            return [known[place] for place in distinct.place.tolist()]

        return Parts(workload.names, workload.kinds, times, counts, outcome.elapsed, bounds)

    def metric_at(self, name: str, metrics: Mapping[str, float], factor: float) -> float:
        """See `Schedule.metric_at`."""
        return self.schedule.metric_at(name, metrics, factor)

    def _check_names(self, workload: Workload, machine: Machine, free: tuple[str, ...]) -> None:
        known = {
            "machine": list(machine.numbers),
            "workload": sorted(workload.symbols),
            "run": sorted(self.run_names(workload, machine)),
            "estimator": sorted(parameters(self)),
        }
        for name in free:
            space, _, path = name.partition(".")
            if space == "job":
                raise InputError(f"{name}: {workload.name} is no job; jobs are files of stages (.yaml)")
            if space in ("run", "workload") and not known[space]:
                fixed = f"all sizes of {workload.name} are fixed (--input {path},3,224,224 leaves one of a model open)"
                raise InputError(f"unknown {space} quantity {path!r}: {fixed}")
            if space in known and path not in known[space]:
                raise unknown_name(f"{space} quantity", path, known[space])


@lru_cache(maxsize=4)
def _cached_answer(
    estimator: Same[ComposedEstimator], workload: Same[Workload], machine: Same[Machine], run: FrozenDict[float]
) -> list[Estimate]:
    """The place for an answer: the default's band is made of the answer that it is a band of."""
    return []


@lru_cache(maxsize=4)
def _cached_compiled(
    estimator: ComposedEstimator,
    workload: Same[Workload],
    machine: Machine,
    free: tuple[str, ...],
    run: FrozenDict[float],
) -> list[Compiled | PowerCappedTimes | PointByPoint]:
    """The place for a compiled function: the same question is often put to other values."""
    return []


@lru_cache(maxsize=2)
def _cached_with_sizes(
    estimator: Same[ComposedEstimator],
    workload: Same[Workload],
    machine: Machine,
    free: tuple[str, ...],
    run: FrozenDict[float],
) -> list[Compiled]:
    """The place for what other free quantities share: an explanation asks which there are, then opens them all."""
    return []
