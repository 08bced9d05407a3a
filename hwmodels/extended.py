"""A machine file that states only what differs from a shipped machine: ``extends: h100-sxm``.

Text is read and merged before anything is validated, so a file that extends another is checked as if it were written
out. A name in a file finds only what ships.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstick.hwmodels.files.readers import InputError, read_yaml, require_mapping, unknown_name

FOLDER = Path(__file__).parent / "catalog"
"""Where the files of the shipped machines lie."""
WORD = "extends"
OF_ITS_OWN = ("name", "description", "aliases", "price")
"""What another machine does not share: its names and what it costs."""
OTHER_CLOCKS = ("base_clock", "peak_clock")


def extended(document: Mapping[str, Any], path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document of a machine with what it takes over from the shipped machine that it extends, if any.

    Mappings are merged name by name; numbers, texts and lists replace what was there; ``null`` takes a name away. A
    bandwidth of a level replaces its bytes a cycle, and the other way round. Sources of what is replaced go as well.

    Raises
    ------
    InputError
        Where no machine of that name ships, a name is taken away that is not there, or main memory would move.
    """
    if WORD not in document:
        return dict(document)
    base, name = _shipped(document[WORD], path)
    changes = {key: value for key, value in document.items() if key not in (WORD, "sources")}
    inherited = {key: value for key, value in base.items() if key not in (*OF_ITS_OWN, "sources")}
    if "clock" in changes:
        inherited = {key: value for key, value in inherited.items() if key not in OTHER_CLOCKS}
    made = _merged(inherited, changes, "", path)
    _check_main_memory(base, changes, made, path, name)
    sources = require_mapping(document.get("sources", {}), path, "sources")
    made["sources"] = {**_kept_sources(base, made, changes, name), **_stated_sources(changes, sources), **sources}
    return made


def _shipped(name: Any, path: str | os.PathLike[str]) -> tuple[Mapping[str, Any], str]:
    known = sorted(file.stem for file in FOLDER.glob("*.yaml"))
    if not isinstance(name, str) or name not in known:
        raise InputError(f"{path}: {WORD}: {unknown_name('shipped machine', str(name)[:60], known)}")
    file = FOLDER / f"{name}.yaml"
    return require_mapping(read_yaml(file), file, "the document"), name


def _merged(
    base: Mapping[str, Any], changes: Mapping[str, Any], above: str, path: str | os.PathLike[str]
) -> dict[str, Any]:
    made = dict(base)
    for name, value in changes.items():
        place = f"{above}{name}"
        if value is None:
            if name not in made:
                raise InputError(f"{path}: {place}: null takes away what the extended machine has, and it has none")
            del made[name]
        elif isinstance(value, Mapping) and isinstance(made.get(name), Mapping):
            made[name] = _merged(made[name], value, f"{place}.", path)
        else:
            made[name] = value
    for stated, other in (("bandwidth", "bytes_per_cycle"), ("bytes_per_cycle", "bandwidth")):
        if above.startswith("memory.") and stated in changes and other not in changes:
            made = {key: value for key, value in made.items() if key not in (other, "bandwidth_by_cores")}
    return made


def _check_main_memory(
    base: Mapping[str, Any],
    changes: Mapping[str, Any],
    made: Mapping[str, Any],
    path: str | os.PathLike[str],
    name: str,
) -> None:
    """Raise InputError where a new level would stand behind the main memory that is there."""
    levels = made.get("memory")
    if not levels or not isinstance(changes.get("memory"), Mapping):
        return
    main, last = list(base["memory"])[-1], list(levels)[-1]
    if main in levels and last != main:
        raise InputError(
            f"{path}: memory.{last} would make {main}, the main memory of {name}, a cache: change memory.{main}, or "
            f"take it away with {main}: null"
        )


def _kept_sources(
    base: Mapping[str, Any], made: Mapping[str, Any], changes: Mapping[str, Any], name: str
) -> dict[str, str]:
    """Sources of what was taken over."""
    changed = set(_paths(changes, ""))
    kept: dict[str, str] = {}
    for paths, text in base.get("sources", {}).items():
        for one in (part.strip() for part in str(paths).split(",")):
            if one not in changed and _is_there(made, one):
                kept[one] = f"{text} (as {name})"
    return kept


def _stated_sources(changes: Mapping[str, Any], sources: Mapping[str, Any]) -> dict[str, str]:
    """A source for each number that the file states and gives none for."""
    given = {part.strip() for paths in sources for part in str(paths).split(",")}
    stated = (path for path in _paths(changes, "") if path.partition(".")[0] not in (*OF_ITS_OWN, "family"))
    return {path: "this file, which names no source" for path in stated if not given & set(_heads(path))}


def _heads(path: str) -> list[str]:
    """memory, memory.HBM3, memory.HBM3.bandwidth of the last."""
    parts = path.split(".")
    return [".".join(parts[: index + 1]) for index in range(len(parts))]


def _paths(value: Any, above: str) -> list[str]:
    if not isinstance(value, Mapping):
        return [above] if value is not None else []
    return [path for name, one in value.items() for path in _paths(one, f"{above}.{name}" if above else str(name))]


def _is_there(document: Mapping[str, Any], path: str) -> bool:
    value: Any = document
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return True
