"""Measuring as an estimator: each point of a study is a workload that runs here and now, on one core of this host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.base.estimate import Estimate, OperationTime, Spread
from slipstick.estimators.base.estimator_base import EstimatorBase, PointByPoint
from slipstick.experiments.measure.clocks.timing import Protocol, Timing, measure, processor
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload

SHORT = Protocol(repeats=7, budget_seconds=20.0)
MAX_BYTES = 4e9
"""Operands of all operations together: they are made before the clock starts."""
DTYPES = ("float32", "float64")
Step = Callable[[], object]


@dataclass(frozen=True)
class Clocked(EstimatorBase):
    """Runs the operations of a workload one after the other with numpy, on one thread, and says how long they took.

    What it can run: gemm (`numpy.matmul`), and elementwise of one or two inputs (relu, add). Its answers are of this
    host alone: the machine of the question is a name beside them, and none of its numbers may vary.

    `protocol`: how each point is timed.
    `host`: what the answers hold for; answers of another host are refused by the store.
    """

    protocol: Protocol = SHORT
    host: str = field(default_factory=lambda: f"{processor()}, numpy {np.__version__}")

    @property
    def alone(self) -> bool:
        """Points are taken one at a time: two clocks on one host disturb each other."""
        return True

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """What the clock says; the band is the standard error of its samples.

        Raises InputError where a symbol has no value, or an operation is none that can run.
        """
        timing = self.time(workload.bound(run or {}))
        return Estimate(
            time=timing.value,
            parts=(OperationTime(workload.name, "measured", timing.value),),
            provenance="measured",
            rule="measured as a whole",
            spread=Spread(residual=timing.standard_error / timing.value),
            assumptions=(
                f"measured on this host: {self.host}, not on {machine.name}",
                str(self.protocol),
                *timing.flags,
            ),
        )

    def compile(
        self, workload: Workload, machine: Machine, free: tuple[str, ...], run: Mapping[str, float] | None = None
    ) -> PointByPoint:
        """One measurement a point.

        Raises InputError where something else than a symbol of the workload is free.
        """
        for name in free:
            space, _, path = name.partition(".")
            if space in ("machine", "estimator"):
                raise InputError(f"{name} cannot vary: a measurement answers for this host as it is")
            if path not in workload.symbols:
                raise unknown_name(f"symbol of workload {workload.name!r}", path, sorted(workload.symbols))
        return PointByPoint(self, workload, machine, dict(run or {}), tuple(free))

    def at(self, workload: Workload, machine: Machine, run: Mapping[str, float], point: Mapping[str, float]) -> float:
        """Seconds at one point."""
        values = {**run, **{name.partition(".")[2]: value for name, value in point.items()}}
        return self.time(workload.bound(values)).value

    def time(self, workload: Workload) -> Timing:
        """The timing of one pass over a bound workload.

        Raises InputError where the workload moves more bytes than `MAX_BYTES`.
        """
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

        needed = sum(float(op.cost.bytes_moved) for op in workload)
        if needed > MAX_BYTES:
            raise InputError(
                f"workload {workload.name!r} moves {needed:.3g} bytes: want at most {MAX_BYTES:.3g} to run"
            )
        steps = [(step, round(float(op.times))) for op in workload for step in _steps(op)]

        def task() -> object:
            last: object = None
            for step, times in steps:
                for _ in range(times):
                    last = step()
            return last

        with threadpool_limits(1):
            return measure({workload.name: task}, self.protocol)[workload.name]


def _steps(op: Op) -> Iterator[Step]:
    """What numpy does for an operation, its operands made."""
    if op.dtype not in DTYPES:
        raise unknown_name(f"dtype of {op.name!r} that can run here:", op.dtype, DTYPES)
    dims = {name: round(float(amount)) for name, amount in op.dims.items()}
    if op.kind == "gemm":
        yield from _gemm(op, dims)
    elif op.kind == "elementwise":
        yield _elementwise(op, dims)
    else:
        raise unknown_name("kind of operation that can run here:", op.kind, ["gemm", "elementwise"])


def _gemm(op: Op, dims: Mapping[str, int]) -> Iterator[Step]:
    batch, m, n, k = (dims[name] for name in ("batch", "m", "n", "k"))
    weights, inputs = _filled((batch, m, k), op.dtype), _filled((batch, k, n), op.dtype)
    product = np.empty((batch, m, n), op.dtype)
    yield lambda: np.matmul(weights, inputs, out=product)
    if op.attributes.get("bias"):
        bias = _filled((m, 1), op.dtype)
        yield lambda: np.add(product, bias, out=product)


def _elementwise(op: Op, dims: Mapping[str, int]) -> Step:
    elements, reads = dims["elements"], dims.get("reads")  # a loop reads neighbours, which its dims do not count
    function = str(op.attributes.get("function") or op.attributes.get("loop"))
    result = np.empty(elements, op.dtype)
    one, other = _filled((elements,), op.dtype), _filled((elements,), op.dtype)
    if function == "relu" and reads == elements:
        return lambda: np.maximum(one, 0, out=result)
    if function == "add" and reads == 2 * elements:
        return lambda: np.add(one, other, out=result)
    raise unknown_name(f"function of {op.name!r} that can run here:", function, ["relu of one", "add of two inputs"])


def _filled(shape: tuple[int, ...], dtype: str) -> Any:
    """Small positive numbers, so that nothing overflows or becomes denormal, and pages are there."""
    return np.linspace(0.5, 1.5, int(np.prod(shape)), dtype=dtype).reshape(shape)
