"""A machine file that states only what differs from another machine: ``extends: h100-sxm``, ``extends: base.yaml``.

Text is read and merged before anything is validated, so a file that extends another is checked as if it were written
out. A name in a file finds only what ships, a path only what lies in the file's own folder or below.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import read_yaml, require_mapping, unknown_name
from slipstick.common.units import parse_multiple

FOLDER = Path(__file__).parent / "catalog"
"""Where the files of the shipped machines lie."""
WORD = "extends"
WORDS = ("name", "description", "family")
"""Fields that hold words, of which ``2x`` may be one."""
OF_ITS_OWN = ("name", "description", "aliases", "price")
"""What another machine does not share: its names and what it costs."""
MOST_EXTENDED = 8
"""Files that may extend one another before a shipped machine, or one that is written out, is reached."""
FAMILY = "family"
RATED = ("clock", "cores", "memory", "power")
"""What a board is rated for, whatever clock, cores, bandwidth and cap it is used with."""
RATES = ("bandwidth", "bytes_per_cycle")
"""In either of which a level of memory states its bandwidth."""
OTHER_CLOCKS = ("base_clock", "peak_clock", "rated_clock")
LONGEST_SHOWN = 60
"""Letters of what a file says that stand in a message."""
TABLES = ("engines", "links", "memory", "power", "runtime", "sources")
"""Fields of a machine that hold named fields, where they are stated: what a file changes and keeps of them is read by
name before the whole is validated."""


Documents = tuple[dict[str, Any], dict[str, Any]]


def extended(document: Mapping[str, Any], path: str | os.PathLike[str], below: Sequence[Path] = ()) -> Documents:
    """The document of a machine with what it takes over from the machine that it extends, and what its board is rated.

    The second holds the fields `RATED` of the machine that is extended in the end, which a file changes as a what-if
    does, but as the file states them those levels of memory that are new or state another kind of rate; nothing where
    the file extends none, or states a family, by which it is a board of its own.

    Mappings are merged name by name; numbers, texts and lists replace what was there, ``1.2x`` is 1.2 times what stands
    there, and ``null`` takes a name away. A bandwidth of a level replaces its bytes a cycle, and the other way round.
    Sources of what is replaced go as well.

    Parameters
    ----------
    below
        The files that extend this one, where it is read for their sake.

    Raises
    ------
    InputError
        Where no machine of that name ships and no file is there, files extend one another in a circle or too deep, a
        field of the machine that is extended is not of its type, a name is taken away or multiplied that is not there,
        a multiple is no finite number, main memory would move, or a board of several dies would have others.
    """
    if WORD not in document:
        return dict(document), {}
    (base, board), name = _extends(document[WORD], path, below)
    _check_tables(document, path)
    changes = {key: value for key, value in document.items() if key not in (WORD, "sources")}
    inherited = {key: value for key, value in base.items() if key not in (*OF_ITS_OWN, "sources")}
    of_its_own = FAMILY in changes
    if "clock" in changes and of_its_own:
        inherited = {key: value for key, value in inherited.items() if key not in OTHER_CLOCKS}
    made = _merged(inherited, changes, "", path)
    _check_main_memory(base, changes, made, path, name)
    if not of_its_own and (dies := _dies(base)) != 1 and _dies(made) != dies:
        raise InputError(
            f"{path}: dies: {name} has {dies}, and a part of it has its share of cores, memory and power: "
            f"extend the whole and give --set machine.dies.count={_dies(made)}, or state a family of its own"
        )
    sources = require_mapping(document.get("sources", {}), path, "sources")
    made["sources"] = {**_cached_sources(base, made, changes, name), **_stated_sources(changes, sources), **sources}
    rated = {key: base[key] for key in RATED if key in base and made.get(key)} | board
    if levels := rated.pop("memory", None):
        now = made.get("memory") or {}
        same = [name for name in now if name in levels and _rates(levels[name]) == _rates(now[name])]
        rated["memory"] = {**now, **{name: levels[name] for name in same}}
    return made, {} if of_its_own else rated


def _dies(document: Mapping[str, Any]) -> Any:
    """The count of dies that a document states; the default of `Dies` where it states none."""
    dies = document.get("dies")
    return dies.get("count", 1) if isinstance(dies, Mapping) else 1


def _rates(level: Any) -> list[str]:
    """How a level of memory states its bandwidth."""
    return [rate for rate in RATES if isinstance(level, Mapping) and rate in level]


def _extends(name: Any, path: str | os.PathLike[str], below: Sequence[Path]) -> tuple[Documents, str]:
    """The documents of the machine that a file extends (see `extended`), and its name."""
    if not (isinstance(name, str) and name.endswith((".yaml", ".yml"))):
        return _shipped(name, path)
    where = f"{path}: {WORD}: {name[:LONGEST_SHOWN]!r}"
    try:
        here = Path(path).resolve()
        there = (here.parent / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, a NUL byte, a name that is too long
        why = (isinstance(error, OSError) and error.strerror) or f"{error}"[:LONGEST_SHOWN]
        raise InputError(f"{where} names no file: {why}") from None
    if not there.is_relative_to(here.parent):
        raise InputError(f"{where}: want a file in the folder of this one, or below it")
    chain = (*below, here)
    if there in chain:
        circle = " -> ".join(one.name for one in (*chain[chain.index(there) :], there))
        raise InputError(f"{where}: files extend one another in a circle: {circle}")
    if len(chain) >= MOST_EXTENDED:
        raise InputError(f"{path}: {WORD}: {len(chain)} files extend one another: want at most {MOST_EXTENDED}")
    if not os.path.exists(there):  # noqa: PTH110 - Path.exists raises where a name is too long
        raise InputError(f"{where}: no such file")
    document = require_mapping(read_yaml(there), there, "the document")
    base = extended(document, there, chain)
    _check_tables(base[0], there)
    return base, str(document.get("name") or there.stem)[:LONGEST_SHOWN]


def _check_tables(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Raise InputError where a field that holds named fields holds something else; null takes one away."""
    for name in TABLES:
        if document.get(name) is not None:
            require_mapping(document[name], path, name)


def _times(factor: float, stated: Any, where: str) -> Any:
    """A number of a file, with or without its unit, times a factor; whole numbers stay whole where they can."""
    match = _QUANTITY.fullmatch(stated) if isinstance(stated, str) else None
    if match is None and (isinstance(stated, bool) or not isinstance(stated, (int, float))):
        raise InputError(f"{where}: the extended machine states no number there")
    try:
        made = factor * float(match[1] if match else stated)
    except OverflowError:  # a whole number beyond any float
        made = math.inf
    if not math.isfinite(made):
        shown = str(stated)[:LONGEST_SHOWN]
        raise InputError(f"{where}: times {shown}, which the extended machine states, is no finite number")
    if match:
        return f"{made!r} {match[2]}"
    return round(made) if isinstance(stated, int) and made == round(made) else made


_QUANTITY = re.compile(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?)\s*(\S.*?)\s*")


def _shipped(name: Any, path: str | os.PathLike[str]) -> tuple[Documents, str]:
    known = sorted(file.stem for file in FOLDER.glob("*.yaml"))
    if not isinstance(name, str) or name not in known:
        raise InputError(f"{path}: {WORD}: {unknown_name('shipped machine', str(name)[:LONGEST_SHOWN], known)}")
    file = FOLDER / f"{name}.yaml"
    return extended(require_mapping(read_yaml(file), file, "the document"), file), name


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
        elif (factor := parse_multiple(value)) is not None and above + name not in WORDS:
            made[name] = _times(factor, made.get(name), f"{path}: {place} = {value}")
        else:
            made[name] = value
    for stated, other in (RATES, RATES[::-1]):
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
    if not levels or not base.get("memory") or not isinstance(changes.get("memory"), Mapping):
        return
    main, last = list(base["memory"])[-1], list(levels)[-1]
    if main in levels and last != main:
        raise InputError(
            f"{path}: memory.{last} would make {main}, the main memory of {name}, a cache: change memory.{main}, or "
            f"take it away with {main}: null"
        )


def _cached_sources(
    base: Mapping[str, Any], made: Mapping[str, Any], changes: Mapping[str, Any], name: str
) -> dict[str, str]:
    """Sources of what was taken over."""
    changed = set(_paths(changes, ""))
    kept: dict[str, str] = {}
    for paths, text in (base.get("sources") or {}).items():
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
