"""Streams and stencils on the first n cores of a CPU whose main memory saturates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Annotated

from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.cpu.layer_conditions import LayerConditions, loop_cycles
from slipstick.estimators.cpu.multicore_bandwidth import (
    BranchBorders,
    FittedSaturation,
    Points,
    Saturation,
    cores_of_link,
    fit_saturation,
)
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.source_effects import source_effect
from slipstick.estimators.symbolic.cache_residency import CYCLIC
from slipstick.estimators.symbolic.formula import Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op

MEASURED = "measured"
"""The name of a machine's own curve (`bandwidth_by_cores`)."""
NAME, STREAMS = "loops", "streams"
"""Of what was fitted, and the kind of what sources measure (`source_effects`)."""
MAKERS, BESIDE = ("intel-", "amd-zen"), ("intel-knights",)
"""Families by their beginning whose streams were measured, and those among them of which none was."""
ELSEWHERE = 0.4
"""Standard deviation of log time on processors of other makers and on Xeon Phi, of which one (A64FX) was measured; a
judgement."""
OTHER_LOOP = 0.1
"""The same between the loop of a measured curve and others; a judgement."""


@dataclass(frozen=True)
class LoopShares:
    """What streams reach of a CPU's data sheet.

    `efficiency`: share of the data sheet's memory bandwidth that a full NUMA domain reaches.
    `one_core`: share of the ECM model's speed that one core reaches in main memory: latencies bound it, not the path.
    `sharpness`: exponent of the saturation between the two.
    `scatter`: standard deviation of the normal law whose 80 % band holds 80 % of the times on CPUs left out.
    """

    efficiency: float
    one_core: float
    sharpness: float
    scatter: float


@cache
def shipped() -> LoopShares:
    """Those of public bandwidths (`slipstick validate --refit loops`)."""
    return LoopShares(**load_fitted(NAME).facts)


@dataclass(frozen=True)
class SaturatingLoops(LayerConditions):
    """t = bytes of main memory / B(n), the saturation law of `bandwidth`: ECM cycles / n where caches hold nearly all.

    A line of results is computed by one core, however many there are.

    One core reaches `one_core` of what the ECM model says of what the last cache does not hold, a NUMA domain
    `efficiency` of the data sheet's bandwidth.
    Where the machine has a measured curve (`bandwidth_by_cores`), the law is fitted to it, and says what lies beyond
    the measured cores.

    Sources: `bandwidth` for the law; `layer_conditions` for traffic and cycles.
    """

    efficiency: Annotated[float, Parameter("1", "share of the data sheet's bandwidth reached", 0.01, 1.0)] = field(
        default_factory=lambda: shipped().efficiency
    )
    one_core: Annotated[float, Parameter("1", "share of the ECM model's speed of one core", 0.01, 10.0)] = field(
        default_factory=lambda: shipped().one_core
    )
    sharpness: Annotated[float, Parameter("1", "exponent of the saturation", 1.0, 50.0)] = field(
        default_factory=lambda: shipped().sharpness
    )

    def scatter(self, machine: Machine, cores: int) -> float:
        """Standard deviation of log time on so many cores."""
        curve = measured_curve(machine)
        if curve is None:
            known = machine.family.startswith(MAKERS) and not machine.family.startswith(BESIDE)
            return math.hypot(shipped().scatter if known else ELSEWHERE, source_effect(STREAMS).deviation)
        low, high = curve.interval(MEASURED, cores)
        return math.hypot(math.log(float(high[0] / low[0])) / 2 / quantile(DEFAULT_LEVEL, None), OTHER_LOOP)

    def _seconds(self, op: Op, machine: Machine) -> float:
        cores = int(self.cores) or machine.cores
        curve = measured_curve(machine)
        known = curve.of(MEASURED) if curve else None
        whole = machine.bandwidth(machine.main_memory)
        domain, count = domains(machine)
        limit = known.limit if known else self.efficiency * whole / count
        cycles = loop_cycles(op, machine, cores, limit, CYCLIC, self.allocated)
        traffic = cycles.memory * limit / machine.clock
        alone = traffic * machine.clock / cycles.one
        pace = 1 / (1 - cycles.beyond + cycles.beyond / self.one_core)
        law = (
            Saturation(min(alone, known.per_core), limit, known.sharpness, known.borders, known.cluster_limit)
            if known
            else Saturation(pace * alone, limit, self.sharpness, BranchBorders(domain))
        )
        # a core beyond full domains would keep their pace back, and stands by
        working = cores if machine.cores <= machine.stated.cores else min(cores, domain * count)
        return max(cycles.lines, 1.0) * traffic / min(float(law.bandwidth(max(1.0, min(working, cycles.lines)))), whole)


def domains(machine: Machine) -> tuple[int, int]:
    """Cores of a NUMA domain, and how many domains share the memory's bandwidth.

    Cores beyond those that the machine states join its domains, as its memory stays what it is.
    """
    stated = machine.stated
    count = math.ceil(stated.cores / (stated.cores_per_numa or stated.cores))
    if machine.cores > stated.cores and machine.cores_per_numa == stated.cores_per_numa:
        return machine.cores // count, count
    domain = machine.cores_per_numa or machine.cores
    return domain, math.ceil(machine.cores / domain)


def measured_curve(machine: Machine) -> FittedSaturation | None:
    """The law fitted to the machine's measured bandwidths by cores; None where it has none."""
    points = machine.memory[machine.main_memory].bandwidth_by_cores
    if not points:
        return None
    domain = machine.cores_per_numa or machine.cores
    return _fitted(points, BranchBorders(domain, cores_of_link(machine, domain)))


@lru_cache(maxsize=64)
def _fitted(points: Points, borders: BranchBorders) -> FittedSaturation:
    return fit_saturation({MEASURED: points}, borders)
