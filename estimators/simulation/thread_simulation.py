"""The parallel algorithm of Figure 4 as a SimPy simulation: threads, chunks, barriers, memory.

Source: Viebke et al. 2019, Figure 4. What the formula cannot say: imbalance where threads do not divide the work,
utilisation of each thread, start-up and tail.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from slipstick.common.answer import Event
from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.schedule_model import Outcome, Schedule
from slipstick.estimators.schedules.thread_contention import Contention
from slipstick.estimators.schedules.thread_schedule import THREADS, ThreadSchedule, cycles_per_instruction
from slipstick.estimators.simulation.event_clock import Barrier, EventClock, SharedCapacity
from slipstick.estimators.symbolic.formula import Parameter, check_parameters
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

TRACED_THREADS = 32


@dataclass(frozen=True)
class SharedMemory:
    """Contention as a mechanism: every contended operation is served for `service` seconds by one of `servers`.

    `alone`: seconds of a visit right after one's own, with the data still at hand; None where that is `service` as
        well.
    """

    service: Annotated[float, Parameter("s", "memory service of one contended operation", 0.0, 10.0)]
    servers: int = 1
    alone: float | None = None

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.servers < 1:
            raise InputError(f"SharedMemory.servers = {self.servers}: want at least 1")
        if self.alone is not None and not 0 <= self.alone < float("inf"):
            raise InputError(f"SharedMemory.alone = {self.alone} s: want 0 s or more")


@dataclass(frozen=True)
class ThreadSimulation(Schedule):
    """Threads work through chunks of each phase and meet at a barrier after it; one round is simulated, then repeated.

    Parameters
    ----------
    contention
        By kind, either as measured (a penalty each time) or as a mechanism (a queue).
    """

    contention: FrozenDict[Contention | SharedMemory] = FrozenDict()

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """All hardware threads."""
        return ThreadSchedule().run_defaults(machine)

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """Threads, and the rounds that repeat."""
        return frozenset({"threads", "epochs"})

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; metrics: utilisation (mean, lowest), serial, imbalance and waiting shares.

        Raises
        ------
        InputError
            Where run.threads or run.epochs is no whole number of at least 1, or a phase does not divide by rounds.
        """
        threads, rounds = _whole(run, "threads"), _whole({"epochs": 1, **run}, "epochs")
        lanes = ThreadSchedule(FrozenDict({kind: Contention(0.0, 0.0) for kind in self.contention}))
        factor = float(evaluate(cycles_per_instruction(machine), _cpi_values(machine, threads)))
        penalty, memory = self._memory(workload, threads)
        serial, phases = 0.0, []
        for op, time in zip(workload, times, strict=True):
            lane = lanes.lane(op)
            if lane == "serial":
                serial += float(time) * float(op.times)
                continue
            items = float(op.times) / rounds
            if items != round(items):
                raise InputError(f"operation {op.name!r}: {float(op.times):g} times do not divide into {rounds} rounds")
            contended = lane == "contended"
            seconds = float(time) * factor + (penalty if contended else 0.0)
            phases.append((op.name, round(items), seconds, contended and memory is not None))
        result = simulate_round(phases, threads, memory)
        total = serial + rounds * result.makespan
        busy = [b / result.makespan if result.makespan else 1.0 for b in result.busy]
        even = sum(items * seconds for _, items, seconds, _ in phases) / threads
        return Outcome(
            total,
            f"simulated: {threads} threads, one of {rounds} equal rounds",
            FrozenDict(
                utilisation=sum(busy) / len(busy),
                utilisation_lowest=min(busy),
                serial_share=serial / total if total else 0.0,
                imbalance_share=rounds * max(0.0, result.makespan - even) / total if total else 0.0,
                waiting_share=sum(result.waiting) / (threads * result.makespan) if result.makespan else 0.0,
            ),
            result.trace,
        )

    def _memory(self, workload: Workload, threads: int) -> tuple[float, SharedMemory | None]:
        """Seconds added to each contended operation, or the queue that it visits."""
        kinds = {str(op.attributes["contention"]) for op in workload if "contention" in op.attributes}
        for kind in kinds:
            entry = self.contention.get(kind)
            if isinstance(entry, SharedMemory):
                return 0.0, entry
            if isinstance(entry, Contention):
                values = {"run.threads": threads, "c.intercept": entry.intercept, "c.slope": entry.slope}
                return float(evaluate(entry.formula("c", symbol(THREADS)), values)), None
        return 0.0, None


@dataclass(frozen=True)
class Round:
    """One simulated round: seconds in all, busy and waiting seconds of each thread, and the trace of the first ones."""

    makespan: float
    busy: tuple[float, ...]
    waiting: tuple[float, ...]
    trace: tuple[Event, ...]


def simulate_round(
    phases: Sequence[tuple[str, int, float, bool]], threads: int, memory: SharedMemory | None = None
) -> Round:
    """Threads take equal chunks of each phase (the first ones one item more) and meet at a barrier after it.

    `phases`: (name, items, seconds an item, whether each item visits the memory).
    """
    env = EventClock()
    pool = SharedCapacity(memory.servers if memory else 1)
    service = memory.service if memory else 0.0
    alone = service if memory is None or memory.alone is None else memory.alone
    last = -1
    busy, waiting, trace = [0.0] * threads, [0.0] * threads, list[Event]()
    ended = [env.event() for _ in phases]
    barrier = Barrier(threads, lambda phase: ended[phase].succeed())

    def worker(thread: int) -> Generator[Any, Any, None]:
        nonlocal last
        for phase, (name, items, seconds, queues) in enumerate(phases):
            mine = items // threads + (1 if thread < items % threads else 0)
            start = env.now
            for _ in range(mine if queues else 0):
                yield env.timeout(seconds)
                arrived, turn = env.now, env.event()
                pool.hold(turn.succeed)
                yield turn
                waiting[thread] += env.now - arrived
                taken = alone if last == thread or threads == 1 else service
                last = thread
                yield env.timeout(taken)
                pool.release()
                busy[thread] += taken
            if mine and not queues:
                yield env.timeout(mine * seconds)
            busy[thread] += mine * seconds
            if thread < TRACED_THREADS and mine:
                trace.append(Event(name, f"thread {thread}", start, env.now))
            barrier.arrive(phase)
            yield ended[phase]

    for thread in range(threads):
        env.process(worker(thread))
    env.run()
    return Round(float(env.now), tuple(busy), tuple(waiting), tuple(trace))


def _whole(run: Mapping[str, float], name: str) -> int:
    if name not in run:
        raise InputError(f"give a value for run.{name}")
    value = run[name]
    if value != round(value) or value < 1:
        raise InputError(f"run.{name} = {value:g}: want a whole number of at least 1")
    return round(value)


def _cpi_values(machine: Machine, threads: int) -> dict[str, float]:
    values = {f"machine.cycles_per_instruction.{i}": c for i, c in enumerate(machine.cycles_per_instruction)}
    return {
        **values,
        "machine.cores": machine.cores,
        "machine.threads_per_core": machine.threads_per_core,
        "run.threads": threads,
    }
