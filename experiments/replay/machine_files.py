"""A machine from another tool's file, found by its content: kerncraft, lscpu, lstopo, /proc/cpuinfo."""

from __future__ import annotations

import os
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.common.readers import read_text
from slipstick.hwmodels.importers.cpuinfo import topology_of_cpuinfo
from slipstick.hwmodels.importers.kerncraft import load_kerncraft
from slipstick.hwmodels.importers.lscpu import Topology, parse_hwloc, parse_lscpu
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.importers.formats.registry import elsewhere, identify

TOPOLOGIES = ("lscpu", "hwloc", "cpuinfo")
BY_NAME = {".xml": "hwloc", ".json": "lscpu", ".yml": "kerncraft", ".yaml": "kerncraft"}
"""What a file without a known sign is read as, so that its reader says what is missing."""


def _kind(path: str | os.PathLike[str]) -> str:
    kind = identify(path)
    if kind is None:
        return BY_NAME.get(Path(path).suffix, "")
    if kind.target != "machine":
        raise elsewhere(path, "machine")
    return kind.key


def topology(path: str | os.PathLike[str], clock: float | None = None) -> Topology:
    """What lscpu, lstopo or /proc/cpuinfo says of a host; `clock` in hertz, where the file states none.

    Raises InputError where the file is none of these; names the file.
    """
    kind = _kind(path)
    if kind not in TOPOLOGIES:
        raise elsewhere(path, "machine")
    text = read_text(path)
    try:
        if kind == "hwloc":
            return parse_hwloc(text, clock=clock)
        return parse_lscpu(text) if kind == "lscpu" else topology_of_cpuinfo(text, clock)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def imported_machine(path: str | os.PathLike[str], benchmark: str | None = None, clock: float | None = None) -> Machine:
    """The machine of a file; `benchmark`: kerncraft's kernel whose bandwidths count, else copy; `clock` in hertz.

    Raises InputError where the file is none of a machine, states no clock and none is given, or does not read what is.
    """
    kind = _kind(path)
    if kind == "kerncraft":
        if clock is not None:
            raise InputError(f"--clock {format_quantity(clock, 'Hz')}: not used: {path} states the clock")
        return load_kerncraft(path).machine(benchmark or "copy")
    if benchmark is not None:
        raise InputError(f"--benchmark {benchmark}: not used: {path} holds none; it is of a file of kerncraft")
    if clock is not None and kind == "lscpu":
        given = format_quantity(clock, "Hz")
        raise InputError(f"--clock {given}: not used: {path} states the clock; --clock is of lstopo's files")
    host = topology(path, clock)
    if host.clock is None:
        raise InputError(f"{path}: states no clock: give --clock, such as --clock 2.5GHz")
    return host.machine(Path(path).name.partition(".")[0])
