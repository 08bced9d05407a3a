"""A minute on a processor: its machine, and the shares of its rates that its libraries reach.

The host's levels are measured first. A row's time is the least of its repeats on the thread's own clock: others' work
on a shared host only adds to it. Operations are timed in the order in which they teach most about the fitted
shares (sequential A-optimal design, `estimators.learning.known_rows.chosen`), as many as the time allows, and the
shares are fitted to them (`probe_fit`). Later answers with the calibration rest on those rows.

What timed operations say of a processor: the shares of its libraries, and how its last cache works in fact.

Unknown are the logarithms of the shares, and of the size and rate of the last cache, of which a guest of a shared host
has a part that nobody states. All are normal around what is expected; a row scatters around the formula by Student's t
(`estimators.learning.known_rows`), whose scale is found from the rows as each is predicted by the others.

Operations that a probe may time on a processor, each as a call of torch and as a workload of one operation.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import product

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.base.protocols import CompiledEstimator, Estimator
from slipstick.estimators.cpu.torch_cpu_kernels import KEPT
from slipstick.estimators.fitting.calibration import DRAWS, Calibration, fingerprint
from slipstick.estimators.fitting.fit_model import FREEDOM
from slipstick.estimators.fitting.user_rows import UserRows, chosen
from slipstick.estimators.symbolic.formula import parameters
from slipstick.experiments.measure.clocks.timing import Protocol, Task, Timing, load_per_core, measure
from slipstick.experiments.measure.clocks.torch_calls import call_of
from slipstick.experiments.measure.host.host_rates import measure_host
from slipstick.experiments.question.registry import estimator
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.layers.single import convolution, dense, elementwise

WIDTH, NOISE, STEP = 0.7, 0.1, 0.05
"""Log standard deviations of what is expected and, before anything is timed, of a row about its formula; a step of
finite differences."""
SCATTER, BEFORE = 0.18, 10.0
"""Scatter of the operations of a probe about its formula, and how many operations' errors that counts for: scale of
Student's t of 70 operations on an EPYC of a shared host (docs/notes/cpu-and-systolic.md)."""
PASSES, ROUNDS = 4, 50
"""Fits with a scale of the scatter, each from the fit before; rounds in which that scale is found."""
SEED = 17
UNKNOWN = "estimator.operation.fresh"
"""A share that no row reads: Jeffreys' prior of a share, whose ends are likelier than its middle."""
LOGISTIC = 1.702
"""A logistic curve of this slope is the normal distribution's within .01 (Haley, 1952)."""


@dataclass(frozen=True, eq=False)
class ProbedRows(UserRows):
    """Log seconds of operations over what is unknown.

    Parameters
    ----------
    functions
        One an operation: the unknown quantities that it reads, by their full names, to seconds.
    names, expected, low, high
        Of the unknown quantities.
    """

    functions: tuple[CompiledEstimator, ...]
    names: tuple[str, ...]
    expected: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(
        cls, model: Estimator, workloads: Sequence[Workload], machine: Machine, shares: Mapping[str, float]
    ) -> ProbedRows:
        """Operations on a machine, not timed yet.

        Parameters
        ----------
        shares
            What is expected of parameters of the estimator, by their dotted names.
        """
        bounds = {name: (one.low, one.high) for name, (_, one) in parameters(model).items()}
        known = {f"estimator.{name}": (value, *bounds[name]) for name, value in shares.items()}
        known |= {f"machine.{path}": (float(machine.get(path)), 0.0, math.inf) for path in last_cache(machine)}
        expected, low, high = (np.array([one[place] for one in known.values()]) for place in range(3))
        functions = tuple(_reading(model, one, machine, tuple(known)) for one in workloads)
        none = np.zeros(len(functions))
        return cls(none, none + NOISE, functions, tuple(known), expected, low, high)

    @property
    def size(self) -> int:
        """See `UserRows`."""
        return len(self.names)

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The unknown quantities inside their bounds, shape (..., size)."""
        made = np.clip(self.expected * np.exp(WIDTH * coordinates), self.low, self.high)
        anywhere = np.sin(np.pi / 2 / (1 + np.exp(-LOGISTIC * coordinates))) ** 2
        return np.where([name == UNKNOWN for name in self.names], anywhere, made)

    def at(self, coordinates: FloatArray) -> FloatArray:
        """See `UserRows`."""
        values = dict(zip(self.names, self.values(coordinates), strict=True))
        return np.log([float(one({name: values[name] for name in one.free})) for one in self.functions])

    def linear(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See `UserRows`; derivatives by differences, each by the quantities that its operation reads."""
        values = self.values(coordinates)
        stepped, place = self.values(coordinates + STEP), {name: number for number, name in enumerate(self.names)}
        here, slope = np.empty(len(self.functions)), np.zeros((len(self.functions), self.size))
        for row, one in enumerate(self.functions):
            read = [place[name] for name in one.free]
            points = np.tile(values[read], (len(read) + 1, 1))
            points[np.arange(1, len(read) + 1), np.arange(len(read))] = stepped[read]
            logs = np.log(one(dict(zip(one.free, points.T, strict=True))))
            here[row], slope[row, read] = logs[0], (logs[1:] - logs[0]) / STEP
        return here, slope

    def order(self) -> list[int]:
        """Numbers of the operations, those first that teach most about all of them."""
        _, slope = self.linear(np.zeros(self.size))
        return [one.place for one in chosen(slope, self.noise, len(slope))]

    def timed(self, seconds: Sequence[float]) -> ProbedRows:
        """The same with what was measured of each, and the scale of the scatter about what the others say of it."""
        rows = replace(self, measured=np.log(seconds))
        best = None
        for _ in range(PASSES):
            best = rows.likeliest(np.ones(len(seconds), dtype=bool), best)
            rows = replace(rows, noise=np.full(len(seconds), rows._scale(best)))
        return rows

    def _scale(self, best: FloatArray) -> float:
        """Of the errors of each row as the others predict it, to first order."""
        here, slope = self.linear(best)
        pulled = self._weights(here) * np.einsum("ij,ij->i", slope @ self.left(best), slope)
        free = np.maximum(1 - pulled, LEAST_FREE)
        return scale_of((self.measured - here) / free, free)

    @cached_property
    def best(self) -> FloatArray:
        """The most likely coordinates."""
        return self.likeliest(np.ones(len(self.functions), dtype=bool))

    def machine(self, machine: Machine) -> Machine:
        """With the last cache as it works in fact."""
        values = dict(zip(self.names, self.values(self.best).tolist(), strict=True))
        return machine.using({path: values[f"machine.{path}"] for path in last_cache(machine)})

    def calibration(self, model: Estimator, rows: Sequence[Measurement], source: str) -> Calibration:
        """The estimator at the most likely shares, with draws of them."""
        here = self.at(self.best)
        generator = np.random.default_rng(SEED)
        points = generator.multivariate_normal(self.best, self.left(self.best), size=DRAWS, method="cholesky")
        shares = [place for place, name in enumerate(self.names) if name.startswith("estimator.")]
        names = tuple(self.names[place].removeprefix("estimator.") for place in shares)
        drawn = self.values(points)[:, shares]
        covariance = tuple(map(tuple, np.cov(drawn.T).tolist()))
        best = dict(zip(names, self.values(self.best)[shares].tolist(), strict=True))
        values = {name: value for name, (value, _) in parameters(model).items()}
        return Calibration(
            model.with_parameters({**values, **best}), names, covariance, tuple((here - self.measured).tolist()),
            float(self.noise[0]), float(len(rows)), fingerprint(rows), source,
            residual_freedom=FREEDOM, sample=tuple(map(tuple, drawn.tolist())),
        )  # fmt: skip


LEAST_FREE = 0.2
"""Share of its error that a row keeps at least, however much the fit follows it."""


def last_cache(machine: Machine) -> tuple[str, ...]:
    """Fields of the last cache that the rows may move; none where there is no cache with a rate of its own."""
    levels = list(machine.memory)[:-1]
    if not levels or machine.memory[levels[-1]].bytes_per_cycle is None:
        return ()
    return f"memory.{levels[-1]}.capacity", f"memory.{levels[-1]}.bytes_per_cycle"


def scale_of(errors: FloatArray, free: FloatArray | None = None, rows: float = BEFORE) -> float:
    """Scale of Student's t with `FREEDOM` degrees around zero, by EM.

    Parameters
    ----------
    errors
        log(measured / predicted), shape (rows,).
    free
        How much each error says of the scale: the share of it that the fit could not follow; all of it where None.
    rows
        How many errors the scale that is expected (`SCATTER`) counts for.

    Notes
    -----
    Lange, Little and Taylor, JASA 84 (1989), 881: the likelihood of the learner. A kernel that no share explains widens
    the tails, not the whole band. Few rows under many unknowns follow whatever was measured, so that their errors say
    little of the next operation's.
    """
    counted = np.ones_like(errors) if free is None else free
    variance = float(np.mean(errors**2)) or 1e-12
    for _ in range(ROUNDS):
        weight = counted * (FREEDOM + 1) / (FREEDOM + errors**2 / variance)
        total = float(np.sum(weight * errors**2)) + rows * SCATTER**2
        variance = max(total / (float(counted.sum()) + rows), 1e-12)
    return math.sqrt(variance)


def _reading(model: Estimator, workload: Workload, machine: Machine, names: tuple[str, ...]) -> CompiledEstimator:
    """Seconds of an operation as a function of those of some quantities that have a say."""
    whole = model.compile(workload, machine, names)
    if whole.read is None:
        return whole
    return model.compile(workload, machine, tuple(name for name in names if name in whole.read))


IMAGES = (
    (8, 3, 32, 7, 2, 56, 1), (8, 64, 64, 3, 1, 28, 1), (1, 64, 128, 3, 2, 28, 1), (8, 64, 256, 1, 1, 28, 1),
    (1, 256, 256, 3, 1, 14, 1), (1, 128, 128, 3, 1, 56, 1), (1, 512, 128, 1, 1, 14, 1),
    (4, 32, 32, 3, 1, 28, 1), (1, 16, 32, 3, 1, 16, 1),
    (16, 3, 16, 3, 1, 128, 1), (8, 3, 32, 3, 1, 192, 1), (4, 8, 16, 3, 1, 96, 1), (64, 1, 6, 5, 1, 24, 1),
    (16, 16, 32, 3, 1, 64, 1),
    (8, 32, 32, 3, 1, 48, 32), (2, 96, 96, 5, 1, 28, 96), (4, 64, 64, 3, 2, 28, 64), (8, 64, 128, 3, 1, 28, 4),
)  # fmt: skip
"""Of convolutions: batch, channels before and after, kernel, stride, side of the output, groups."""

WINDOWS = ((8, 16, 32, 2, 2), (1, 32, 55, 3, 2), (2, 32, 28, 5, 1))
"""Of pools: batch, channels, side of the output, side of the window, stride."""

HEADS = ((1, 8, 256, 64), (4, 3, 64, 64))
"""Of attention: batch, heads, tokens, size of a head."""

FUNCTIONS = ("gelu", "silu", "tanh", "exp", "elu")

MOST_KEPT = 31 * 2**20
"""Bytes of a result that glibc keeps from call to call once a block of that size was freed."""
FRESH = 10_000_000
"""Elements of a result beyond that, whose memory the system gives anew at each call."""
MEDIUM = 200_000
"""Elements that the caches hold."""


@dataclass(frozen=True)
class ProbeRow:
    """An operation to time.

    `workload`: of this operation alone.
    `make`: makes the call of torch that runs it.
    """

    name: str
    workload: Workload
    make: Callable[[], Task]


def cpu_rows() -> list[ProbeRow]:
    """Products, convolutions, attention, pools, sums, functions, softmaxes and norms, small to large."""
    return [*_products(), *_convolutions(), *_attentions(), *_pools(), *_streams(), *_functions()]


def _row(name: str, op: Op, make: Callable[[], Task] | None = None) -> ProbeRow:
    """An operation as torch runs it; of one whose dims do not say how, `make` makes the call.

    With the memory of its result kept from call to call, as `probe` has the allocator do up to `MOST_KEPT`.
    """
    made = make or partial(call_of, op)
    written = op.cost["written"]
    if isinstance(written, (int, float)) and written <= MOST_KEPT:
        op = replace(op, attributes=FrozenDict({**op.attributes, **KEPT}))
    return ProbeRow(name, Workload(name, (op,)), made)


def _products() -> Iterator[ProbeRow]:
    shapes = [*product((1, 16, 128, 512), ((64, 64), (512, 512), (768, 3072), (2048, 2048))), (1, (4096, 4096))]
    for rows, (inputs, outputs) in shapes:
        name = f"product {rows} x {inputs} x {outputs}"
        yield _row(name, dense(name, rows, inputs, outputs))


def _convolutions() -> Iterator[ProbeRow]:
    for batch, before, after, kernel, stride, side, groups in IMAGES:
        shared = f" in {groups} groups" if groups > 1 else ""
        name = f"convolution {batch} x {before} to {after}{shared}, {kernel} x {kernel} / {stride}, {side} x {side}"
        op = convolution(name, batch, before, after, (kernel, kernel), (side, side), stride, groups)
        yield _row(name, op)


def _attentions() -> Iterator[ProbeRow]:
    for batch, heads, tokens, size in HEADS:
        name = f"attention {batch} x {heads} heads of {size}, {tokens} tokens"
        dims = {"batch": batch, "heads": heads, "kv_heads": heads, "queries": tokens, "keys": tokens,
                "head_dim": size, "value_dim": size}  # fmt: skip
        yield _row(name, operation(name, "attention", dims))


def _pools() -> Iterator[ProbeRow]:
    for function in ("max", "average"):
        for batch, channels, side, window, stride in WINDOWS:
            name = f"{function} pool {batch} x {channels}, {window} x {window} / {stride}, {side} x {side}"
            whole = (side - 1) * stride + window
            dims = {"inputs": batch * channels * whole**2, "outputs": batch * channels * side**2, "window": window**2}
            op = operation(name, "pool", dims, "float32", {"function": function})
            yield _row(name, op, _pool(function, (batch, channels, whole, whole), window, stride))


def _pool(function: str, shape: tuple[int, ...], window: int, stride: int) -> Callable[[], Task]:
    def make() -> Task:
        x = torch.randn(shape)
        called = torch.nn.functional.max_pool2d if function == "max" else torch.nn.functional.avg_pool2d
        return lambda: called(x, window, stride)

    return make


def _streams() -> Iterator[ProbeRow]:
    for elements in (64, 4096, 200_000, 1_000_000, 2_000_000, 4_000_000, 16_000_000):
        name = f"sum of {elements:,}"
        yield _row(name, elementwise("add_", elements, inputs=2))
    for elements in (64, 4096, MEDIUM, FRESH):
        name = f"relu of {elements:,}"
        yield _row(name, elementwise(name, elements, function="relu"))
    for rows, columns in ((16, 64), (1024, 256), (2048, 512)):
        name = f"softmax of {rows} x {columns}"
        yield _row(name, operation(name, "softmax", {"rows": rows, "columns": columns}))
        name = f"norm of {rows} x {columns}"
        dims = {"elements": rows * columns, "groups": rows}
        yield _row(name, operation(name, "norm", dims))


def _functions() -> Iterator[ProbeRow]:
    for function in FUNCTIONS:
        for elements in (4096, MEDIUM):
            name = f"{function} of {elements:,}"
            yield _row(name, elementwise(name, elements, function=function))


ESTIMATOR = "cpu-kinds"
EXPECTED: Mapping[str, float] = {
    "gemm.compute_efficiency": 0.7, "gemm.memory_efficiency": 0.5, "gemm.overhead": 2e-6,
    "gemm.main_efficiency": 0.7, "gemm.hidden": 0.5, "gemm.packing": 0.5,
    "convolution.compute_efficiency": 0.7, "convolution.memory_efficiency": 0.5, "convolution.overhead": 5e-6,
    "convolution.main_efficiency": 0.7, "convolution.hidden": 0.5, "convolution.narrow": 4.0,
    "grouped.compute_efficiency": 0.3, "grouped.memory_efficiency": 0.3, "grouped.overhead": 5e-6,
    "grouped.hidden": 0.5,
    "attention.compute_efficiency": 0.5, "attention.overhead": 5e-6,
    "softmax.compute_efficiency": 0.1, "softmax.overhead": 2e-6,
    "norm.compute_efficiency": 0.2, "norm.overhead": 2e-6,
    "pool.compute_efficiency": 0.01, "pool.narrow": 4.0, "pool.overhead": 2e-6,
    "max_pool.compute_efficiency": 0.005, "max_pool.narrow": 4.0, "max_pool.overhead": 2e-6,
    "gelu.compute_efficiency": 0.1, "gelu.overhead": 5e-6,
    "gated.compute_efficiency": 0.1, "gated.overhead": 2e-6,
    "tanh.compute_efficiency": 0.01, "tanh.overhead": 2e-6,
    "function.compute_efficiency": 0.01, "function.overhead": 2e-6,
    "other.compute_efficiency": 0.1, "other.memory_efficiency": 0.8, "other.overhead": 1e-6,
    "other.main_efficiency": 0.7,
}  # fmt: skip
"""Before anything was timed; round numbers of libraries on processors. What has no overhead row keeps its own."""
PAGES: Mapping[str, float] = {"first_touch": 2e-10, "fresh": 0.5}
"""The same of memory that the system gives anew: a page of 4 KiB in about a microsecond; no row says its share."""
TOGETHER, FITTING = 5, 0.1
"""Rows that are timed in turns, as many as are timed whatever the budget; CPU seconds of the fit for each row."""
LONGER = 1.3
"""A group of rows may take so many times as long as the longest before it."""
ROOM = 1.1
"""The peak stands a tenth above the fastest product that was seen, so that a share below one fits it."""


@dataclass(frozen=True)
class Probe:
    """What a probe found.

    Parameters
    ----------
    rows
        Operations that were timed, in the order chosen, with their times.
    offered
        How many operations there were to choose from.
    load
        Of the host a core, before; None where the system does not say.
    seconds
        That it took.
    """

    machine: Machine
    calibration: Calibration
    rows: tuple[tuple[ProbeRow, Timing], ...]
    offered: int
    load: float | None
    seconds: float

    def table(self) -> list[dict[str, object]]:
        """One row an operation: measured and calibrated seconds, and their ratio."""
        made: list[dict[str, object]] = []
        for row, timing in self.rows:
            calibrated = self.calibration.estimate(row.workload, self.machine).time
            made.append(
                {
                    "operation": row.name,
                    "measured_s": timing.minimum,
                    "calibrated_s": calibrated,
                    "ratio": timing.minimum / calibrated,
                    "spread": timing.spread,
                }
            )
        return made

    def typical_error(self) -> float:
        """Median of |log(measured / calibrated)| over the rows that were fitted."""
        ratios = [
            abs(math.log(timing.minimum / self.calibration.estimate(row.workload, self.machine).time))
            for row, timing in self.rows
        ]
        return float(np.median(ratios))


def probe(
    seconds: float = 60.0,
    threads: int = 1,
    name: str = "host",
    progress: Callable[[str], None] = lambda text: None,
    machine: Machine | None = None,
    timed: Callable[[Sequence[ProbeRow]], Mapping[str, Timing]] | None = None,
) -> Probe:
    """Measure this host's processor and calibrate it.

    Raises InputError where torch or numba is missing, or the host has fewer cores than `threads`.

    Parameters
    ----------
    seconds
        How long at most; the host's levels and the first five rows are measured in any case.
    threads
        Of torch. One is timed by its own CPU clock, which others' work does not disturb; more by wall time.
    machine
        Measured before; None measures the host.
    timed
        Times rows; None runs them with torch here.
    """
    begin, worked, load = time.perf_counter(), time.process_time(), load_per_core()
    if machine is None:
        cores = os.cpu_count() or 1
        if not 1 <= threads <= cores:
            raise InputError(f"threads = {threads}: want 1 to the {cores} cores of this host")
        machine = measure_host(protocol=Protocol(repeats=3), progress=progress).machine(name).using({"cores": threads})
    offered, model = cpu_rows(), estimator(ESTIMATOR).model
    shares = {f"operation.kinds.{name}": value for name, value in EXPECTED.items()}
    shares |= {f"operation.{name}": value for name, value in PAGES.items()}
    order = ProbedRows.of(model, [row.workload for row in offered], machine, shares).order()
    clock = timed or (lambda rows: _timed(rows, threads, max(1.0, begin + seconds - time.perf_counter())))
    taken: list[tuple[ProbeRow, Timing]] = []
    longest = 0.0
    for start in range(0, len(order), TOGETHER):
        now = time.perf_counter()
        waits = max(1.0, (now - begin) / max(time.process_time() - worked, 1e-9))  # seconds for one of CPU time
        fit = waits * FITTING * (len(taken) + TOGETHER)
        if taken and now + LONGER * longest + fit > begin + seconds:
            break
        group = [offered[one] for one in order[start : start + TOGETHER]]
        progress(f"operations {start + 1} to {start + len(group)} of {len(order)}")
        timings = clock(group)
        taken += [(row, timings[row.name]) for row in group]
        longest = max(longest, time.perf_counter() - now)
    progress("fitting")
    rated = _rated(machine, taken)
    workloads = [row.workload for row, _ in taken]
    fitted = ProbedRows.of(model, workloads, rated, shares).timed([timing.minimum for _, timing in taken])
    rated = fitted.machine(rated)
    rows = [Measurement(row.workload, rated, timing.minimum, protocol=str(timing.protocol)) for row, timing in taken]
    when = datetime.now(UTC).date().isoformat()
    source = f"slipstick probe, {when}: {len(rows)} operations of torch on {threads} thread(s)"
    calibration = fitted.calibration(model, rows, source)
    return Probe(rated, calibration, tuple(taken), len(offered), load, time.perf_counter() - begin)


def _rated(machine: Machine, taken: Sequence[tuple[ProbeRow, Timing]]) -> Machine:
    """The machine with the peak that its fastest product or convolution needs."""

    def flop(row: ProbeRow) -> float:
        return float(sum(v for k, v in row.workload.bound().cost.items() if str(k).startswith("flop.matrix")))

    best = max(flop(row) / timing.minimum for row, timing in taken)
    known = machine.peak("vector", "float32")
    if ROOM * best <= known:
        return machine
    return machine.using({"engines.vector.flop_per_cycle.float32": ROOM * best / machine.clock / machine.cores})


def _timed(rows: Sequence[ProbeRow], threads: int, seconds: float) -> Mapping[str, Timing]:
    """Times of rows by torch, in turns, in about so many seconds at most: three rounds are always made."""
    clock = Protocol(clock="thread" if threads == 1 else "wall", repeats=5, warmups=1, budget_seconds=seconds)
    with _threads(threads), torch.inference_mode():
        torch.empty(MOST_KEPT, dtype=torch.uint8)  # freed: glibc then keeps results up to that size
        return measure({row.name: row.make() for row in rows}, clock)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
