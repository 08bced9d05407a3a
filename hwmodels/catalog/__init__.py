"""The shipped machines: one YAML file each, every number with its source."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.opener import head
from slipstick.hwmodels.catalog.names import closest, exact, within

if TYPE_CHECKING:
    from slipstick.hwmodels.catalog.index import CatalogEntry
    from slipstick.hwmodels.machine import Machine

FOLDER = Path(__file__).parent
HEAD = 4096
"""Characters of a file within which its aliases stand."""
_ALIASES = re.compile(r"^aliases: *\[(.*)\]$", re.MULTILINE)


OWN = "SLIPSTICK_MACHINES"
"""Environment variable: a folder of machine files of your own, known by their names beside the shipped ones."""


def machine_names() -> list[str]:
    """Names of the shipped machines, and of those in the folder that SLIPSTICK_MACHINES names.

    Examples
    --------
    >>> import slipstick as ss
    >>> "h100-sxm" in ss.machine_names()
    True
    """
    return sorted(_files(os.environ.get(OWN, "")))


def outlines() -> dict[str, CatalogEntry]:
    """Each machine by name in a line, the shipped ones without being read and validated."""
    from slipstick.hwmodels.catalog.index import outline

    files = _files(os.environ.get(OWN, ""))
    return {name: outline(files[name]) for name in sorted(files)}


def aliases() -> dict[str, tuple[str, ...]]:
    """Machine -> its own name and its `aliases`, read off the files without building the machines."""
    return _aliases(os.environ.get(OWN, ""))


@cache
def _files(added: str) -> dict[str, Path]:
    """Files by name; the user's own come after the shipped ones and win."""
    folders = [FOLDER, *([Path(added)] if added else [])]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


@cache
def _aliases(folder: str) -> dict[str, tuple[str, ...]]:
    aliases = {}
    for name, path in sorted(_files(folder).items()):
        line = _ALIASES.search(head(path, HEAD))
        written = [part.strip().strip("\"'") for part in line[1].split(",")] if line else []
        aliases[name] = (name, *filter(None, written))
    return aliases


@lru_cache(maxsize=256)
def _called(name: str, folder: str) -> str | None:
    """See `exact`: a loop of questions spells its machine alike."""
    return exact(name, _aliases(folder))


def _shipped(name: str) -> Machine:
    return _loaded(_files(os.environ.get(OWN, ""))[name])


@cache
def _loaded(path: Path) -> Machine:
    from slipstick.hwmodels.machine_file import load_machine

    return load_machine(path)


def machine(name: str) -> Machine:
    """A shipped machine by name or alias ("h100-sxm", "H100", "A100-80GB"), or your own by the path of its YAML file.

    Raises
    ------
    InputError
        Where the name is unknown, or the file is broken.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.machine("H100").cores
    132
    """
    if not isinstance(name, str):
        raise InputError(f"machine: {name!r:.60}: want a name such as 'h100-sxm', or the path of a YAML file")
    if name.endswith((".yaml", ".yml")) or "/" in name:
        from slipstick.hwmodels.machine_file import load_machine

        return load_machine(name)
    known = machine_names()
    match = name if name in known else _called(name, os.environ.get(OWN, ""))
    if match is None and "," in name:
        raise InputError(f"machine {name[:60]!r}: want one machine, not several")
    if match is None and (part := MIG.fullmatch(name.strip())):
        return _slice(machine(part[1]), int(part[2]), float(part[3]) * 1e9)
    if match is None:
        near = closest(name, aliases())
        raise InputError(f"unknown machine {name[:60]!r}{_way_on(near)} ({len(known)} known: slipstick machines list)")
    return _shipped(match)


MIG = re.compile(r"(.+?)[ :-](?:MIG )?([1-7])g\.(\d{1,3})gb", re.IGNORECASE)
"""A slice of a GPU by its profile: ``h100-sxm 1g.10gb``."""
MIG_FAMILIES = ("nvidia-ampere-ga100", "nvidia-hopper-gh100", "nvidia-blackwell-gb100")
MIG_SLICES, MIG_EIGHTHS = 7, 8
"""Slices of the cores, and of memory and last cache (Multi-Instance GPU User Guide of NVIDIA's)."""
MIG_ROUNDED = 0.01
"""By how much a profile's name, in whole GB, may differ beyond rounding from its share of what a card is sold with: a
B300 of 270 GB has 2g.67gb and 7g.269gb (`nvidia-smi mig -lgip`)."""
MIG_CORES: Mapping[int, Mapping[int, int]] = MappingProxyType(
    {
        56: MappingProxyType({1: 14, 2: 28, 4: 56}),
        108: MappingProxyType({1: 14, 2: 28, 3: 42, 4: 56, 7: 98}),
        132: MappingProxyType({1: 16, 2: 32, 3: 60, 4: 64, 7: 132}),
    }
)
"""Cores of the slices of an A30, an A100 and an H100 by all that they have (the guide, and `nvidia-smi mig -lgip`); of
others whole pairs in proportion."""
MIG_PAIRS = ((1, 1), (1, 2), (2, 2), (3, 4), (4, 4), (7, 8))
"""Slices of the cores with the eighths of the memory that they are sold with; an A30's have twice as many."""


def _slice(whole: Machine, cores: int, capacity: float) -> Machine:
    """An instance of so many of seven slices of the cores, and the eighths of the memory that hold its bytes.

    Power and price are shared out by slices, as where all of a card are at work alike: its cap holds for all of them,
    and no meter tells them apart (Vamja et al., On the Partitioning of GPU Power among Multi-Instances, arXiv
    2501.17752). Slices are joined by no link of the card's (the guide: no peer-to-peer between instances, over NVLink
    or PCIe). What it states is its own, as that of a machine of a file.
    Raises InputError where the GPU has no such slices, or less memory.
    """
    from slipstick.hwmodels.machine import CARD, Machine

    main = whole.memory[whole.main_memory].capacity
    profile = f"{cores}g.{capacity / 1e9:g}gb"
    few = MIG_SLICES if whole.cores > 56 else 4
    sold = MIG_PAIRS if few == MIG_SLICES else [(a, 2 * a) for a in (1, 2, 4)]
    named = {pair: math.floor(main * pair[1] / MIG_EIGHTHS / 1e9 + 0.5) * 1e9 for pair in sold}
    near = (
        b for (a, b), size in named.items()
        if a == cores and (size == capacity or abs(capacity * MIG_EIGHTHS / (main * b) - 1) < MIG_ROUNDED)
    )  # fmt: skip
    if whole.family not in MIG_FAMILIES or (eighths := next(near, 0)) == 0:
        known = ", ".join(f"{a}g.{size / 1e9:g}gb" for (a, _), size in named.items())
        want = f"want {known}" if whole.family in MIG_FAMILIES else "want an A30, A100, H100, H200, B200 or alike"
        raise InputError(f"{whole.name!r} has no slice {profile}: {want}")
    share, counts = eighths / MIG_EIGHTHS, MIG_CORES.get(whole.cores, {})
    count = counts.get(cores) or 2 * cores * (whole.cores // (2 * MIG_SLICES))
    changed: dict[str, Any] = {"name": f"{whole.name}, slice {profile}", "cores": count}
    for level, memory in whole.memory.items():
        if memory.per == "machine":
            rates = {"capacity": memory.capacity, "bandwidth": memory.bandwidth}
            changed |= {f"memory.{level}.{field}": value * share for field, value in rates.items() if value}
    made = whole.part(cores / few).using({**changed, f"memory.{whole.main_memory}.capacity": capacity})
    kept = {path: text for path, text in made.sources.items() if path.partition(".")[0] != "links"}
    shared = {name: f"{whole.source_of(name)} ({cores} of {few} slices)" for name in CARD if whole.get(name)}
    return Machine.model_construct(
        **{**dict(made), "links": type(made.links)(), "sources": type(made.sources)({**kept, **shared})}
    )


EXAMPLES = ("h100-sxm", "epyc-9654", "tpu-v5e", "gaudi3")
"""A GPU, a CPU, a TPU and an array of cells."""


def _way_on(near: Sequence[str]) -> str:
    """What to do about a machine that does not ship: the nearest names, or one of each kind, and an own file."""
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; one of each kind: {', '.join(EXAMPLES)}."
    base = near[0] if near else EXAMPLES[0]
    return f"{hint} Yours: --on mine.yaml, a file with the lines 'name: mine', 'extends: {base}' and what differs"


def machine_of_device(device: str) -> Machine | None:
    """The shipped machine that a profiler calls by this name ("NVIDIA A100-SXM4-80GB"); None where there is none."""
    match = name_of_device(device)
    return _shipped(match) if match else None


def name_of_device(device: str) -> str | None:
    """The name, as `machine` takes it, of the machine that a profiler calls by this name; None where there is none."""
    return within(device, aliases())
