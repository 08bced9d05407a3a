"""Energy of a block: RAPL counters where the host has them; labels drawn from the paper's table where it has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.estimators.sparse.product_energy import CLOCKS_GHZ, TABLE_1, TABLE_1_RANGES

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RaplDomain:
    """One energy counter of Linux' powercap (intel-rapl): microjoules that wrap around."""

    name: str
    path: Path
    wraps_at: int

    def read(self) -> int:
        """Microjoules now."""
        return int((self.path / "energy_uj").read_text())


def rapl_domains(root: Path = Path("/sys/class/powercap")) -> tuple[RaplDomain, ...]:
    """The host's counters, packages and memory; empty where it has none or lets nobody read them."""
    domains = []
    for folder in sorted(root.glob("intel-rapl:*")):
        try:
            domain = RaplDomain(
                (folder / "name").read_text().strip(), folder, int((folder / "max_energy_range_uj").read_text())
            )
            domain.read()
        except (OSError, ValueError):
            continue
        domains.append(domain)
    return tuple(domains)


def energy_of(task: Callable[[], object], domains: tuple[RaplDomain, ...]) -> dict[str, float]:
    """Joules by domain that the machine used while `task` ran; one wrap-around of a counter is made good.

    Raises InputError where there is no counter.
    """
    if not domains:
        raise InputError("this host has no readable RAPL counter (/sys/class/powercap/intel-rapl:*): no energy labels")
    before = [domain.read() for domain in domains]
    task()
    used = [(domain.read() - start) % domain.wraps_at for domain, start in zip(domains, before, strict=True)]
    return {domain.name: joules / 1e6 for domain, joules in zip(domains, used, strict=True)}


SYNTHETIC = "synthetic: drawn from Table 1 of Barreda et al. 2020, not measured"


def synthetic_energy(
    seconds_per_nonzero: npt.ArrayLike, seed: int = 0, metric: str = "total energy", clock_ghz: float = 2.4
) -> Floats:
    """Joules a non-zero for blocks with these times, where a host has no counter: for tests of the energy path only.

    Mean, standard deviation and range are Table 1's (total energy at 2.4 GHz: 39.58 nJ, 2.51 nJ, 34.52 to 58.40 nJ);
    eight tenths of the deviation order the blocks as their times do, the rest is drawn. Everything made from it says
    `SYNTHETIC`.
    """
    times = np.asarray(seconds_per_nonzero, dtype=np.float64)
    random = np.random.default_rng(seed)
    spread = times.std()
    standard = (times - times.mean()) / spread if spread > 0 else np.zeros_like(times)
    mixed = 0.8 * standard + 0.6 * random.standard_normal(len(times))
    column = CLOCKS_GHZ.index(clock_ghz)
    (mean, deviation), (low, high) = TABLE_1[metric][column], TABLE_1_RANGES[metric][column]
    return np.asarray(np.clip(mean + deviation * mixed, low, high) * 1e-9)


def synthetic_family(seconds_per_nonzero: npt.ArrayLike, clock: float) -> dict[tuple[float, str], Floats]:
    """Labels of the paper's four clocks and four metrics from hot times measured at one `clock` [Hz].

    Times follow the clock (hot labels are core-bound); energies are drawn (`synthetic_energy`).
    """
    times = np.asarray(seconds_per_nonzero, dtype=np.float64)
    labels: dict[tuple[float, str], Floats] = {}
    for number, ghz in enumerate(CLOCKS_GHZ):
        labels[ghz * 1e9, "time"] = times * clock / (ghz * 1e9)
        for seed, metric in enumerate(TABLE_1):
            if metric != "time":
                labels[ghz * 1e9, metric] = synthetic_energy(times, 10 * number + seed, metric, ghz)
    return labels
