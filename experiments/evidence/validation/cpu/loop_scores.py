"""Streams by layer conditions and the saturation law from data sheets alone, against likwid-bench bandwidths.

The three shares of a data sheet (`tuned_loops`) are chosen on the other machines: nothing of the scored one is known
but its data sheet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from slipstick.estimators.core.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.operation.cpu.layer_conditions import LayerConditions
from slipstick.estimators.operation.cpu.saturating_loops import SaturatingLoops
from slipstick.estimators.tuned.tuned_loops import SCATTER
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.evidence.rows import ValidationRow
from slipstick.experiments.evidence.validation.cpu.bandwidth_data import FILE, STREAMS, MeasuredMachine, read_bandwidths
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.loop_kernels import kernel_named, loop_workload

FloatArray = npt.NDArray[np.float64]
ELEMENTS = 10_000_000
"""A vector that no cache holds."""
START = SaturatingLoops()
SMALL = 0.1
"""Log errors beyond this weigh less in the choice."""


@dataclass(frozen=True)
class Streams:
    """The measured streams of one machine: loops, cores, seconds of a sweep."""

    machine: Machine
    loops: tuple[str, ...]
    cores: tuple[int, ...]
    seconds: FloatArray

    def errors(self, model: SaturatingLoops | LayerConditions) -> FloatArray:
        """log(predicted / measured), shape (points,)."""
        points = zip(self.loops, self.cores, strict=True)
        times = [replace(model, cores=n).times(sweep(name), self.machine)[0] for name, n in points]
        return np.asarray(np.log(times / self.seconds))

    def thinned(self) -> Streams:
        """One to four cores and every fourth."""
        kept = [i for i, n in enumerate(self.cores) if n <= 4 or n % 4 == 0]
        names, cores = tuple(self.loops[i] for i in kept), tuple(self.cores[i] for i in kept)
        return replace(self, loops=names, cores=cores, seconds=self.seconds[kept])

    def roofline(self) -> FloatArray:
        """The same of bytes over the data sheet's bandwidth, by the domains in use."""
        domain = self.machine.cores_per_numa or self.machine.cores
        whole = self.machine.bandwidth(self.machine.main_memory)
        used = [whole * np.ceil(n / domain) / np.ceil(self.machine.cores / domain) for n in self.cores]
        moved = np.array([arrays(name) * ELEMENTS * 8 for name in self.loops])
        return np.asarray(np.log(moved / np.array(used) / self.seconds))


def arrays(name: str) -> float:
    """Number of arrays that a loop moves, those included that a store loads first."""
    return (STREAMS[name].reads + STREAMS[name].writes) * STREAMS[name].traffic_factor


@cache
def sweep(name: str) -> tuple[Op, ...]:
    """One sweep of a named loop over long vectors."""
    return loop_workload(name, kernel_named(name)).bind(x=ELEMENTS).operations


def streams_of(measured: MeasuredMachine) -> Streams | None:
    """Main memory, one thread a core; None where the catalogue lacks the machine or its data sheet a number."""
    machine = measured.machine
    if machine is None or measured.suspicious or LayerConditions().lacks(machine):
        return None
    points = [
        (name, n, ELEMENTS * 8 * arrays(name) / rate)
        for name, curve in measured.curves.get(("MEM", 1), {}).items()
        for n, rate in curve
        if n <= machine.cores
    ]
    names, cores, times = zip(*points, strict=True)
    return Streams(machine, names, cores, np.array(times))


def chosen(known: Sequence[Streams]) -> SaturatingLoops:
    """The shares of a data sheet by robust least squares in log time; every machine weighs the same."""
    known = [one.thinned() for one in known]

    def model(logs: FloatArray) -> SaturatingLoops:
        efficiency, one_core, sharpness = np.exp(logs)
        return SaturatingLoops(0.0, float(efficiency), float(one_core), float(sharpness))

    def residuals(logs: FloatArray) -> FloatArray:
        made = model(logs)
        return np.concatenate([one.errors(made) / np.sqrt(len(one.cores)) for one in known])

    start = np.log([START.efficiency, START.one_core, START.sharpness])
    low, high = np.log([0.3, 0.1, 1.0]), np.log([1.0, 3.0, 20.0])
    scale = SMALL / np.sqrt(np.mean([len(one.cores) for one in known]))
    result = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=scale, diff_step=1e-3)
    return model(result.x)


def loop_rows(
    training: Mapping[str, MeasuredMachine], targets: Mapping[str, MeasuredMachine], dataset: str
) -> list[ValidationRow]:
    """One row over all machines and one a machine: median |log| of time, the machine left out."""
    known = {name: streams for name, one in training.items() if (streams := streams_of(one)) is not None}
    scored = {name: streams for name, one in targets.items() if (streams := streams_of(one)) is not None}
    errors, corners, roofs = {}, {}, {}
    for name, one in scored.items():
        model = chosen([other for label, other in known.items() if label != name])
        errors[name], corners[name], roofs[name] = one.errors(model), one.errors(LayerConditions()), one.roofline()
    if not errors:
        return []
    together = [np.concatenate([*errors_of.values()]) for errors_of in (errors, corners, roofs)]
    rows = [_row("all machines", together[0], together[1], together[2], dataset)]
    return rows + [_row(name, errors[name], corners[name], roofs[name], dataset) for name in errors]


def _row(case: str, ours: FloatArray, corner: FloatArray, roof: FloatArray, dataset: str) -> ValidationRow:
    def median(values: FloatArray) -> float:
        return float(np.median(np.abs(values)))

    half = quantile(DEFAULT_LEVEL, None) * SCATTER
    return ValidationRow(
        dataset,
        f"loops from the data sheet, 1 thread a core: {case}",
        "machine; the shares are chosen on the others",
        len(ours),
        "median |log(predicted / measured)| of time",
        "1",
        median(ours),
        {"layer conditions, memory shared to its corner": median(corner), "bytes / data sheet": median(roof)},
        interval_level=DEFAULT_LEVEL,
        interval_coverage=float(np.mean(np.abs(ours) <= half)),
        interval_width=float(np.exp(2 * half)),
        reason=f"90th percentile {np.percentile(np.abs(ours), 90):.3f}; interval_width is high/low",
    )


def main() -> None:
    """Print the shares chosen on all machines, and the scatter of those left out.

    Raises
    ------
    InputError
        Where the public measurements are missing.
    """
    path = training_file(FILE)
    if path is None:
        raise InputError(why_missing(FILE))
    known = {name: streams for name, one in read_bandwidths(path).items() if (streams := streams_of(one)) is not None}
    print(chosen([*known.values()]))
    left = [one.errors(chosen([o for label, o in known.items() if label != name])) for name, one in known.items()]
    print("80th percentile of |log| / 1.28:", np.percentile(np.abs(np.concatenate(left)), 80) / quantile(0.8, None))


if __name__ == "__main__":
    main()
