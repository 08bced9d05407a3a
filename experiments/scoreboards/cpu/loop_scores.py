"""Streams by layer conditions and the saturation law from data sheets alone, against likwid-bench bandwidths.

The three shares of a data sheet (`LoopShares`) are a law fitted to the other machines: nothing of the scored one is
known but its data sheet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, reduce
from operator import add

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import DEFAULT_LEVEL
from slipstick.estimators.cpu.layer_conditions import LayerConditions, loop_cycles
from slipstick.estimators.cpu.multicore_bandwidth import LAW as SATURATION
from slipstick.estimators.cpu.saturating_loops import NAME, LoopShares, SaturatingLoops, domains, shipped
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import (
    QUANTILE,
    UNGROUPED,
    Columns,
    FormulaLaw,
    Grouping,
    LawRows,
    ParameterPrior,
)
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.experiments.scoreboards.cpu.bandwidth_data import FILE, STREAMS, MeasuredMachine, read_bandwidths
from slipstick.experiments.scoring.score import Data
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.kernels.loop_kernels import kernel_named, loop_workload

ELEMENTS = 10**9
"""A vector that no cache holds."""
SHARES = {"limit": 1.0, "sharpness": 20.0}
"""Of the law of saturation, and the most that each may be here."""
DATA = "likwid-bench"
NOTE = "Main memory by cores, one thread each, of CPUs that likwid-bench measured; every machine left out in turn."


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


def _seconds(values: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of sweeps by `SaturatingLoops`, on arrays: lines and bytes of each, and what one core takes of a line."""
    limit = values["limit"] * columns["peak"]
    alone = values["core"] * columns["moved"] / (columns["inside"] + columns["moved"] / limit)
    one = np.ones(len(limit))
    shares = {"core": alone, "limit": limit, "sharpness": values["sharpness"], "cluster": one}
    stated = {"cores": columns["cores"], "domain": columns["domain"], "cluster": 0 * one, "peak": one}
    rate = np.minimum(SATURATION.predict(shares, stated), columns["whole"])
    return np.asarray(columns["lines"] * columns["moved"] / rate)


def _priors() -> Iterator[ParameterPrior]:
    """What the saturation law expects; of one core what the ECM model says."""
    for one in SATURATION.parameters:
        if one.name == "core":
            yield ParameterPrior("core", "1", "share of the ECM model's", 1.0, 0.3, 0.1, 3.0, "core", ("machine",))
        elif one.name in SHARES:
            yield replace(one, high=min(one.high, SHARES[one.name]), levels=("machine",))


LAW = FormulaLaw("loops from a data sheet", tuple(_priors()), _seconds, (Grouping("machine", 0.15),))
"""Seconds of sweeps; each machine differs from what data sheets say by effects of its own."""


def law_rows(streams: Streams) -> LawRows:
    """The points of a machine whose loops reach main memory, as rows of the law."""
    cpu = streams.machine
    size, count = domains(cpu)
    whole = cpu.bandwidth(cpu.main_memory)
    peak = whole / count
    points = zip(streams.loops, streams.cores, strict=True)
    cycles = [loop_cycles(sweep(name)[0], cpu, n, peak) for name, n in points]
    table = np.array([(one.lines, (one.one - one.memory) / cpu.clock, one.memory * peak / cpu.clock) for one in cycles])
    stated = {"whole": whole, "peak": peak, "domain": float(size)}
    columns = dict(zip(("lines", "inside", "moved"), table.T, strict=True))
    columns |= {name: np.full(len(table), value) for name, value in stated.items()}
    columns["cores"] = np.minimum(np.array(streams.cores, dtype=float), size * count)
    machine = [cpu.name] * len(table)
    cluster = [f"{cpu.name} {name}" for name in streams.loops]
    rows = LawRows(columns, {"machine": machine}, cluster, streams.seconds, [DATA] * len(table))
    return rows.take(np.flatnonzero(columns["moved"] > 0))


def chosen(known: Sequence[LawRows]) -> SaturatingLoops:
    """The shares of a data sheet that hold for a machine of which no row was fitted.

    Raises InputError where no row is known.
    """
    if not known:
        raise InputError("every public curve is among the rows given: nothing is left to learn from")
    values = fit(LAW, reduce(add, known)).values(LAW, {"machine": [UNGROUPED]})
    limit, core, sharpness = (float(values[name][0]) for name in ("limit", "core", "sharpness"))
    return SaturatingLoops(efficiency=limit, one_core=core, sharpness=sharpness)


def loop_rows(
    training: Mapping[str, MeasuredMachine], targets: Mapping[str, MeasuredMachine], dataset: str
) -> list[ValidationRow]:
    """One row over all machines and one a machine: median |log| of time, the machine left out."""
    known = {name: streams for name, one in training.items() if (streams := streams_of(one)) is not None}
    scored = {name: streams for name, one in targets.items() if (streams := streams_of(one)) is not None}
    fitted = {name: law_rows(one) for name, one in known.items()}
    errors, corners, roofs = {}, {}, {}
    for name, one in scored.items():
        model = chosen([other for label, other in fitted.items() if label != name])
        errors[name], corners[name], roofs[name] = one.errors(model), one.errors(LayerConditions()), one.roofline()
    if not errors:
        return []
    together = [np.concatenate([*errors_of.values()]) for errors_of in (errors, corners, roofs)]
    names = [name for name, each in errors.items() for _ in each]
    rows = [_row("all machines", names, together[0], together[1], together[2], dataset)]
    return rows + [_row(name, [name], errors[name], corners[name], roofs[name], dataset) for name in errors]


def _row(
    case: str, machines: Sequence[str], ours: FloatArray, corner: FloatArray, roof: FloatArray, dataset: str
) -> ValidationRow:
    def median(values: FloatArray) -> float:
        return float(np.median(np.abs(values)))

    half = QUANTILE * shipped().scatter
    return ValidationRow(
        dataset,
        f"loops from the data sheet, 1 thread a core: {case}",
        "machine; the shares are fitted to the others",
        len(ours),
        "median |log(predicted / measured)| of time",
        "1",
        median(ours),
        {"layer conditions, memory shared to its corner": median(corner), "bytes / data sheet": median(roof)},
        interval_level=DEFAULT_LEVEL,
        interval_coverage=float(np.mean(np.abs(ours) <= half)),
        interval_width=float(np.exp(2 * half)),
        reason=f"90th percentile {np.percentile(np.abs(ours), 90):.3f}; interval_width is high/low",
    ).over(machines, np.abs(ours) <= half, np.abs(ours) / half)


def refit() -> FittedFile:
    """The shares fitted to all machines, and the scatter of those left out, three digits of each.

    Raises InputError where the public measurements are missing.
    """
    path = Data().known(FILE)
    known = {name: streams for name, one in read_bandwidths(path).items() if (streams := streams_of(one)) is not None}
    fitted = {name: law_rows(one) for name, one in known.items()}
    made = chosen([*fitted.values()])
    left = [one.errors(chosen([o for label, o in fitted.items() if label != name])) for name, one in known.items()]
    errors = np.concatenate(left)
    shares = LoopShares(made.efficiency, made.one_core, made.sharpness, normal_spread(errors))
    half = np.concatenate(
        [
            np.full(len(mine), QUANTILE * normal_spread(np.concatenate([o for o in left if o is not mine])))
            for mine in left
        ]
    )
    score = OuterScore.of("machine unseen", "main memory", len(known), np.exp(errors), np.ones(len(errors)), half)
    facts = {name: float(f"{value:.3g}") for name, value in asdict(shares).items()}
    return FittedFile(NAME, {FILE: digest(path)}, len(errors), {}, (score,), NOTE, facts)
