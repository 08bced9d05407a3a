"""Public bandwidth measurements of CPUs by cores (likwid-bench), and the data-sheet borders of those CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipstick.common.readers import read_csv_rows, read_number
from slipstick.estimators.cpu.multicore_bandwidth import BranchBorders, cores_of_link
from slipstick.hwmodels.catalog import machine, machine_of_device
from slipstick.hwmodels.importers.kerncraft import BandwidthKernel
from slipstick.hwmodels.machine import Machine

FILE = "cpu/bandwidth_scaling.csv"
GIGA = 1e9

CATALOG = {
    "A64FX_qpace4": "a64fx",
    "ARMv8_ThunderX2-CN9980": "thunderx2-cn9980",
    "BroadwellEP_E5-2630v4": "xeon-e5-2630v4",
    "BroadwellEP_E5-2697v4_CoD": "xeon-e5-2697v4-cod",
    "CascadelakeSP_Gold-6248_SNC": "xeon-gold-6248-snc",
    "HaswellEP_E5-2695v3": "xeon-e5-2695v3",
    "HaswellEP_E5-2695v3_CoD": "xeon-e5-2695v3-cod",
    "IvyBridgeEP_E5-2660v2": "xeon-e5-2660v2",
    "IvyBridgeEP_E5-2690v2": "xeon-e5-2690v2",
    "SandyBridgeEP_E5-2680": "xeon-e5-2680",
    "SkylakeSP_Gold-5122": "xeon-gold-5122",
    "SkylakeSP_Gold-6148": "xeon-gold-6148",
    "SkylakeSP_Gold-6148_SNC": "xeon-gold-6148-snc",
    "SkylakeSP_Platinum-8147_2.7GHz": "xeon-platinum-8174",
    "Zen2_EPYC-7452": "epyc-7452",
    "Zen_EPYC-7451": "epyc-7451",
    "Zen_Ryzen7-1700X": "ryzen-7-1700x",
}
"""Names of the measurements -> machines of the catalogue."""

STREAMS = {
    "copy": BandwidthKernel(1, 0, 1),
    "daxpy": BandwidthKernel(2, 1, 1, 2),
    "load": BandwidthKernel(1, 0, 0),
    "triad": BandwidthKernel(3, 0, 1, 2),
    "update": BandwidthKernel(1, 1, 1),
}
"""Arrays that each benchmark of likwid-bench runs over."""


@dataclass(frozen=True)
class MeasuredMachine:
    """Curves of one machine.

    `curves`: (level, threads a core) -> benchmark -> pairs (cores, bytes a second of traffic, write-allocate included).
    """

    name: str
    cores_per_socket: int
    cores_per_numa: int
    curves: Mapping[tuple[str, int], Mapping[str, tuple[tuple[int, float], ...]]]

    @property
    def suspicious(self) -> str:
        """Why the measurements cannot be this machine's; "" where nothing is seen."""
        most = max(points[-1][0] for curves in self.curves.values() for points in curves.values())
        if most > self.cores_per_socket:
            return f"{self.name}: rows for {most} cores of a socket of {self.cores_per_socket}"
        return ""

    @property
    def machine(self) -> Machine | None:
        """The same machine by its data sheet; None where the catalogue lacks it."""
        if self.name in CATALOG:
            return machine(CATALOG[self.name])
        return machine_of_device(self.name.replace("_", " "))

    @property
    def borders(self) -> BranchBorders:
        """Domain, cluster and data-sheet bandwidth of a domain."""
        known = self.machine
        if known is None:
            return BranchBorders(self.cores_per_numa)
        domains = max(1, known.cores // self.cores_per_numa)
        inside = cores_of_link(known, self.cores_per_numa)
        return BranchBorders(self.cores_per_numa, inside, known.bandwidth(known.main_memory) / domains)

    def within_domain(
        self, level: str, threads: int, most: int | None = None
    ) -> dict[str, tuple[tuple[int, float], ...]]:
        """Curves up to `most` cores (the whole domain if None)."""
        last = min(self.cores_per_numa, most or self.cores_per_numa)
        curves = self.curves.get((level, threads), {})
        below = {name: tuple(p for p in points if p[0] <= last) for name, points in curves.items()}
        return {name: points for name, points in below.items() if points}


def read_bandwidths(path: Path) -> dict[str, MeasuredMachine]:
    """Machines by name.

    Raises InputError where a column is missing or a value is no number in its range.
    """
    columns = ("machine", "cores_per_socket", "cores_per_numa", "level", "smt_threads", "kernel", "cores", "GBs")
    sizes: dict[str, tuple[int, int]] = {}
    rates: dict[str, dict[tuple[str, int], dict[str, list[tuple[int, float]]]]] = {}
    for line, row in read_csv_rows(path, columns):
        name, kernel = row["machine"], row["kernel"]
        if kernel not in STREAMS:
            continue
        whole = {
            column: int(read_number(row[column], path, line, column, 1, 1e5))
            for column in ("cores_per_socket", "cores_per_numa", "smt_threads", "cores")
        }
        rate = read_number(row["GBs"], path, line, "GBs", 1e-6, 1e9) * GIGA * STREAMS[kernel].traffic_factor
        sizes[name] = (whole["cores_per_socket"], whole["cores_per_numa"])
        curves = rates.setdefault(name, {}).setdefault((row["level"], whole["smt_threads"]), {})
        curves.setdefault(kernel, []).append((whole["cores"], rate))
    return {
        name: MeasuredMachine(
            name,
            *sizes[name],
            {
                key: {kernel: tuple(sorted(points)) for kernel, points in benchmarks.items()}
                for key, benchmarks in curves.items()
            },
        )
        for name, curves in rates.items()
    }
