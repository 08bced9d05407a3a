"""The shipped machines: one YAML file each, every number with its source."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from slipstick.hwmodels.files.readers import unknown_name
from slipstick.hwmodels.machine import Machine, load_machine

FOLDER = Path(__file__).parent / "catalog"


def machine_names() -> list[str]:
    """Names of the shipped machines."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def _shipped(name: str) -> Machine:
    return load_machine(FOLDER / f"{name}.yaml")


def machine(name: str) -> Machine:
    """A shipped machine by name, or one of your own by the path of its YAML file.

    Raises
    ------
    InputError
        Where the name is unknown, or the file is broken.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return load_machine(name)
    if name not in machine_names():
        raise unknown_name("machine", name, machine_names())
    return _shipped(name)
