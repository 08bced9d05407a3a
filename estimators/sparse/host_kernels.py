"""The kernels calibrated on a host, kept in a JSON file beside its machine file, and their products on threads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, log
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json, require_mapping, unknown_name
from slipstick.common.records import FrozenDict
from slipstick.common.writer import atomic_write
from slipstick.estimators.sparse.kernel_costs import MEMORY_TERMS, KernelCosts, State
from slipstick.estimators.sparse.reuse_model import CacheSizes
from slipstick.estimators.sparse.row_chunks import chunks, counts_of, split_of
from slipstick.workloads.kernels.sparse import SparseMatrix

SCHEMA = "slipstick-spmv-kernels-1"
SHIPPED = Path(__file__).parent / "trained" / "spmv-kernels.json"
SUFFIX = ".spmv.json"
"""Of the file beside a machine file: my-host.yaml, my-host.spmv.json."""


@dataclass(frozen=True)
class ThreadCosts:
    """What several threads cost a kernel beside their own chunks.

    T(p) = start x (p - 1) + max over chunks (core + memory x (1 + shared x (p - 1))): each thread has a core with its
    own first two cache levels, and waits longer for what lies beyond them.

    `start`: seconds that another thread costs each product.
    `shared`: by how much another thread lengthens what lies beyond the core's own caches: 0 if there is enough for all,
        1 if one thread already takes all of it.
    `spread`: as `KernelCosts.spread`, of products on the threads measured.
    `measured`: threads of the calibration.
    """

    start: float
    shared: float
    spread: float
    measured: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < 1 and 0 <= self.shared <= 1 and 0 <= self.spread <= 10 and self.measured > 1):
            raise InputError(
                f"{self}: want start from 0 to 1 s, shared in [0, 1], spread in [0, 10], 2 threads or more"
            )

    def seconds(self, parts: Sequence[Mapping[str, float]], threads: int) -> float:
        """Of one product whose chunks have these parts by term."""
        longer = 1 + self.shared * (threads - 1)
        each = [sum(v * (longer if name in MEMORY_TERMS else 1.0) for name, v in one.items()) for one in parts]
        return self.start * (threads - 1) + max(each)


@dataclass(frozen=True)
class HostKernels:
    """Kernels calibrated on one host.

    `costs`: one record a kernel and state of the caches.
    `threads`: by "kernel state"; kernels measured on one thread are not in it.
    `power`: mean watts by domain ("package", "dram") while products ran; empty where the host's counters cannot be
        read.
    `source`: machine, date and protocol, for people.
    """

    machine: str
    clock: float
    cores: int
    caches: CacheSizes
    costs: tuple[KernelCosts, ...]
    threads: FrozenDict[ThreadCosts] = FrozenDict()
    power: FrozenDict[float] = FrozenDict()
    source: str = ""

    def __post_init__(self) -> None:
        if not self.costs or not 0 < self.clock < 1e12 or self.cores < 1:
            raise InputError(f"kernels of {self.machine!r}: want a clock of 0 to 1e12 Hz, a core, at least one kernel")
        if not all(0 <= watts < 1e6 for watts in self.power.values()):
            raise InputError(f"kernels of {self.machine!r}: want powers from 0 to 1e6 W")

    @property
    def kernels(self) -> tuple[str, ...]:
        """Their names, each once."""
        return tuple(dict.fromkeys(one.kernel for one in self.costs))

    def of(self, kernel: str, state: State) -> KernelCosts:
        """The costs of a kernel.

        Raises InputError where it was not calibrated.
        """
        for one in self.costs:
            if (one.kernel, one.state) == (kernel, state):
                return one
        raise unknown_name("calibrated kernel", kernel, self.kernels)

    def threads_of(self, kernel: str, state: State) -> ThreadCosts:
        """What threads cost a kernel.

        Raises InputError where it was calibrated on one thread only.
        """
        fitted = self.threads.get(f"{kernel} {state}")
        if fitted is None:
            known = [name for name in self.threads if name.endswith(f" {state}")]
            text = f"kernel {kernel!r} was calibrated on one thread ({state} caches)"
            raise InputError(f"{text}; with threads: {', '.join(known) or 'none'}")
        return fitted

    def seconds(
        self,
        matrix: SparseMatrix,
        kernel: str,
        state: State = "warm",
        threads: int = 1,
        caches: CacheSizes | None = None,
        clock_ratio: float = 1.0,
    ) -> tuple[float, float]:
        """Of one product, and the share of a core's time that lies beyond its own caches.

        `caches`, `clock_ratio`: of another machine's core; the host's own if None.
        Raises InputError where the kernel, or its threads, were not calibrated.
        """
        costs, there = self.of(kernel, state), caches or self.caches
        if threads == 1:
            parts = costs.parts(counts_of(matrix), there, clock_ratio)
            whole = sum(parts.values())
            return whole, sum(v for name, v in parts.items() if name in MEMORY_TERMS) / max(whole, 1e-300)
        several = self.threads_of(kernel, state)
        pieces = chunks(matrix, threads, split_of(kernel)) or [matrix]
        every = [costs.parts(counts_of(piece), there, clock_ratio) for piece in pieces]
        waiting = max(sum(v for name, v in one.items() if name in MEMORY_TERMS) / sum(one.values()) for one in every)
        return several.seconds(every, threads), waiting

    def spread(self, kernel: str, state: State, threads: int = 1) -> float:
        """Of log time over matrices; beyond the threads measured it grows with the logarithm of their ratio."""
        if threads == 1:
            return self.of(kernel, state).spread
        several = self.threads_of(kernel, state)
        return hypot(several.spread, UNMEASURED * max(0.0, log(threads / several.measured)))

    def document(self) -> dict[str, Any]:
        """All of it as plain values for JSON, with units in the names."""
        caches = {"L2": self.caches.L2, "L3": self.caches.L3}
        kernels = [
            {
                "kernel": one.kernel,
                "state": one.state,
                "software": one.software,
                "spread": one.spread,
                "freedom": one.freedom,
                "reach": one.reach,
                "cost_s": dict(one.cost),
            }
            for one in self.costs
        ]
        several = {
            name: {"start_s": one.start, "shared": one.shared, "spread": one.spread, "measured": one.measured}
            for name, one in self.threads.items()
        }
        head = {"schema": SCHEMA, "machine": self.machine, "source": self.source}
        core = {"clock_hz": self.clock, "cores": self.cores, "caches_bytes": caches, "power_w": dict(self.power)}
        return {**head, **core, "kernels": kernels, "threads": several}

    def save(self, path: str | Path) -> None:
        """Write the file; `load_host_kernels` reads it back."""
        with atomic_write(path) as stream:
            json.dump(self.document(), stream, indent=1)
            stream.write("\n")


UNMEASURED = 0.15
"""Spread for every factor e of threads beyond those measured; a guess: nobody measured more threads here."""


def load_host_kernels(path: str | Path = SHIPPED) -> HostKernels:
    """The kernels of a host from its file; those that ship if none is named.

    Raises InputError where the file holds no such thing.
    """
    document = require_mapping(read_json(path), path, "file")
    if document.get("schema") != SCHEMA:
        raise InputError(f"{path}: want kernels of schema {SCHEMA!r} (slipstick spmv calibrate writes them)")
    try:
        costs = tuple(
            KernelCosts(
                str(one["kernel"]),
                one["state"],
                FrozenDict({str(name): float(value) for name, value in one["cost_s"].items()}),
                float(one["spread"]),
                None if one.get("freedom") is None else float(one["freedom"]),
                float(one["reach"]),
                str(one.get("software", "")),
            )
            for one in document["kernels"]
        )
        several = {
            str(name): ThreadCosts(
                float(one["start_s"]), float(one["shared"]), float(one["spread"]), int(one["measured"])
            )
            for name, one in document["threads"].items()
        }
        return HostKernels(
            str(document["machine"]),
            float(document["clock_hz"]),
            int(document["cores"]),
            CacheSizes(**{str(name): float(size) for name, size in document["caches_bytes"].items()}),
            costs,
            FrozenDict(several),
            FrozenDict({str(name): float(watts) for name, watts in document.get("power_w", {}).items()}),
            str(document.get("source", "")),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: kernels without a usable {error}") from None


def beside(machine_file: str | Path) -> Path:
    """Where the kernels of a machine file are kept."""
    path = Path(machine_file)
    return path.with_name(path.name.removesuffix(".gz").removesuffix(path.suffix) + SUFFIX)
