"""A run of a fed accelerator: steps behind infeed and input pipeline, start-up, evaluations, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import is_symbolic, sp, symbol
from slipstick.common.formatting import format_quantity
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.schedule_model import FormulaSchedule, Outcome
from slipstick.estimators.schedules.infeed import InfeedOverlap
from slipstick.estimators.symbolic.formula import Formula, Parameter, parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import family_of
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.runs.feed import run_of
from slipstick.workloads.transforms.on_cores import stands_on_cores

SOURCE = "the slowest of device, infeed and host sets the step; start-up, evaluations and checkpoints come on top"
ONE_STEP = {"steps": 1.0, "sessions": 0.0, "evaluations": 0.0, "evaluation_steps": 0.0, "checkpoints": 0.0}
"""A step by itself: the default where the run gives no number of steps."""
MOMENTS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "adagrad": 1, "rmsprop": 1}
"""Numbers that an optimizer keeps, and a checkpoint holds, beside each parameter."""
STATE_BYTES = 4.0
SHORTEST = 1e-9
"""Seconds: less is no transfer."""
LANES = ("device", "infeed", "host")
SHARES = ("infeed", "idle", "device", "link", "host")


@dataclass(frozen=True)
class InputBoundRun(InfeedOverlap):
    """Whole run = steps x step + sessions + evaluations + checkpoints.

    step = max(overlap, host) + what is not prefetched, overlap as `InfeedOverlap`: the host makes the next batches
    while the device works, where at least one is prefetched; with none the two take turns. A session first builds and
    saves the graph on the client, then sets the accelerator up and compiles; an evaluation is a session of its own
    with forward passes, each a third of a step; a checkpoint moves parameters and the optimizer's state to storage.

    The start-up times are those of the log of BERT on a Cloud TPU v2-8 in github.com/tensorflow/tpu (commit 7dc921f,
    tools/colab/bert_finetuning_with_cloud_tpus.ipynb, two runs of 28 March 2019). Between its time stamps: 24 s in
    which the model is built and 15 s in which it is finalised and initialised (570 operations after fusion), 12 s of
    writing the graph, 7.4 s and 1 s to set the TPU up and shut it down, 3.9 s of compilation for the 190 operations of
    an evaluation, 26.4, 22.1, 23.2 and 25.8 s to save 1.31 GB. One program's log: others follow from their operations.

    Numbers of the run: steps, sessions (one at least where there are several steps), evaluations, evaluation_steps (of
    each), checkpoints (after a session's first), prefetch (batches).
    """

    client: Annotated[float, Parameter("s", "to write a session's graph", 0.0, 1e4)] = 12.0
    client_build: Annotated[float, Parameter("s", "to build and initialise an operation", 0.0, 10.0)] = 0.068
    setup: Annotated[float, Parameter("s", "to set the accelerator up and shut it down", 0.0, 1e4)] = 8.4
    compilation: Annotated[float, Parameter("s", "to compile an operation", 0.0, 10.0)] = 0.0205
    storage_bandwidth: Annotated[float, Parameter("byte/s", "of checkpoints to storage", 1e3, 1e12)] = 5.4e7

    def lane(self, op: Op) -> str:
        """As `InfeedOverlap`; making the examples is a lane of its own."""
        if op.kind == "host" and op.attributes.get("function") == "decode":
            return "host"
        return InfeedOverlap.lane(self, op)

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """Symbols: time.device, time.infeed, time.host, run.*, parameter.*."""
        sides = FrozenDict(device=symbol("time.device"), infeed=symbol("time.infeed"), host=symbol("time.host"))
        return Formula(self.client_time(workload) + self.accelerator_time(workload), "s", SOURCE, sides)

    def client_time(self, workload: Workload) -> sp.Expr:
        """Of building graphs and saving them, before the accelerator has anything to do with the run."""
        save = state_bytes(workload) / symbol("parameter.storage_bandwidth")
        build = symbol("parameter.client_build")
        session = symbol("parameter.client") + len(workload) * build + save
        return _sessions() * session + symbol("run.evaluations") * _forward(workload) * build

    def accelerator_time(self, workload: Workload) -> sp.Expr:
        """From the accelerator's set-up to its shutdown, all sessions together: what its profiler sees."""
        step, _ = _step()
        setup, compilation = symbol("parameter.setup"), symbol("parameter.compilation")
        evaluation = setup + _forward(workload) * compilation + symbol("run.evaluation_steps") * step / 3
        return (
            symbol("run.steps") * step
            + _sessions() * (setup + len(workload) * compilation)
            + symbol("run.evaluations") * evaluation
            + symbol("run.checkpoints") * state_bytes(workload) / symbol("parameter.storage_bandwidth")
        )

    def run_defaults(self, machine: Machine) -> Mapping[str, float]:
        """See `Schedule.run_defaults`."""
        return {**ONE_STEP, "prefetch": 2.0}

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """See `Schedule.run_names`."""
        return frozenset({*ONE_STEP, "prefetch"})

    def steps_of(self, run: Mapping[str, float]) -> float:
        """Those of the run."""
        return run.get("steps", 1.0)

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; metrics are those of `account`, and the useful flop's share of the peak (matrix).

        Raises InputError where the machine has no matrix engine.
        """
        outcome = FormulaSchedule.combine(self, workload, times, machine, run)
        account = self.account(workload, machine, run, self.lanes(workload, times))
        metrics = {name: float(account[name]) for name in SHARES}
        flop = sum(float(op.cost.flop) * float(op.times) for op in workload if family_of(op.kind).product)
        if "matrix" not in machine.engines:
            raise unknown_name(f"engine of machine {machine.name!r}", "matrix", list(machine.engines))
        dtype = next(iter(machine.engines["matrix"].flop_per_cycle))
        cores = machine.cores if stands_on_cores(workload) else 1  # whose work the operations are
        useful = flop * cores / machine.peak("matrix", dtype)
        metrics["matrix"] = useful * float(account["work"] / account["seen"])
        notes = _run_notes(run, float(account["step"]))
        return replace(outcome, metrics=FrozenDict(metrics), assumptions=notes)

    def lanes(self, workload: Workload, times: FloatArray) -> dict[str, float]:
        """Seconds of each lane in one step."""
        sums = dict.fromkeys(LANES, 0.0)
        for op, time in zip(workload, times, strict=True):
            sums[self.lane(op)] += float(time) * float(op.times)
        return sums

    def account(
        self,
        workload: Workload,
        machine: Machine,
        run: Mapping[str, float],
        lanes: Mapping[str, float | FloatArray],
        start: float | FloatArray = 1.0,
    ) -> dict[str, FloatArray]:
        """Seconds and shares of the run, for lanes' seconds [s] as numbers or as arrays that broadcast.

        time: of the whole run; seen: from the accelerator's set-up to its shutdown, of which the shares are. infeed:
        the device waits for input; idle: it waits for input, for its set-up, compilation or checkpoints; device: its
        operations; link: batches are handed in; host: examples are made. `start` scales all that is no step; `work`
        counts steps, those of evaluations as what they are of one.
        """
        values: dict[str, Any] = {f"parameter.{name}": value for name, (value, _) in parameters(self).items()}
        values |= {f"run.{name}": float(value) for name, value in run.items()}
        values |= {f"time.{name}": value for name, value in lanes.items()}
        parts = (*_step(), self.accelerator_time(workload), self.client_time(workload))
        step, busy, seen, client = (Formula(part, "s", SOURCE).evaluate(values) for part in parts)
        work = run["steps"] + run["evaluations"] * run["evaluation_steps"] / 3
        handed = np.asarray(lanes["infeed"]) + self.start * (np.asarray(lanes["infeed"]) > SHORTEST)
        seen = work * step + (seen - work * step) * start
        return {
            "time": seen + client * start,
            "seen": seen,
            "step": step,
            "work": np.asarray(work),
            "infeed": work * (step - busy) / seen,
            "idle": np.maximum(0.0, 1 - work * busy / seen),
            "device": work * np.asarray(lanes["device"]) / seen,
            "link": work * handed / seen,
            "host": work * np.asarray(lanes["host"]) / seen,
        }

    def metric_at(self, name: str, metrics: Mapping[str, float], factor: float) -> float:
        """See `Schedule.metric_at`; for infeed the factor is that of the handing in over the device's time."""
        if name != "infeed":
            return FormulaSchedule.metric_at(self, name, metrics, factor)
        return InfeedOverlap.metric_at(self, name, {**metrics, "host": metrics["link"]}, factor)


@cache
def _step() -> tuple[sp.Expr, sp.Expr]:
    """A step, and its time in which the device does not wait; symbols time.LANE, run.prefetch, parameter.*."""
    device, host = symbol("time.device"), symbol("time.host")
    # where nothing is handed over, nothing starts
    infeed = symbol("parameter.start") * sp.Min(1, symbol("time.infeed") / SHORTEST) + symbol("time.infeed")
    overlap = sp.Max(device, infeed) + symbol("parameter.exposed") * sp.Min(device, infeed)
    alone = sp.Max(0, 1 - symbol("run.prefetch")) * sp.Min(overlap, host)
    busy = overlap - sp.Max(0, infeed - device)
    return sp.Max(overlap, host) + alone, busy


def state_bytes(workload: Workload) -> Amount:
    """Of a checkpoint: parameters and what the optimizer keeps, in four bytes each; 0 where nothing is trained."""
    total: Amount = 0
    for op in workload:
        if op.kind == "optimizer":
            kept = 1 + MOMENTS.get(str(op.attributes.get("function")), 0)
            total = total + op.dims["elements"] * op.times * (kept * STATE_BYTES)
    if is_symbolic(total):
        total = total.xreplace({each: symbol(f"workload.{each}") for each in total.free_symbols})
    return total


def _forward(workload: Workload) -> int:
    """Operations of a forward pass."""
    return sum(op.attributes.get("phase", "forward") == "forward" and op.kind != "host" for op in workload)


@cache
def _sessions() -> sp.Expr:
    """Sessions of a run: those given, and one at least where there are several steps."""
    return sp.Max(symbol("run.sessions"), sp.Min(1, symbol("run.steps") - 1))


def numbers_of_run(workload: Workload, run: Mapping[str, float]) -> dict[str, float]:
    """The numbers of a run: those given, else the workload's own."""
    return {**run_of(workload), **run}


def _run_notes(run: Mapping[str, float], step: float) -> tuple[str, ...]:
    if run["steps"] == 1 and not run["sessions"]:
        return ()
    run = {**run, "sessions": max(1.0, run["sessions"])}
    counts = ", ".join(
        f"{run[name]:g} {name}" for name in ("steps", "sessions", "evaluations", "checkpoints") if run[name]
    )
    return (f"a run of {counts}; a step takes {format_quantity(step, 's')}",)
