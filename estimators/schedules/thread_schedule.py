"""Equal threads share the operations that may run side by side; the rest is serial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.schedule_model import FormulaSchedule, Outcome
from slipstick.estimators.schedules.thread_contention import Contention, ContentionByWeights
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.runs.training_run import LANES, weights_of

THREADS = "run.threads"
"""Symbol of how many threads there are."""
Beyond = Literal["oversubscribed", "wider"]


@dataclass(frozen=True)
class ThreadSchedule(FormulaSchedule):
    """T = serial + (parallel + contended) CPI(p) / p + contention(p) n / p + exchange.

    Operations say their lane in the attribute `lane`: serial, parallel or contended (parallel, and waiting for memory
    once each time: n in all, with the attribute `contention` naming the network). CPI(p) is the machine's cycles per
    instruction with ceil(p / cores) threads on a core; shares of work are not rounded, but where the lane "image"
    (serial) counts the images, no more threads work than there are. An operation of lane "exchange" is done by
    `run.nodes` nodes together, which share all images.

    Source: Viebke et al. 2019, Tables V and VI (there the CPI factor leaves out the preparation).

    Parameters
    ----------
    contention
        By network, as measured on one machine.
    by_weights
        Of other networks on that machine; None where it is unknown.
    beyond
        What more threads than the machine has are: "oversubscribed", which is never faster than all its hardware
        threads, or "wider", a machine of as many more cores of the same kind (Table X of the paper).
    measured_on
        Family or name of the machine whose contention this is; elsewhere it is unknown and counts nothing, and the
        answer says so.
    """

    contention: FrozenDict[Contention] = FrozenDict()
    by_weights: ContentionByWeights | None = None
    beyond: Beyond = "oversubscribed"
    measured_on: str = ""

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """All hardware threads, on one node."""
        return {"threads": hardware_threads(machine), "nodes": 1}

    def keeps_open(self) -> frozenset[str]:
        """The batch: a thread takes one image at a time, and `images` says how many there are."""
        return frozenset({"batch"})

    def lane(self, op: Op) -> str:
        """serial, image (serial too), parallel, contended or exchange.

        Raises
        ------
        InputError
            Where the operation's lane is unknown.
        """
        lane = str(op.attributes.get("lane", "serial"))
        if lane not in LANES:
            raise unknown_name(f"lane of operation {op.name!r}", lane, LANES)
        return lane

    def bounding_lanes(self) -> frozenset[str]:
        """The images: no more threads work than there are."""
        return frozenset({"image"})

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """Symbols: time.LANE, count.contended, count.image, run.threads, run.nodes, machine.*, parameter.*.

        Raises
        ------
        InputError
            Where a workload has several kinds of contention.
        """
        lanes = {self.lane(op) for op in workload}
        used = self._used()
        nodes = symbol("run.nodes") if "exchange" in lanes else sp.Integer(1)
        working, busy = used * nodes, used
        if "image" in lanes:  # an image is one thread's: no more of them work than there are images
            images = symbol("count.image")
            working = sp.Piecewise((sp.Min(working, sp.Max(1, images)), images > 0), (working, True))
            busy = sp.Min(used, working)
        work = symbol("time.parallel") + symbol("time.contended")
        total = symbol("time.serial") + symbol("time.image") + symbol("time.exchange")
        total += work * cycles_per_instruction(machine, busy) / working
        kinds = sorted({str(op.attributes["contention"]) for op in workload if self.lane(op) == "contended"})
        if len(kinds) > 1:
            raise InputError(f"workload {workload.name!r}: one kind of contention at a time, got {kinds}")
        for kind in kinds:
            total += symbol("count.contended") * self._wait(kind, workload, machine, busy) / working
        return Formula(total, "s", "Viebke et al. 2019, Tables V and VI")

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; says what the threads are, and what of the contention is not known."""
        outcome = FormulaSchedule.combine(self, workload, times, machine, run)
        return replace(
            outcome, assumptions=(*self._run_notes(machine, run), *self._contention_notes(workload, machine))
        )

    def knows(self, kind: str, workload: Workload, machine: Machine) -> bool:
        """Whether the contention of a network on a machine is known."""
        here = not self.measured_on or self.measured_on in (machine.family, machine.name)
        return here and (kind in self.contention or (self.by_weights is not None and weights_of(workload) is not None))

    def _used(self) -> sp.Expr:
        threads = symbol(THREADS)
        return threads if self.beyond == "wider" else sp.Min(threads, _hardware())

    def _wait(self, kind: str, workload: Workload, machine: Machine, threads: sp.Expr) -> sp.Expr:
        if not self.knows(kind, workload, machine):
            return sp.Integer(0)
        if kind in self.contention:
            return self.contention[kind].formula(f"parameter.contention.{kind}", threads)
        weights = weights_of(workload)
        if self.by_weights is None or weights is None:
            return sp.Integer(0)
        return self.by_weights.formula("parameter.by_weights", threads, weights)

    def _run_notes(self, machine: Machine, run: Mapping[str, float]) -> tuple[str, ...]:
        threads, there = round(run["threads"]), hardware_threads(machine)
        if threads <= there:
            return (f"{threads} of {there} hardware threads",)
        if self.beyond == "wider":
            cores = -(-threads // machine.threads_per_core)
            keeps = f"--estimator threads-counted keeps its {machine.cores}"
            return (f"{threads} threads are a wider machine of {cores} cores; {keeps}",)
        return (f"{threads} threads oversubscribe {there} hardware threads; --estimator phi-a adds cores for them",)

    def _contention_notes(self, workload: Workload, machine: Machine) -> tuple[str, ...]:
        kinds = sorted({str(op.attributes["contention"]) for op in workload if self.lane(op) == "contended"})
        unknown = [kind for kind in kinds if not self.knows(kind, workload, machine)]
        if unknown:
            return (
                f"contention of {unknown[0]} on {machine.name} is not measured and counts nothing: slipstick measure "
                "contention gives it",
            )
        return tuple(
            f"contention of {kind} from its weights and that of other networks on this machine"
            for kind in kinds
            if kind not in self.contention
        )


def hardware_threads(machine: Machine) -> int:
    """Of all cores."""
    return machine.cores * machine.threads_per_core


def _hardware() -> sp.Expr:
    return symbol("machine.cores") * symbol("machine.threads_per_core")


def cycles_per_instruction(machine: Machine, threads: sp.Expr | None = None) -> sp.Expr:
    """Cycles per instruction of one thread of so many on `machine.cores`; a core holds at most its hardware threads.

    `threads`: run.threads where none are given.

    Beyond the table's last entry a core does no more than with that many threads: they share what it does.

    Examples
    --------
    >>> import slipstick as ss
    >>> table = ss.models.cycles_per_instruction(ss.machine("xeon-phi-7120p"))
    >>> sorted(str(name) for name in table.free_symbols if "cores" in str(name) or "threads" in str(name))
    ['machine.cores', 'machine.threads_per_core', 'run.threads']
    """
    table = machine.cycles_per_instruction
    threads = symbol(THREADS) if threads is None else threads
    on_a_core = sp.Min(sp.ceiling(threads / symbol("machine.cores")), symbol("machine.threads_per_core"))
    last = len(table) - 1
    # whole steps: ceiling(x) <= n where x <= n, and without it a point between two steps is at no border
    spread = sp.Min(threads / symbol("machine.cores"), symbol("machine.threads_per_core"))
    pairs = [(symbol(f"machine.cycles_per_instruction.{n}"), spread <= n + 1) for n in range(last)]
    end = symbol(f"machine.cycles_per_instruction.{last}") * sp.Max(1, on_a_core / len(table))
    return sp.Piecewise(*pairs, (end, True))
