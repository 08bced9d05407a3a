"""What timed networks say of a CPU's library: the numbers of `CpuLibrary` as a law over chips, as fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from slipstick.estimators.cpu.cpu_library import SPAN, STREAM, CpuKernel, CpuLibrary, cpu_kernel
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.fitting.group_effects_model import Columns, FloatArray, Grouping, ParameterPrior
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.estimators.symbolic.parameters import parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

NAME = "cpu-library"
PACE = "pace"
"""How much slower a chip does arithmetic than its clock says: clocks under wide vectors and turbo differ from it."""
STREAMED = "streamed"
COMPUTE: tuple[CpuKernel, ...] = ("dense", "grouped", "depthwise", "product")
STARTS = ("start", "other_start")
TRAFFIC = ("traffic", "depthwise_traffic", "other_traffic")
KINDS = {
    name: kind for kind, names in (("slowdown", COMPUTE), ("start", STARTS), ("traffic", TRAFFIC)) for name in names
}
TYPICAL = {
    "dense": 2e-3, "grouped": 1e-4, "depthwise": 1e-4, "product": 2e-3, "start": 60.0, "other_start": 40.0,
    "traffic": 1.5e-3, "depthwise_traffic": 2e-4, "other_traffic": 5e-4, STREAMED: 0.0,
}  # fmt: skip
"""Columns of a network of middle size, for its band."""


def _priors() -> tuple[ParameterPrior, ...]:
    notes = parameters(CpuLibrary())
    each = tuple(
        ParameterPrior(
            name, note.unit, note.meaning, value, 1.0, max(note.low, 1e-9), note.high, KINDS[name],
            ("chip",) if name in STARTS else (),
        )
        for name, (value, note) in notes.items() if name in KINDS
    )  # fmt: skip
    return (*each, ParameterPrior(PACE, "1", "slowdown of a chip's arithmetic", 1.0, 0.0, 0.1, 10.0, PACE, ("chip",)))


@dataclass(frozen=True)
class CpuLibraryLaw:
    """Seconds of a network on a CPU.

    Columns, by the parameter that multiplies them: seconds of each class of products at the peak, numbers of kernels
    that start, and seconds of bytes at the bandwidth of main memory; `streamed`, seconds of what streams.
    """

    name: str = NAME
    parameters: Sequence[ParameterPrior] = _priors()
    levels: Sequence[Grouping] = (Grouping("chip", 0.3),)

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        compute = sum(parameters[name] * columns[name] for name in COMPUTE)
        rest = sum(parameters[name] * columns[name] for name in (*STARTS, *TRAFFIC))
        return np.asarray(parameters[PACE] * compute + rest + columns[STREAMED], dtype=float)


def library_columns(workload: Workload, machine: Machine) -> dict[str, float]:
    """The columns of a workload without open sizes on a machine, as the runtime hands its operations over."""
    columns = dict.fromkeys(TYPICAL, 0.0)
    bandwidth = machine.bandwidth(machine.main_memory)
    for op in workload.merged:
        if op.kind in machine.runtime.free_kinds:
            continue
        kernel, times = cpu_kernel(op), float(op.times)
        columns["other_start" if kernel == "other" else "start"] += times * float(op.cost["launches"])
        place = f"{kernel}_traffic" if kernel in ("depthwise", "other") else "traffic"
        moved = float(op.cost.bytes_moved)
        columns[place] += times * min(moved, SPAN) / bandwidth
        columns[STREAMED] += times * max(moved - SPAN, 0.0) * STREAM / bandwidth
        if kernel == "other":
            continue
        for name, amount in op.cost.items():
            if name.startswith("flop.matrix."):
                _, unit, dtype = name.split(".")
                columns[kernel] += times * float(amount) / machine.peak(*serving_rate(machine, unit, dtype))
    return columns


def chip_of(machine: Machine) -> str:
    """The group of a machine: the processor as its file names it."""
    return machine.name


@lru_cache(maxsize=1)
def library_fit() -> LawFit:
    """The fitted numbers that ship."""
    return load_fitted(NAME).fit(NAME)


def cpu_library(machine: Machine) -> tuple[CpuLibrary, float]:
    """The library's numbers on a machine, and half of the 80 % band of a network's log time."""
    groups = {"chip": [chip_of(machine)]}
    law, fitted = CpuLibraryLaw(), library_fit()
    values = {name: float(value[0]) for name, value in fitted.values(law, groups).items()}
    pace = values.pop(PACE)
    values |= {name: max(1.0, pace * values[name]) for name in COMPUTE}
    typical = {name: np.array([value]) for name, value in TYPICAL.items()}
    return CpuLibrary(**values), float(fitted.half_width(law, typical, groups)[0])
