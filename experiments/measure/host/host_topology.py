"""This host as the system describes it: cores, caches, and a clock that is there before anything is measured."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace

from slipstick.common.errors import InputError
from slipstick.experiments.measure.clocks.core_clock import counted_clock, stated_clock
from slipstick.hwmodels.importers.cpuinfo import system_topology
from slipstick.hwmodels.importers.lscpu import Topology, parse_hwloc, parse_lscpu


def detect(read: Callable[[list[str]], str] | None = None, clock: float | None = None) -> Topology:
    """The host's topology from lscpu, with caches from hwloc where lscpu knows none; its clock is always known.

    A clock that lscpu does not state comes from cpufreq, from /proc/cpuinfo, or is counted by dependent additions;
    the topology says which. Without lscpu (a bare container) the system's own files are read. Cores that this process
    may not use do not count.

    `read`: runs a command and returns its output; the system's if None.
    `clock`: hz; the one found if None.
    Raises InputError where nothing usable is reported, or no clock can be found.
    """
    run = read or _run
    if read is None and not shutil.which("lscpu"):
        topology = system_topology(os.cpu_count() or 1, memory=_main_memory())
    else:
        topology = parse_lscpu(run(["lscpu", "--json"]), memory=_main_memory())
    if not topology.caches and (read is not None or shutil.which("lstopo")):
        seen = parse_hwloc(run(["lstopo", "--of", "xml"]))
        topology = replace(topology, caches=seen.caches, source="lscpu and hwloc")
    if read is None:
        topology = _allowed(topology)
    if clock is not None:
        return replace(topology, clock=clock, clock_source="as given (--clock)")
    if topology.clock is not None:
        return topology
    stated = stated_clock()
    if stated is None:
        return replace(topology, clock=counted_clock(), clock_source="counted by a chain of dependent additions")
    return replace(topology, clock=stated[0], clock_source=stated[1])


def _allowed(topology: Topology) -> Topology:
    """The cores that this process may use: a container's share."""
    if not hasattr(os, "sched_getaffinity"):
        return topology
    cores = max(1, len(os.sched_getaffinity(0)) // topology.threads_per_core)
    return topology if cores >= topology.cores else replace(topology, cores=cores)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=True, env={**os.environ, "LC_ALL": "C"}
        )
    except FileNotFoundError:
        raise InputError(f"{command[0]}: no such command on this host") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{command[0]}: failed ({type(error).__name__})") from None
    return done.stdout


def _main_memory() -> float | None:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return None
