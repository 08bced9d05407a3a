"""Which law answers a question where no estimator is named: a table, read from above; the first row that holds answers.

A row names kinds of machines, kinds of work and conditions with their values; nothing else of a question has a say.
What a workload is it declares (`workload_kind`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

from slipstick.common.records import FrozenDict
from slipstick.hwmodels.machine_kind import MachineKind
from slipstick.workloads.graph.workload_kind import WorkloadKind

Condition = Literal["network", "states", "run", "sizes", "open", "links", "mode set"]
"""What a row may ask beside the kinds.

network: of which the workload is a part or a run. states: estimators for which the machine's file says enough.
run: numbers of the run that are given. sizes: those, and the workload's open sizes. open: its open sizes.
links: "cores" where a chip has links to others: its host feeds one core as it feeds many. mode set: the runtime's mode,
where the question sets it.
"""
ALL = "all"
"""In `Route.keeps`: every open size."""


@dataclass(frozen=True)
class Route:
    """A row of the table; an empty column leaves nothing out.

    `law`: the estimator, or what its operations take. `schedule`: how they share the time.
    `because`: why, in a clause.
    `machine`, `work`: kinds of either. `when`: values of conditions: one of each must hold.
    `keeps`: open sizes that the schedule reads as well as the operations, by name, or `ALL`.
    """

    law: str
    schedule: str
    because: str
    machine: tuple[MachineKind, ...] = ()
    work: tuple[WorkloadKind, ...] = ()
    when: FrozenDict[tuple[str, ...]] = field(default_factory=FrozenDict)
    keeps: tuple[str, ...] = ()

    def row(self) -> dict[str, str]:
        """As a line of the table that is printed."""
        conditions = (f"{name}: {' or '.join(values)}" for name, values in self.when.items())
        return {
            "machine": ", ".join(self.machine) or "any",
            "work": ", ".join(self.work) or "any",
            "when": "; ".join(conditions),
            "law": self.law,
            "schedule": self.schedule,
            "because": self.because,
        }


def _when(**values: tuple[str, ...]) -> FrozenDict[tuple[str, ...]]:
    return FrozenDict({name.replace("_", " "): each for name, each in values.items()})


ITS_OWN = "its own"
PHI = tuple(f"phi-cnn-{size}" for size in ("small", "medium", "large"))
ROUTES = (
    Route(
        "phi-a", ITS_OWN, "the paper's thread formula was fitted to this network", ("many-core",),
        when=_when(network=PHI),
    ),
    Route(
        "tpu", ITS_OWN, "its own calibration is of training steps of fully connected networks on a TPU v2",
        when=_when(network=("data-parallel-mlp",)),
    ),
    Route(
        "collectives", ITS_OWN, "collectives take the least of rings, trees and NVLS by NCCL's protocols",
        work=("collective",),
    ),
    Route(
        "training", ITS_OWN, "the law was fitted to published training steps, which plan training searches",
        work=("training",), keeps=(ALL,),
    ),
    Route(
        "serving", ITS_OWN, "a server's steps were fitted to measured ones, request by request",
        work=("requests",), keeps=(ALL,),
    ),
    Route(
        "loops", ITS_OWN, "loops over arrays follow layer conditions, on cores that share a saturating memory",
        work=("loop",), when=_when(states=("loops",)),
    ),
    Route(
        "spmv", ITS_OWN, "the sparse matrix product has a model of its own", work=("sparse product",),
        when=_when(states=("spmv",)),
    ),
    Route("spmv-devices", ITS_OWN, "sparse products were measured on other devices", work=("sparse product",)),
    Route(
        "loops", ITS_OWN, "loops over arrays follow layer conditions, on cores that share a saturating memory",
        ("many-core",), ("loop",), _when(run=("threads",)), ("batch",),
    ),
    Route(
        "data sheet", "one by one", "the law of threads counts images of a network, and a kernel has none",
        ("many-core",), ("kernel",),
    ),
    Route(
        "threads-counted", ITS_OWN,
        "threads share the cores: instructions counted and contention, strategy (a) of Viebke et al. 2019",
        ("many-core",), when=_when(run=("threads",)), keeps=("batch",),
    ),
    Route(
        "threads-counted", ITS_OWN,
        "threads share the cores: instructions counted and contention, strategy (a) of Viebke et al. 2019",
        ("cpu",), when=_when(run=("threads",), sizes=("images",)), keeps=("batch",),
    ),
    Route(
        "kernels in a pipeline", "pipeline", "a device works off its share of a pipeline of microbatches",
        work=("pipeline parallel",), keeps=(ALL,),
    ),
    Route(
        "kernels", "host", "the mode was set, in which no server runs its steps",
        ("gpu",), ("step",), _when(mode_set=("eager", "compiled")),
    ),
    Route(
        "step of an engine", "recorded graph", "servers run steps of a language model as recorded graphs",
        ("gpu",), ("step",),
    ),
    Route("kernels", "alone", "a kernel is timed by itself", ("gpu",), ("kernel",)),
    Route("kernels in streams", "streams", "a device runs them beside its collectives", ("gpu",), ("data parallel",)),
    Route(
        "kernels in programs", "host", "a host issues a program, and forward passes of programs were timed as a whole",
        ("gpu",), ("program",),
    ),
    Route("kernels", "host", "a host issues the operations of a program", ("gpu",)),
    Route(
        "operations of a CPU", "threads", "the threads were set of a network on a CPU", ("cpu",),
        when=_when(run=("threads",)),
    ),
    Route("operations of a CPU", "one by one", "networks were timed on CPUs", ("cpu",)),
    Route(
        "operations of a TPU", "board",
        "a TPU's operations were fitted to training steps on a v2-8, the batch divided over its cores", ("tpu",),
        when=_when(open=("batch",), links=("cores",)), keeps=("batch",),
    ),
    Route("operations of a TPU", "infeed", "a TPU's operations were fitted to training steps on a v2-8", ("tpu",)),
    Route("data sheet", "one by one", "no public measurement is of a machine like this one"),
)  # fmt: skip


def route(machine: MachineKind, work: WorkloadKind, known: Callable[[str], Collection[str]]) -> Route:
    """The first row that holds.

    `known`: the values that a question has of a condition, by its name.
    """
    return next(
        row
        for row in ROUTES
        if machine in (row.machine or (machine,))
        and work in (row.work or (work,))
        and all(set(values) & set(known(name)) for name, values in row.when.items())
    )
