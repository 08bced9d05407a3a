"""Loops over arrays on as many cores as the run has threads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipstick.common.formatting import format_quantity, ratio_shown
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, Spread, quantile
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.multicore import Multicore
from slipstick.estimators.cpu.saturating_loops import SaturatingLoops, measured_curve
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

FORK_JOIN = 1e-6
"""Seconds until threads have started and met again; the order of a barrier of OpenMP on the cores of one CPU (EPCC
OpenMP micro-benchmarks: Bull, "Measuring synchronisation and scheduling overheads in OpenMP", EWOMP 1999)."""
FORK_JOIN_FACTOR = 3.0
"""Of nine in ten machines it lies within this factor of that; a judgement from the spread over machines there."""
STORES = "estimator.operation.write_allocate"
NOTE = "stores load their lines first, as GCC and Clang compile; x{} of the time where they stream past the caches"
"""Of two ways that nobody chose between: the band is wider by half of what they are apart, the deviation of two values
as likely as each other."""
SHORT = 10 * FORK_JOIN
"""Loops that take less say so."""


@dataclass(frozen=True)
class MulticoreLoops(Multicore):
    """One thread a core, cores filled in order; `threads` of the run are the cores that work, all without it."""

    operation: SaturatingLoops

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """See `ComposedEstimator.estimate`; with the band of CPUs left out, or that of the machine's measured curve."""
        run = dict(run or {})
        cores = int(run.pop("threads", self.operation.cores) or machine.cores)
        counted = replace(self, operation=replace(self.operation, cores=cores))
        answer = ComposedEstimator.estimate(counted, workload, machine, run)
        curve = measured_curve(machine)
        notes = [f"one thread on each of {cores} of {machine.cores} cores"]
        notes.append("bandwidth by cores as measured on the machine" if curve else "bandwidth of the data sheet")
        notes += [curve.doubt] if curve and curve.doubt else []
        highest = machine.peak_clock or 0.0
        if not curve and cores == 1 and highest > machine.clock:
            here, most = (format_quantity(clock, "Hz") for clock in (machine.clock, highest))
            notes.append(f"at {here}; a core alone may run at up to {most}: --set machine.clock={highest:g}")
        started = FORK_JOIN * sum(part.times for part in answer.parts) if cores > 1 else 0.0
        time = answer.time + started
        if started and time < SHORT:
            notes.append(f"fork and join of {cores} threads counted as about {FORK_JOIN * 1e6:g} µs a loop")
        unsure = math.log(FORK_JOIN_FACTOR) / quantile(DEFAULT_LEVEL, None)
        shares = answer.time / time * self.operation.scatter(machine, cores), started / time * unsure
        streamed = replace(counted, operation=replace(counted.operation, write_allocate=0.0))
        apart = 0.0
        if self.operation.write_allocate < 0:
            apart = math.log(time / (ComposedEstimator.estimate(streamed, workload, machine, run).time + started))
        narrow, wide = math.hypot(*shares), math.hypot(*shares, apart / 2)
        stores = Condition(STORES, "not said", "unknown", NOTE.format(ratio_shown(math.exp(-apart))))
        stores = replace(stores, band_factor=wide / narrow if narrow else 1.0)
        spread, assumptions = Spread(residual=wide), (*answer.assumptions, *notes)
        rule = "formula: a fork and join a loop, and the sum of parts" if started else answer.rule
        return replace(
            answer, time=time, fixed=answer.fixed + started, spread=spread, assumptions=assumptions, rule=rule,
            conditions=(*answer.conditions, *[stores] * (apart > 0)),
        )  # fmt: skip
