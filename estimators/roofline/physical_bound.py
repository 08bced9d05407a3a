"""What no machine can undercut: its arithmetic at the highest clock, and bytes that no cache of it can have kept.

Bounds of single operations, and of a program's together: of its weights, what the last cache loses from one pass to the
next (`cache_residency.missed`). Products that known algorithms save are taken off: Winograd's of 3 x 3 windows (Lavin
and Gray, CVPR 2016; larger windows up to their area), the masked half of causal attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.formatting import format_quantity
from slipstick.common.records import Same
from slipstick.common.size_column import Sized, aligned, largest, number, smallest
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.estimators.symbolic.cache_residency import capacity_of_all, missed
from slipstick.estimators.symbolic.lambdified.symbolic_max import Largest
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import SIZE_BYTES
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.kernels.loop_kernels import BY_NAME, kernel_named

TOLERANCE = 0.01
"""Share by which a time may undercut a bound: clocks of boards and timers are no better."""
WINOGRAD = 4.0
UNBOUND = ("view", "collective")
"""Kinds whose bytes need not pass main memory: nothing is moved, or over links."""


@dataclass
class PhysicalBound:
    """Least times of operations on one machine; rates are looked up once.

    Examples
    --------
    >>> from slipstick.hwmodels.catalog import machine
    >>> from slipstick.workloads.catalog import workload
    >>> op = workload("gemm").bind(m=4096, n=4096, k=4096).bound().operations[0]
    >>> seconds, bound = PhysicalBound(machine("h100-sxm")).least(op)
    >>> bound
    'arithmetic'
    """

    machine: Machine
    free: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    """Numbers of the machine by path that `together` takes at many points, SI, each of shape (points,)."""
    _rates: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def least(self, op: Op) -> tuple[float, str]:
        """Seconds that one execution takes at least, and what bounds it; (0, "") where nothing is known to."""
        bounds = {name: float(seconds[0]) for name, seconds in self.bounds((op,)).items()}
        worst = max(bounds, key=lambda name: bounds[name])
        return bounds[worst], worst if bounds[worst] else ""

    def bounds(self, operations: Sequence[Op]) -> dict[str, npt.NDArray[np.float64]]:
        """Seconds that one execution of each operation takes at least, by what bounds it; shape (operations,), of sizes
        in columns (operations, points)."""
        needs = _needs(Same(tuple(operations)))
        memory = self._from_memory(needs[""], needs["spared"], needs["weights"])
        return {"main memory": memory, "arithmetic": reduce(np.maximum, self._engines(needs), np.zeros_like(memory))}

    def _engines(self, needs: Mapping[str, npt.NDArray[np.float64]], counts: Any = 1.0) -> list[Any]:
        """Seconds of each engine, of each operation or, where it is counted how often each runs, of all."""
        engines: dict[str, Any] = {}
        for name, flop in needs.items():
            if name.startswith("flop."):
                engine, rate = self._rate(name)
                engines[engine] = engines.get(engine, 0.0) + np.dot(counts, flop) / rate
        return list(engines.values())

    def arithmetic(self, operations: Sequence[Op]) -> float:
        """Seconds that all operations together take at least: the flop of each engine at its peak, the longest one."""
        needs = _needs(Same(tuple(operations)))
        return max(self._engines(needs, np.array([float(op.times) for op in operations])), default=0.0)

    def together(self, workload: Workload) -> Any:
        """Seconds that a bound workload takes at least on one device: below them no band reaches.

        Of several operations their arithmetic and their weights alone are certain: a program that fuses them moves
        fewer other bytes. A number, or an array of shape (points,) where it hangs on a number of the machine that is
        free.
        """
        distinct = workload.distinct
        if not distinct.operations:
            return 0.0
        counts = np.bincount(distinct.place, workload.executions, len(distinct.operations))
        if len(distinct.operations) == 1:
            return float(counts[0]) * np.squeeze(reduce(np.maximum, self.bounds(distinct.operations).values()))
        needs = _needs(Same(distinct.operations))
        # weights that are used more than once in a pass are counted once
        weights = np.minimum(counts @ needs["weights"], self._product(["runtime.weights_between"]))
        return reduce(np.maximum, self._engines(needs, counts), self._from_memory(0.0, 0.0, weights))

    def check(self, operations: Sequence[Op], times: npt.ArrayLike) -> None:
        """Check that no operation takes less than peak and bandwidth allow; times in seconds, shape (operations,).

        Raises InputError where one does, or its time is not finite.
        """
        array = np.asarray(times, dtype=np.float64)
        bounds = self.bounds(operations)
        least = reduce(np.maximum, bounds.values())
        wrong = np.argwhere(~(np.isfinite(array) & (array >= 0) & (array >= least * (1 - TOLERANCE))))
        if not len(wrong):
            return
        at = tuple(wrong[0])
        op, time = operations[at[0]], float(array[at])
        if not 0 <= time < np.inf:
            raise InputError(f"operation {op.name!r}: estimated time = {time!r} s: want a finite time >= 0")
        bound = max(bounds, key=lambda name: float(bounds[name][at]))
        raise InputError(
            f"operation {op.name!r} ({op.kind}): estimated at {format_quantity(time, 's')}, but the {bound} of "
            f"{self.machine.name} needs at least {format_quantity(float(least[at]), 's')}: the estimator's parameters, "
            f"or the machine's numbers, cannot be"
        )

    def _rate(self, name: str) -> tuple[str, Any]:
        if name not in self._rates:
            _, unit, dtype = name.split(".")
            engine, rated = serving_rate(self.machine, unit, dtype)
            self._rates[name] = engine, self._product(self.machine.peak_factors(engine, rated))
        return self._rates[name]

    def _product(self, paths: Sequence[str]) -> Any:
        return reduce(mul, (self.free.get(path, self.machine.get(path)) for path in paths), 1.0)

    def _from_memory(self, moved: Any, spared: Any, weights: Any) -> Any:
        """Seconds of what no cache can have kept, and of the weights that the last one lost since the last pass."""
        if "" not in self._rates:
            *inner, main = self.machine.memory
            kept = [self._product([f"memory.{name}.capacity"]) * self.machine.instances(name) for name in inner]
            between = self._product(["runtime.weights_between"])
            self._rates[""] = "", sum(kept)
            self._rates["lost"] = "", missed(between, (kept or [0.0])[-1])
            self._rates["main"] = "", self._product(self.machine.bandwidth_factors(main))
        beyond = np.maximum(0.0, moved - spared * self._rates[""][1])
        return np.maximum(beyond, weights * self._rates["lost"][1]) / self._rates["main"][1]


def least_time(machine: Machine, rates: Sequence[tuple[str, str, str]]) -> sp.Expr:
    """What `PhysicalBound.least` says of an operation, as an expression of the machine's numbers and its amounts.

    `rates`: of the operation's flop: name in its cost, and the engine and data type at whose rate they run.
    """
    engines: dict[str, sp.Expr] = {}
    for name, engine, rated in rates:
        share = symbol("operation.needed") if name.startswith("flop.matrix.") else 1
        rate = sp.Mul(*(symbol(f"machine.{path}") for path in machine.peak_factors(engine, rated)))
        engines[engine] = engines.get(engine, sp.Integer(0)) + symbol(f"operation.{name}") * share / rate
    *inner, main = machine.memory
    kept = [capacity_of_all(machine, level) for level in inner] or [sp.Integer(0)]
    beyond = Largest(0, symbol("operation.least_bytes") - symbol("operation.spared") * sum(kept, sp.Integer(0)))
    lost = missed(symbol("machine.runtime.weights_between"), kept[-1])
    beyond = Largest(beyond, symbol("operation.kept_weights") * lost)
    fastest = sp.Mul(*(symbol(f"machine.{path}") for path in machine.bandwidth_factors(main)))
    return Largest(beyond / fastest, *engines.values())


@lru_cache(maxsize=8)
def _needs(operations: Same[tuple[Op, ...]]) -> dict[str, npt.NDArray[np.float64]]:
    """What bound operations cannot do without: bytes ("") and flop by resource, shape (operations,); "spared": bytes
    that need not move for each byte of cache; "weights": those kept from one pass to the next."""
    amounts = {"": _least_bytes, "spared": _spared, "weights": _kept_weights}
    needs: dict[str, list[Any]] = {name: [amount(op) for op in operations.it] for name, amount in amounts.items()}
    for index, op in enumerate(operations.it):
        for name, amount in op.cost.items():
            if name.startswith("flop.") and op.kind not in UNBOUND:
                share = _needed(op) if name.startswith("flop.matrix.") else 1.0
                needs.setdefault(name, [0.0] * len(operations.it))[index] = number(amount) * share
    return aligned(needs)


def _least_bytes(op: Op) -> Sized:
    """Bytes that some memory must move."""
    return 0.0 if op.kind in UNBOUND else number(op.cost["read"]) * _touched(op) + number(op.cost["written"])


def _touched(op: Op) -> Sized:
    """Share of the bytes read that must be: windows narrower than their stride leave the rest out, rows of a table are
    read once."""
    if op.kind == "gather":
        rows = number(op.dims["rows"])
        return smallest(1.0, number(op.dims.get("table", rows)) / largest(1.0, rows))
    stride = op.attributes.get("stride", ())
    if op.kind not in ("convolution", "pool") or not isinstance(stride, tuple) or not stride:
        return 1.0
    taps = _taps(op)
    return min(1.0, taps / max(1.0, float(np.prod([float(step) for step in stride]))))


def _spared(op: Op) -> float:
    """Bytes that need not move for each byte that a cache keeps: two where it is read and written in place."""
    name = op.attributes.get("loop")
    kernel = kernel_named(name) if isinstance(name, str) and name in BY_NAME.values() else None
    return 2.0 if kernel and set(kernel.reads) & set(kernel.writes) else 1.0


def weight_bytes(op: Op) -> Sized:
    """Bytes of what an operation reads alone, once in a program: weights of a product, filters of a convolution."""
    size = SIZE_BYTES[str(op.attributes.get("weights") or op.dtype)]
    if op.kind == "gemm" and op.dims["batch"] == 1:
        return number(op.dims["m"]) * number(op.dims["k"]) * size
    if op.kind == "convolution":
        channels = number(op.dims["channels_in"]) * number(op.dims["channels_out"])
        return channels / number(op.dims["groups"]) * _taps(op) * size
    return 0.0


def _kept_weights(op: Op) -> Sized:
    """Bytes of weights that were used last a whole pass ago: the way back finds what the way there has just read, and
    the gradients that it writes in their place wait in a cache."""
    return weight_bytes(op) if op.attributes.get("phase", "forward") == "forward" else 0.0


def _taps(op: Op) -> float:
    return float(np.prod([float(op.dims.get(f"kernel_{axis}", 1)) for axis in ("depth", "height", "width")]))


def _needed(op: Op) -> Sized:
    """Share of the counted flop that the fastest known algorithm still does."""
    dims = op.dims
    if op.kind == "convolution":
        taps = _taps(op)
        return 1 / WINOGRAD if taps == 9 else 1 / max(taps, 1.0)
    if op.kind == "attention" and op.attributes.get("causal"):
        queries, keys = number(dims["queries"]), number(dims["keys"])
        seen = smallest(queries, keys)
        return 1 - seen * (seen - 1) / (2 * queries * keys)
    return 1.0


AMOUNTS: Mapping[str, Callable[[Op], Sized]] = {
    "least_bytes": _least_bytes,
    "needed": _needed,
    "spared": _spared,
    "kept_weights": _kept_weights,
}
"""Amounts of an operation that `least_time` names beside its cost."""
