"""The shipped machines: one YAML file each, every number with its source."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from slipstick.hwmodels.catalog.names import closest, exact, within
from slipstick.hwmodels.files.errors import InputError
from slipstick.hwmodels.files.opener import head
from slipstick.hwmodels.machine import Machine, load_machine

FOLDER = Path(__file__).parent
HEAD = 4096
"""Characters of a file within which its aliases stand."""
_ALIASES = re.compile(r"^aliases: *\[(.*)\]$", re.MULTILINE)


def machine_names() -> list[str]:
    """Names of the shipped machines."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def aliases() -> dict[str, tuple[str, ...]]:
    """Machine -> its own name and its `aliases`, read off the files without building the machines."""
    found = {}
    for name in machine_names():
        line = _ALIASES.search(head(FOLDER / f"{name}.yaml", HEAD))
        written = [part.strip().strip("\"'") for part in line[1].split(",")] if line else []
        found[name] = (name, *filter(None, written))
    return found


@cache
def _shipped(name: str) -> Machine:
    return load_machine(FOLDER / f"{name}.yaml")


def machine(name: str) -> Machine:
    """A shipped machine by name or alias ("h100-sxm", "H100", "A100-80GB"), or your own by the path of its YAML file.

    Raises
    ------
    InputError
        Where the name is unknown, or the file is broken.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return load_machine(name)
    known = machine_names()
    found = name if name in known else exact(name, aliases())
    if found is None:
        near = closest(name, aliases())
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise InputError(f"unknown machine {name[:60]!r}{hint} (known: {', '.join(known)})")
    return _shipped(found)


def machine_of_device(device: str) -> Machine | None:
    """The shipped machine that a profiler calls by this name ("NVIDIA A100-SXM4-80GB"); None where there is none."""
    found = within(device, aliases())
    return _shipped(found) if found else None
