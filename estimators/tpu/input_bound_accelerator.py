"""Any network on an accelerator of several cores behind its input pipeline.

What the tiled memory layout of a TPU adds to the bytes of image operations: a graph transform.

Tensors lie in tiles of 8 x 128: of the batch and the channels, one is filled up to a multiple of 128 and the other to
one of 8, whichever order wastes less (Cloud TPU documentation, performance guide, "tiling"; the layout of the operation
profile in openxla/xprof shows the same alignments). A network whose batch a core or channels are narrow moves more
bytes than it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import is_symbolic, sp
from slipstick.common.formatting import shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, Spread
from slipstick.estimators.base.estimator_base import PointByPoint
from slipstick.estimators.composition.clipped_at_peak import ClippedAtPeak, between_uses
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.composition.energy_and_cost import energy_of
from slipstick.estimators.composition.power_capped import PowerCappedTimes
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.roofline.physical_bound import PhysicalBound
from slipstick.estimators.tpu.input_bound_run import InputBoundRun, numbers_of_run
from slipstick.estimators.tpu.tpu_step import TpuOperations
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.kinds import AXES, SIZE_BYTES, product
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.runs.feed import feed_of
from slipstick.workloads.transforms.on_cores import SYMBOLS, on_cores, stands_on_cores

LANES, SUBLANES = 128, 8
INHERITS = ("elementwise", "pool", "upsample", "move", "norm")
"""Kinds of operations whose result lies as that of the operation before them."""

Tile = tuple[Amount, Amount]
"""Batch and channels of a tensor."""


@lru_cache(maxsize=16)
def laid_out(workload: Workload) -> Workload:
    """The workload with the bytes of convolutions, and of what follows them, as the padded tensors have them."""
    if not any(op.kind == "convolution" for op in workload):
        return workload
    known = {op.name: op for op in workload}
    tiles: dict[str, Tile] = {}
    made: dict[str, Op] = {}
    for name in _order(workload):
        op = known[name]
        if op.kind == "convolution":
            tiles[name] = _result(op)
            made[name] = _scaled(op, _factor_of_convolution(op), *_weights(op))
        elif op.kind in INHERITS:
            before = [tiles[source] for source in workload.structure.predecessors(name) if source in tiles]
            if before:
                tiles[name] = before[0]
                made[name] = _scaled(op, padding(*before[0]), *_statistics(op))
    return replace(workload, operations=tuple(made.get(op.name, op) for op in workload))


@lru_cache(maxsize=1024)
def padding(batch: Amount, channels: Amount) -> Amount:
    """Bytes of a padded tensor over those of its elements, at least 1."""
    orders = [
        _filled(batch, SUBLANES) * _filled(channels, LANES),
        _filled(batch, LANES) * _filled(channels, SUBLANES),
    ]
    if any(is_symbolic(order) for order in orders):
        return sp.Min(*orders)
    return min(orders)


def _filled(size: Amount, to: int) -> Amount:
    if is_symbolic(size):
        return sp.ceiling(size / to) * to / size
    return math.ceil(size / to) * to / size


def _order(workload: Workload) -> Iterator[str]:
    import networkx as nx

    yield from nx.topological_sort(workload.structure)


def _result(op: Op) -> Tile:
    """Of what a convolution makes; a gradient of weights is no image, its operands' layout stands for it."""
    back = op.attributes.get("pass") == "backward_data"
    return op.dims["batch"], op.dims["channels_in" if back else "channels_out"]


def _factor_of_convolution(op: Op) -> Amount:
    """Padded bytes over plain ones: inputs and outputs by their own channels, weights as they are."""
    d = op.dims
    inputs = d["channels_in"] * product(d[f"in_{axis}"] for axis in AXES)
    outputs = d["channels_out"] * product(d[f"out_{axis}"] for axis in AXES)
    wide = inputs * padding(d["batch"], d["channels_in"]) + outputs * padding(d["batch"], d["channels_out"])
    return wide / (inputs + outputs)


def _weights(op: Op) -> tuple[Amount, Amount]:
    """Bytes of weights that a convolution reads and writes: they have no batch to fill up."""
    d = op.dims
    window = product(d[f"kernel_{axis}"] for axis in AXES)
    size = d["channels_in"] * d["channels_out"] * window / d["groups"] * SIZE_BYTES[op.dtype]
    return (0, size) if op.attributes.get("pass") == "backward_weight" else (size, 0)


def _statistics(op: Op) -> tuple[Amount, Amount]:
    """Bytes of the two numbers of each group that a normalisation reads and writes."""
    size = 2 * op.dims["groups"] * SIZE_BYTES[op.dtype] if op.kind == "norm" else 0
    return size, size


def _scaled(op: Op, factor: Amount, read: Amount, written: Amount) -> Op:
    """The operation with all bytes but those read and written as they are times the factor."""
    if factor == 1:
        return op
    sides = {"read": read, "written": written}
    return replace(op, cost=Cost({**op.cost, **{k: kept + (op.cost[k] - kept) * factor for k, kept in sides.items()}}))


SCATTER = FrozenDict(device=0.4, link=0.3, host=0.3, start=0.25)
"""Standard deviation of the log of seconds on the device, over the link, of the host, and of the start-up, for networks
that nothing was fitted to: their public rates came out 1.3 to 1.9 times longer."""
DRAWS, SEED = 400, 18


@dataclass(frozen=True)
class InputBoundAccelerator(ClippedAtPeak):
    """A composite that first divides the global batch among the cores, and feeds them.

    All cores that the machine states work; of more (`machine.using(cores=...)`), as many as shorten the time, since
    each that works reads the weights over the memory that all share.

    Its answers say how the batch was divided and what feeds the cores; beside the metrics of `InputBoundRun` they have
    `mxu`, the share of the run in which the matrix units are occupied, padding included.

    `scatter`: standard deviation of the log of the seconds of the device, the host and the start-up, for the band.
    """

    operation: TpuOperations
    schedule: InputBoundRun
    source: str = ""
    scatter: FrozenDict[float] = field(default=SCATTER)

    @property
    def keeps_open(self) -> frozenset[str]:
        """The batch, which is divided among the cores."""
        return frozenset({"batch"})

    def graph(self, workload: Workload, machine: Machine) -> Workload:
        """One core's share, with what feeds it."""
        return on_cores(workload, machine.cores)

    def lowered_graph(self, workload: Workload, machine: Machine) -> Workload:
        """As the compiler makes it, in the memory's layout."""
        return laid_out(as_compiled(workload, machine))

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `ComposedEstimator.estimate`."""
        whole_machine, machine = machine, self._working(workload, machine, run or {})
        given = self.graph(workload, machine).defaults
        fed = {name: given[name] for name in SYMBOLS if name in given}
        numbers = FrozenDict({**fed, **self.schedule.run_defaults(machine), **numbers_of_run(workload, run or {})})
        answer = super().estimate(workload, machine, numbers)
        graph = self.lowered_graph(self.graph(workload, machine), machine).bound(numbers)
        lanes = self.schedule.lanes(graph, np.array([part.time for part in answer.parts]))
        counts = np.array([float(op.times) for op in graph])
        occupied = float(np.sum(self.operation.occupied(graph.operations, machine) * counts))
        plain = self.schedule.account(graph, machine, numbers, lanes)
        used = self._used(workload, machine, numbers) * machine.cores / whole_machine.cores
        matrix = answer.metrics["matrix"] * used
        metrics = FrozenDict(
            {**answer.metrics, "matrix": matrix, "mxu": occupied * float(plain["work"] / plain["seen"])}
        )
        generator = np.random.default_rng(SEED)
        factor = {name: np.exp(std * generator.standard_normal(DRAWS)) for name, std in self.scatter.items()}
        changed: dict[str, float | FloatArray] = {
            "device": lanes["device"] * factor["device"],
            "infeed": lanes["infeed"] * factor["link"],
            "host": lanes["host"] * factor["host"],
        }
        drawn = self.schedule.account(graph, machine, numbers, changed, factor["start"])
        drawn["mxu"] = occupied * drawn["work"] / drawn["seen"]
        ends = ((1 - DEFAULT_LEVEL) / 2, (1 + DEFAULT_LEVEL) / 2)
        bands = {name: tuple(np.quantile(drawn[name], ends).tolist()) for name in ("infeed", "idle", "mxu")}
        energy, least = answer.energy, answer.least
        if not stands_on_cores(workload):  # of all cores, whose work the whole batch is
            whole = as_compiled(workload, machine).bound(numbers)
            if "batch" in workload.symbols:
                least = max(least, float(PhysicalBound(between_uses(whole, whole_machine)).together(whole)))
            if energy is not None:
                sizes = {**workload.defaults, **numbers}
                energy, _ = energy_of(whole, whole_machine, answer.time, sizes, self.runs_at())
        return replace(
            answer,
            energy=energy,
            least=least,
            metrics=metrics,
            spread=Spread(residual=float(np.std(np.log(drawn["time"]), ddof=1))),
            metric_intervals=FrozenDict({name: (low, high) for name, (low, high) in bands.items()}),
            assumptions=(*answer.assumptions, *self._input_bound(workload, machine, numbers, whole_machine.cores)),
        )

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> Compiled | PowerCappedTimes | PointByPoint:
        """See `ComposedEstimator.compile`."""
        numbers = numbers_of_run(workload, run or {})
        if "machine.cores" in free or machine.cores > machine.stated.cores:  # those that work divide the graph itself
            return PointByPoint(self, workload, machine, FrozenDict(numbers), tuple(free))
        return super().compile(workload, machine, free, numbers)

    def _working(self, workload: Workload, machine: Machine, run: Mapping[str, float]) -> Machine:
        """The machine with the cores that work."""
        stated = machine.stated.cores
        if machine.cores <= stated:
            return machine
        batch = numbers_of_run(workload, run).get("batch", workload.defaults.get("batch", 0.0))
        counts = {stated}
        if batch > stated and "batch" in workload.symbols and not stands_on_cores(workload):
            # shares that do not depend on how many more there are, so that further cores only add a choice
            steps = range(1, 1 + math.ceil(2 * math.log2(batch / stated)))
            shares = {max(1, math.floor(batch / stated / 2 ** (step / 2))) for step in steps}
            counts |= {fewest for share in shares if stated < (fewest := math.ceil(batch / share)) <= machine.cores}
        if len(counts) == 1:
            return machine.using(cores=stated)
        return min(
            (machine.using(cores=count) for count in sorted(counts)),
            key=lambda some: ComposedEstimator.estimate(self, workload, some, run).time,
        )

    def _used(self, workload: Workload, machine: Machine, numbers: Mapping[str, float]) -> float:
        """Share of the cores' work that is on examples of the batch, which may not fill them."""
        batch = numbers.get("batch", workload.defaults.get("batch", 0.0))
        if stands_on_cores(workload) or not batch:
            return 1.0
        return float(batch) / (machine.cores * math.ceil(batch / machine.cores))

    def _input_bound(
        self, workload: Workload, machine: Machine, numbers: Mapping[str, float], cores: int
    ) -> tuple[str, ...]:
        """How the batch is divided and what feeds it, in words; `cores` are those that there are."""
        if stands_on_cores(workload):
            return ()
        if "batch" not in workload.symbols:
            return (f"no batch to divide: one of {cores} cores works, without an input pipeline",)
        batch = numbers.get("batch", workload.defaults.get("batch", 0.0))
        feed = feed_of(workload)
        working = f"{machine.cores} cores" if machine.cores == cores else f"{machine.cores} of {cores} cores"
        parts = [f"the global batch of {batch:g} divided over {working}"]
        if feed is None and not numbers.get("host_seconds") and not numbers.get("example_bytes"):
            return (*parts, "input ready at once: give run.host_seconds and run.example_bytes")
        seconds = numbers.get("host_seconds", feed.host_seconds if feed else 0.0)
        size = numbers.get("example_bytes", feed.example_bytes if feed else 0.0)
        workers = numbers.get("workers", 16.0)
        parts.append(f"{shown(seconds, 's')} of a host core and {shown(size, 'byte')} an example, {workers:g} workers")
        measured_here = feed is not None and feed.source and seconds == feed.host_seconds
        return (*parts, *([f"input: {feed.source}"] if feed and measured_here else []))
