"""Kerncraft's printed answers: layer conditions, data cycles and the bandwidth roofline, to the printed digits.

The rule is a closed form; its inputs are a machine's caches, path widths and measured bandwidths. They come from a
kerncraft machine file where there is one (``cpu/machine-files/NAME.yml`` below the data folder, from
https://github.com/RRZE-HPC/kerncraft), else from our catalogue and the bandwidths of cpu/bandwidth_scaling.csv.
Numbers whose inputs nobody gives are left out and counted.

Two conventions of the layer conditions stand side by side, by name. kerncraft 0.8.18 keeps the analysis of a kernel in
a folder beside its source and finds it again by kernel and sizes, whatever the machine: in a series over several
machines the *first* one's layer conditions are used for all. ``first machine's caches`` reproduces such a series;
``own caches`` is what the model says. The goal applies to the convention that the file as a whole follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json, require_mapping
from slipstick.common.records import FrozenDict
from slipstick.estimators.cpu.stencil import Bandwidth, LineTraffic, core_elements, data_cycles, path_traffic
from slipstick.experiments.scoreboards.cpu.bandwidth_data import (
    CATALOG,
    STREAMS,
    MeasuredMachine,
    read_bandwidths,
)
from slipstick.experiments.scoreboards.cpu.bandwidth_data import FILE as BANDWIDTHS
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine as shipped
from slipstick.hwmodels.importers.kerncraft import KerncraftMachine, load_kerncraft
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.loop_kernels import LoopKernel, kernels

Benchmarked = Callable[[str, str], float]
"""(level, benchmark) -> bytes a second of traffic."""


@dataclass(frozen=True)
class RooflinePoint:
    """How fast a kernel can be, and which path says so.

    `iterations`: a second.
    `flop_rate`: flop a second.
    `level`, `benchmark`: the path that bounds it, and the benchmark whose bandwidth was taken.
    """

    iterations: float
    flop_rate: float
    level: str
    benchmark: str


def roofline(
    kernel: LoopKernel,
    shape: Sequence[int],
    machine: Machine,
    bandwidth: Benchmarked,
    caches: Machine | None = None,
) -> RooflinePoint:
    """The slowest path by measured bandwidths; the arithmetic is not looked at.

    `bandwidth`: (level, benchmark) -> bytes a second of traffic of the cores that run.
    """
    nearest, level = next(iter(machine.memory.items()))
    moved = {nearest: (core_elements(kernel, shape, level.line), "load")}
    for name, lines in path_traffic(kernel, shape, machine, caches).items():
        if lines.loads + lines.stores:
            moved[name] = (lines.loads + lines.stores, nearest_benchmark(lines))
    seconds = {
        name: elements * kernel.element_bytes / bandwidth(name, benchmark)
        for name, (elements, benchmark) in moved.items()
    }
    slowest = max(seconds, key=lambda name: seconds[name])
    _, benchmark = moved[slowest]
    rate = 1 / seconds[slowest]
    return RooflinePoint(rate, rate * kernel.flop, slowest, benchmark)


BENCHMARKS: dict[str, LineTraffic] = {
    "load": LineTraffic(1, 0),
    "update": LineTraffic(1, 1),
    "copy": LineTraffic(2, 1),
    "triad": LineTraffic(4, 1),
}
"""Lines that the bandwidth benchmarks move for one line, write-allocate included."""


def nearest_benchmark(lines: LineTraffic) -> str:
    """The benchmark whose loads per store are nearest; with a tie the one of fewer streams."""
    if not lines.stores:
        return "load"
    wanted = lines.loads / lines.stores
    stored = {name: b.loads / b.stores for name, b in BENCHMARKS.items() if b.stores}
    return min(stored, key=lambda name: abs(stored[name] - wanted))


def by_benchmark(bandwidth: Benchmarked) -> Bandwidth:
    """A path's bandwidth by the benchmark that is nearest to its lines."""
    return lambda level, lines: bandwidth(level, nearest_benchmark(lines))


FILE = "cpu/kerncraft_cases.json"
DATASET = "kerncraft 0.8.18 cases"
CONVENTIONS = ("first machine's caches", "own caches")
ALIASES = {"DAXPY": "daxpy", "scalar_product": "dot", "vector_sum": "sum"}
MEMORY = "MEM"
SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
FILE_CHANGES: dict[str, dict[str, Any]] = {
    "A64FX_qpace4": {"memory.HBM2.duplex": "full"},
    "BroadwellEP_E5-2697v4_CoD": {"memory.L3.capacity": 9216 * 20 * 64},
    "CascadelakeSP_Gold-6248_SNC": {"memory.L3.capacity": 14 * 1024**2},
    "HaswellEP_E5-2695v3_CoD": {"memory.L3.capacity": 9216 * 16 * 64},
    "Zen_Ryzen7-1700X": {"clock": 2.9e9},
}
"""What the machine files say otherwise than the data sheets (caches: sets x ways x line)."""

_CYCLES = re.compile(r"(\w+) = ([\d.]+) cy/CL\Z")
_RATE = re.compile(r"([\d.]+) ([kMGT]?)FLOP/s due to (\w+) transfer bottleneck \(with bw from (\w+) benchmark\)\Z")


@dataclass(frozen=True)
class KerncraftCase:
    """One run: cycles of each path, or a rate (and the value of its last digit) with the path that bounds it."""

    machine: str
    kernel: str
    shape: tuple[int, ...]
    cores: int
    cycles: Mapping[str, float]
    rate: float = 0.0
    digit: float = 0.0
    level: str = ""
    benchmark: str = ""


@dataclass(frozen=True)
class Agreement:
    """Printed numbers of one case that are equal to ours, that differ, and that we lack the inputs of."""

    equal: int = 0
    different: int = 0
    without_inputs: int = 0


class Inputs:
    """Machines and bandwidths by the names of kerncraft's machine files; the first data folder that has one wins."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.files: dict[str, KerncraftMachine] = {}
        self.measured: dict[str, MeasuredMachine] = {}
        for folder in reversed(folders):
            if (folder / BANDWIDTHS).exists():
                self.measured.update(read_bandwidths(folder / BANDWIDTHS))
            for path in sorted((folder / "cpu" / "machine-files").glob("*.yml")):
                self.files[path.stem] = load_kerncraft(path)

    def machine(self, name: str) -> Machine | None:
        """Caches and path widths, main memory under the name MEM; None where nobody describes the machine."""
        if name in self.files:
            return self.files[name].machine()
        if name not in CATALOG:
            return None
        known = shipped(CATALOG[name]).using(FILE_CHANGES.get(name, {}))
        levels = {MEMORY if level == known.main_memory else level: record for level, record in known.memory.items()}
        return known.model_copy(update={"memory": FrozenDict(levels)})

    def bandwidth(self, name: str, level: str, benchmark: str, cores: int | None) -> float:
        """Bytes a second of traffic of the first cores, or the most inside one domain (None).

        Raises
        ------
        KeyError
            Where nobody measured it.
        """
        if name in self.files:
            file = self.files[name]
            rate = file.saturated(level, benchmark) if cores is None else file.bandwidth(level, benchmark, cores)
            return rate * STREAMS[benchmark].traffic_factor
        machine = self.measured[name]
        points = dict(machine.curves[level, 1][benchmark])
        if cores is not None:
            return points[cores]
        return max(rate for count, rate in points.items() if count <= machine.cores_per_numa)


def _conventions(data: Data) -> list[ValidationRow]:
    """The share of printed numbers that ours equal, by model and convention."""
    cases, unknown = read_cases(data.judged(FILE))
    inputs = Inputs([folder for folder in (data.scored, data.folder) if folder is not None])
    scores: dict[str, list[tuple[KerncraftCase, Agreement]]] = {}
    for convention in CONVENTIONS:
        first: dict[tuple[str, tuple[int, ...]], str] = {}
        for case in cases:
            holder = first.setdefault((case.kernel, case.shape), case.machine)
            caches = holder if convention == CONVENTIONS[0] else case.machine
            scores.setdefault(convention, []).append((case, agreement(case, inputs, caches)))
    equal = {c: sum(result.equal for _, result in results) for c, results in scores.items()}
    followed = max(CONVENTIONS, key=lambda convention: equal[convention])
    result = [
        _row(
            model, convention, [(c, r) for c, r in scores[convention] if bool(c.cycles) == (model != "roofline")], goal
        )
        for convention in CONVENTIONS
        for goal in [1.0 if convention == followed else None]
        for model in ("ECM data cycles", "roofline")
    ]
    if unknown:
        result.append(skipped(DATASET, f"kernels that nobody described here: {', '.join(sorted(unknown))}"))
    return result


def agreement(case: KerncraftCase, inputs: Inputs, caches: str) -> Agreement:
    """Compare one case, with the layer conditions of the caches of the machine named."""
    machine, sizes = inputs.machine(case.machine), inputs.machine(caches)
    kernel = kernels()[case.kernel]
    total = len(case.cycles) or 1
    if machine is None or sizes is None:
        return Agreement(without_inputs=total)
    if not case.cycles:
        try:
            ours = roofline(
                kernel,
                case.shape,
                machine,
                lambda level, benchmark: inputs.bandwidth(case.machine, level, benchmark, case.cores),
                sizes,
            )
        except KeyError:
            return Agreement(without_inputs=1)
        same = (ours.level, ours.benchmark) == (case.level, case.benchmark)
        same = same and _same(ours.flop_rate, case.rate, case.digit)
        return Agreement(int(same), int(not same))
    missing: list[str] = []

    def saturated(level: str, benchmark: str) -> float:
        try:
            return inputs.bandwidth(case.machine, level, benchmark, None)
        except KeyError:
            missing.append(level)
            return 1.0

    cycles = data_cycles(kernel, case.shape, machine, by_benchmark(saturated), sizes)
    checked = [level for level in case.cycles if level not in missing]
    same_count = sum(level in cycles and _same(cycles[level], case.cycles[level], 0.01) for level in checked)
    return Agreement(same_count, len(checked) - same_count, total - len(checked))


def streaming_share(cases: Sequence[KerncraftCase], inputs: Inputs) -> float:
    """Share of cases that the trivial baseline meets: arrays stream once through every path of known width."""
    equal = total = 0
    for case in cases:
        machine = inputs.machine(case.machine)
        if machine is None:
            continue
        kernel = kernels()[case.kernel]
        lines = len(kernel.arrays) + len(kernel.writes)
        for level, printed in case.cycles.items():
            rate = machine.memory[level].bytes_per_cycle if level in machine.memory else None
            if rate is not None:
                total += 1
                equal += _same(lines * machine.memory[level].line / rate, printed, 0.01)
    return equal / total if total else 0.0


def _row(
    model: str, convention: str, results: Sequence[tuple[KerncraftCase, Agreement]], goal: float | None
) -> ValidationRow:
    equal = sum(result.equal for _, result in results)
    count = equal + sum(result.different for _, result in results)
    lacking = sum(result.without_inputs for _, result in results)
    wrong = [f"{case.machine} {case.kernel} {case.shape}" for case, result in results if result.different]
    notes = []
    if lacking:
        notes.append(f"{lacking} numbers left out: no machine file and no measured bandwidth of that machine")
    if goal is None:
        notes.append("for comparison: the file as a whole follows the other convention")
    elif wrong:
        notes.append(f"differs: {', '.join(wrong[:3])}{' ...' if len(wrong) > 3 else ''}")
    share = equal / count if count else None
    return ValidationRow(
        DATASET,
        f"{model}, {convention}",
        "nothing is fitted",
        count,
        "share of printed numbers that are equal",
        "1",
        share,
        {"every array streams once": streaming_share([case for case, _ in results], Inputs([]))}
        if model != "roofline"
        else {},
        goal,
        share == 1.0 if goal is not None and count else None,
        reason="; ".join(notes),
    )


def read_cases(path: Path) -> tuple[list[KerncraftCase], set[str]]:
    """The cases whose kernel is known here, and the names of the kernels that are not.

    Raises InputError where the file is no list of cases.
    """
    document = read_json(path)
    if not isinstance(document, list):
        raise InputError(f"{path}: want a list of cases")
    cases: list[KerncraftCase] = []
    unknown: set[str] = set()
    for index, entry in enumerate(document):
        entry = require_mapping(entry, path, f"case {index}")
        name = ALIASES.get(str(entry.get("kernel")), str(entry.get("kernel")))
        if name not in kernels():
            unknown.add(name)
            continue
        case = _case(entry, name, path)
        if case is not None:
            cases.append(case)
    return cases, unknown


def _case(entry: Mapping[str, Any], kernel: str, path: Path) -> KerncraftCase | None:
    sizes = require_mapping(entry.get("defines", {}), path, "defines")
    if not all(isinstance(size, int) and 0 < size < 10**12 for size in sizes.values()) or "N" not in sizes:
        raise InputError(f"{path}: {kernel}: defines {json.dumps(dict(sizes))[:60]}: want sizes N and M above 0")
    n, m = sizes["N"], sizes.get("M", sizes["N"])
    shape = [(n,), (m, n), (m, n, n)][kernels()[kernel].dimensions - 1]
    machine = str(entry.get("machine", "")).removesuffix(".yml")
    cores = int(entry.get("cores") or 1)
    lines = [str(line) for line in entry.get("stdout") or []]
    cycles = {match[1]: float(match[2]) for line in lines if (match := _CYCLES.match(line))}
    if cycles:
        return KerncraftCase(machine, kernel, shape, cores, cycles)
    for line in lines:
        match = _RATE.match(line)
        if match:
            scale = SCALES[match[2]]
            digits = len(match[1].partition(".")[2])
            return KerncraftCase(
                machine, kernel, shape, cores, {}, float(match[1]) * scale, scale * 10.0**-digits, match[3], match[4]
            )
    return None


def _same(ours: float, printed: float, digit: float) -> bool:
    """Equal in the printed digits; a value half-way between two may be rounded either way."""
    return abs(ours - printed) <= 0.5 * digit * (1 + 1e-6)


BOARD = Board("What does kerncraft print of a loop on a CPU?", {DATASET: _conventions})
