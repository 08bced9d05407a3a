"""What no machine can do: measurements faster than its arithmetic, or than its main memory for what no cache holds.

Such rows are measured wrongly, or labelled wrongly (another device, dtype, or shape), and a fit must not learn them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import SIZE_BYTES

TOLERANCE = 0.01
"""Share by which a time may undercut a bound: clocks of boards and timers are no better."""
WINOGRAD = 4.0
"""Products that F(4x4, 3x3) saves of a 3 x 3 convolution (Lavin and Gray, CVPR 2016); other windows by their area."""


@dataclass(frozen=True)
class Violation:
    """Rows of one form that no machine of these numbers can have done.

    `rows`: their places in the form.
    `total`: rows of the form.
    `bound`: which one: "arithmetic", "main memory".
    `worst`: bound over time of the worst row: how many times too fast.
    `example`: that row in words.
    """

    machine: str
    operation: str
    source: str
    bound: str
    rows: tuple[int, ...]
    total: int
    worst: float
    example: str


def least_times(form: OperationTimes) -> dict[str, FloatArray]:
    """Seconds that each row takes at least, by what bounds it.

    * arithmetic: flop of the unit used over its peak at the highest clock, each engine for itself. Products that a
      known algorithm saves are taken off: Winograd's for 3 x 3 windows (larger ones, by FFT, up to their area), the
      masked half of causal attention.
    * main memory: bytes that must move, less what all caches together could have kept, over the data-sheet bandwidth.
      What fits into caches is not bounded by main memory.
    """
    machine = form.machine
    by_engine: dict[str, FloatArray] = {}
    for name in form.op.cost:
        if name.startswith("flop."):
            _, unit, dtype = name.split(".")
            engine, rated = serving_rate(machine, unit, dtype)
            seconds = form.amount(f"operation.{name}") / machine.peak(engine, rated)
            by_engine[engine] = by_engine.get(engine, np.zeros(len(form))) + seconds * _needed(form, unit)
    arithmetic = np.max(list(by_engine.values()), axis=0) if by_engine else np.zeros(len(form))
    beyond = np.maximum(_moved(form) - cache_bytes(machine), 0.0)
    return {"arithmetic": np.asarray(arithmetic), "main memory": beyond / machine.bandwidth(machine.main_memory)}


def cache_bytes(machine: Machine) -> float:
    """Bytes that all levels before main memory hold together."""
    levels = list(machine.memory)[:-1]
    return float(sum(machine.memory[name].capacity * machine.instances(name) for name in levels))


def violations(forms: Sequence[OperationTimes]) -> list[Violation]:
    """Every form and bound that some rows undercut by more than `TOLERANCE`."""
    result = []
    for form in forms:
        for bound, least in least_times(form).items():
            ratio = least / form.times
            rows = np.flatnonzero(ratio > 1 + TOLERANCE)
            if len(rows):
                worst = int(np.argmax(ratio))
                dims = ", ".join(f"{name} {column[worst]:g}" for name, column in form.dims.items())
                example = f"{dims}: {form.times[worst] * 1e6:.4g} us, at least {least[worst] * 1e6:.4g} us"
                example += _hint(form, least, worst) if bound == "arithmetic" else ""
                result.append(
                    Violation(
                        form.machine.name,
                        form.name,
                        form.source,
                        bound,
                        tuple(map(int, rows)),
                        len(form),
                        float(ratio[worst]),
                        example,
                    )
                )
    return result


def possible(forms: Sequence[OperationTimes]) -> list[OperationTimes]:
    """The same without the rows that undercut a bound; forms of which nothing is left are gone."""
    result = []
    for form in forms:
        least = np.max(list(least_times(form).values()), axis=0)
        kept = np.flatnonzero(least / form.times <= 1 + TOLERANCE)
        if len(kept):
            result.append(form.some(kept))
    return result


def _moved(form: OperationTimes) -> FloatArray:
    """Bytes that must move; keys and values may be stored in a narrower dtype than the rest."""
    moved = form.amount("operation.bytes_moved")
    stored = form.op.attributes.get("kv_dtype", form.op.dtype)
    if form.op.kind != "attention" or stored == form.op.dtype:
        return moved
    batch, heads, keys = (form.column(name) for name in ("batch", "kv_heads", "keys"))
    elements = batch * heads * keys * (form.column("head_dim") + form.column("value_dim"))
    return moved - elements * (SIZE_BYTES[form.op.dtype] - SIZE_BYTES[str(stored)])


def _needed(form: OperationTimes, unit: str) -> FloatArray | float:
    """Share of the counted flop that the fastest known algorithm still does."""
    if unit != "matrix":
        return 1.0
    if form.op.kind == "convolution":
        taps = np.prod([form.column(f"kernel_{axis}") for axis in ("depth", "height", "width")], axis=0)
        return np.asarray(np.where(taps == 9, 1 / WINOGRAD, 1 / taps))
    if form.op.kind == "attention" and form.op.attributes.get("causal"):
        queries, keys = form.column("queries"), form.column("keys")
        seen = np.minimum(queries, keys)
        return np.asarray(1 - seen * (seen - 1) / (2 * queries * keys))
    return 1.0


def _hint(form: OperationTimes, least: FloatArray, row: int) -> str:
    """Where a narrower dtype would explain the time."""
    machine, dtype = form.machine, form.op.dtype
    if dtype != "float32":
        return ""
    peak = machine.peak(*serving_rate(machine, "matrix", dtype))
    for other in ("tfloat32", "bfloat16", "float16"):
        for engine in machine.engines.values():
            if other in engine.flop_per_cycle:
                rate = engine.flop_per_cycle[other] * machine.clock * machine.cores
                if least[row] * peak / rate <= form.times[row] * (1 + TOLERANCE):
                    return f" (within the peak of {other})"
    return ""
