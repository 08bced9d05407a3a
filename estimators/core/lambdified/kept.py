"""Formulas kept from run to run as data (see `tape`): never source, never pickle.

They lie in a private folder of the user's cache (SLIPSTICK_CACHE, else XDG_CACHE_HOME/slipstick, else
~/.cache/slipstick; SLIPSTICK_CACHE=off keeps nothing), in one file for each kind of model and form of machine. A file
counts only for the very sources that it was made by, and as it was written: its digest stands in it. What cannot be
read, was changed, or is not the user's own, is as if it were not there; where nothing can be written, nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from slipstick.estimators.core.lambdified.evaluable import Evaluable
from slipstick.hwmodels.files.opener import MEGABYTE
from slipstick.hwmodels.files.readers import InputError, atomic_write, read_json

VARIABLE = "SLIPSTICK_CACHE"
FORMAT = 2
"""Of the files: the digest of their content stands in them since 2."""
LARGEST = 16 * MEGABYTE
MOST_FILES = 200
ROOT = Path(__file__).resolve().parents[3]
LAYERS = ("hwmodels", "workloads", "estimators")


class Formulas:
    """The formulas of one model on machines of one form, by the key of the operations.

    Parameters
    ----------
    identity
        Text that says all that decides the formulas beside the key; None keeps them for this process alone.
    """

    def __init__(self, identity: str | None = None) -> None:
        self._path = None if identity is None else _path(identity)
        self._known: dict[str, Evaluable] | None = None
        self._new = False

    def get(self, key: str, build: Callable[[], Evaluable]) -> Evaluable:
        """The formula of a key; built where it is not known yet."""
        if self._known is None:
            self._known = _read(self._path) if self._path is not None else {}
        if key not in self._known:
            self._known[key] = build()
            self._new = True
        return self._known[key]

    def keep(self) -> None:
        """Write what is new, whole or not at all; quietly nothing where that cannot be."""
        if not self._new or self._path is None or not self._known:
            return
        self._new = False
        try:
            _write(self._path, dict(self._known))  # other threads may add to it
        except (OSError, InputError, ValueError):
            self._path = None


def folder() -> Path | None:
    """Where formulas are kept; None where that is turned off or there is no home."""
    named = os.environ.get(VARIABLE, "")
    if named:
        return None if named == "off" else Path(named) / "formulas"
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base and Path(base).is_absolute():
        return Path(base) / "slipstick" / "formulas"
    try:
        return Path.home() / ".cache" / "slipstick" / "formulas"
    except RuntimeError:
        return None


def _path(identity: str) -> Path | None:
    there = folder()
    if there is None:
        return None
    digest = hashlib.sha256(f"{_sources()} {identity}".encode()).hexdigest()
    return there / f"{digest[:32]}.json"


@cache
def _sources() -> str:
    """What tells these sources from any others: names, lengths and times of the files that make formulas."""
    seen = hashlib.sha256()
    spec = find_spec("sympy")
    files = [
        os.path.join(place, name)  # noqa: PTH118 - a few hundred at every start
        for layer in LAYERS
        for place, _, names in os.walk(ROOT / layer)
        for name in names
        if name.endswith(".py")
    ]
    if spec is not None and spec.origin:
        files.append(str(Path(spec.origin).with_name("release.py")))
    for path in sorted(files):
        status = os.stat(path)  # noqa: PTH116
        seen.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return seen.hexdigest()


def _read(path: Path) -> dict[str, Evaluable]:
    try:
        if not _private(path.parent) or path.is_symlink() or not path.is_file():
            return {}
        document = read_json(path, LARGEST)
        formulas = document["formulas"]
        if document["format"] != FORMAT or document["digest"] != _digest(path, _text(formulas)):
            return {}
        return {str(key): Evaluable.of(data) for key, data in formulas.items()}
    except (OSError, InputError, AttributeError, KeyError, TypeError, ValueError):
        return {}


def _text(formulas: Mapping[str, object]) -> str:
    return json.dumps(formulas, separators=(",", ":"), allow_nan=False)


def _digest(path: Path, text: str) -> str:
    """Of the formulas and of what they are kept for, which is the name of their file: a changed number is seen."""
    return hashlib.sha256(f"{FORMAT} {path.name} {text}".encode()).hexdigest()


def _private(place: Path) -> bool:
    """Whether a folder is the user's own and nobody else may write to it."""
    status = place.stat()
    ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return ours and stat.S_ISDIR(status.st_mode) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _write(path: Path, known: dict[str, Evaluable]) -> None:
    place = path.parent
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _private(place):
        return
    text = _text({key: one.data() for key, one in known.items()})
    if len(text) > LARGEST - MEGABYTE:
        return
    with atomic_write(path) as stream:
        stream.write(f'{{"format":{FORMAT},"digest":"{_digest(path, text)}","formulas":{text}}}')
    files = sorted(place.glob("*.json"), key=lambda one: one.stat().st_mtime)
    for old in files[:-MOST_FILES]:
        old.unlink(missing_ok=True)
