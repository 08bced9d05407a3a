"""Data that is kept from run to run in the user's cache: JSON, never source, never pickle.

It lies in folders of our own, named after the format, below what the user names (SLIPSTICK_CACHE, else
XDG_CACHE_HOME/slipstick, else ~/.cache/slipstick; SLIPSTICK_CACHE=off keeps nothing); what else lies there is never
touched. A file counts only for the very sources that it was made by, and as it was written: its digest stands in it.
What cannot be read, was changed, or is not the user's own, is as if it were not there; where nothing can be written,
or others may take away what was, nothing is kept. Files are written whole or not at all, so that writers at the same
time do no harm.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, head, read_private
from slipstick.common.readers import parse_json
from slipstick.common.writer import write_text

VARIABLE = "SLIPSTICK_CACHE"
FORMAT = "slipstick-kept-1"
"""Of the files, and the name of the folder in which all of them lie."""
HEADER = f'{{"format":"{FORMAT}",'
"""With it each file begins."""
NAME = re.compile(r"[0-9a-f]{32}\.json")
IDENTITY = 20
"""Of these digits, those for what the file is kept for; the others are for the sources that made it."""
LARGEST = 16 * MEGABYTE
MOST_FILES = 200
"""Of ours in a folder; the oldest go."""
ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("common", "hwmodels", "workloads", "estimators")
FITS = "fitted"
"""The folder whose JSON files hold fits, which are amounts of compiled functions."""
Kind = Literal["formulas", "functions", "workloads"]


def cache_folder(kind: Kind) -> Path | None:
    """Where a kind of data is kept; None where that is turned off or there is no home."""
    named = os.environ.get(VARIABLE, "")
    if named:
        return None if named == "off" else Path(named) / FORMAT / kind
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base and Path(base).is_absolute():
        return Path(base) / "slipstick" / FORMAT / kind
    try:
        return Path.home() / ".cache" / "slipstick" / FORMAT / kind
    except RuntimeError:
        return None


def cache_path(kind: Kind, identity: str) -> Path | None:
    """The file of what such a text says with these sources; None where nothing is kept."""
    there = cache_folder(kind)
    if there is None:
        return None
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return there / f"{digest[:IDENTITY]}{_sources()[: 32 - IDENTITY]}.json"


def identity_of(path: Path) -> str:
    """What the name of such a file says of the text that it is kept for, whatever the sources."""
    return path.name[:IDENTITY]


@cache
def _sources() -> str:
    """What tells these sources from any others: names, lengths and times of the files that make what is kept."""
    seen = hashlib.sha256()
    for path in source_files():
        status = os.stat(path)  # noqa: PTH116
        seen.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return seen.hexdigest()


def source_files() -> list[str]:
    """The files that make what is kept: the layers below experiments, their fits, and last the release of sympy.

    In an installed wheel they come in the same order as in the checkout that it was built from.
    """
    spec = find_spec("sympy")
    files = sorted(
        os.path.join(place, name)  # noqa: PTH118 - a few hundred at every start
        for layer in LAYERS
        for place, _, names in os.walk(ROOT / layer)
        for name in names
        if name.endswith(".py") or (name.endswith(".json") and place.endswith(FITS))
    )
    if spec is not None and spec.origin:
        files.append(str(Path(spec.origin).with_name("release.py")))
    return files


def read_cached(path: Path | None) -> Any:
    """What was kept there; None where nothing is that counts."""
    try:
        if path is None or not _is_safe(path.parent):
            return None
        document = parse_json(read_private(path, LARGEST).decode(), path)
        content = document["content"]
        if document["format"] != FORMAT or document["digest"] != _digest(path, _text(content)):
            return None
        return content
    except (OSError, InputError, AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return None


def write_cached(path: Path, content: Any) -> bool:
    """Keep it, whole or not at all; False where that cannot be, or was turned off after the path was made."""
    try:
        text = _text(content)
        if os.environ.get(VARIABLE) == "off" or len(text) > LARGEST - MEGABYTE or not _is_made(path.parent):
            return False
        write_text(path, f'{HEADER}"digest":"{_digest(path, text)}","content":{text}}}')
        _prune(path.parent)
    except (OSError, InputError, RuntimeError, TypeError, ValueError):
        return False
    return True


def _text(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def _digest(path: Path, text: str) -> str:
    """Of the content and of what it is kept for, which is the name of its file: a changed number is seen."""
    return hashlib.sha256(f"{FORMAT} {path.name} {text}".encode()).hexdigest()


def _prune(place: Path) -> None:
    """Remove the oldest files beyond `MOST_FILES`, of those alone that were written here."""
    there = [(one.lstat(), one) for one in place.iterdir() if NAME.fullmatch(one.name)]
    files = sorted((status.st_mtime, one) for status, one in there if stat.S_ISREG(status.st_mode))
    for _, old in files[:-MOST_FILES]:
        if head(old, len(HEADER)) == HEADER:
            old.unlink(missing_ok=True)


def _is_made(place: Path) -> bool:
    """Whether a folder is there, or was made, in which something may be kept."""
    ours = place.parent
    root = ours.parent
    if not _is_out_of_reach(root):
        return False
    for folder in [one for one in (root, *root.parents) if not one.is_dir()][::-1]:
        folder.mkdir(mode=0o700, exist_ok=True)
    for folder in (ours, place):
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_own(folder):
            return False
    return True


def _is_safe(place: Path) -> bool:
    """Whether what lies in a folder can have been written by the user alone."""
    return _is_own(place) and _is_own(place.parent) and _is_out_of_reach(place.parent.parent)


def _is_own(folder: Path) -> bool:
    """Whether it is a folder, no link to one, of the user, and closed to everybody else."""
    status = folder.lstat()
    owned = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return owned and stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) & 0o777 == 0o700


def _is_out_of_reach(root: Path) -> bool:
    """Whether not just anyone may rename what lies in the folder that the user names, or any that it lies in.

    That folder may be a link; in one that everybody may write to and whose sticky bit is set (/tmp), only the owner
    of a file may rename it.
    """
    named, real = root.absolute(), root.resolve()
    folders = {named, *named.parents, real, *real.parents}
    modes = [folder.stat().st_mode for folder in folders if folder.exists()]
    return not any(mode & stat.S_IWOTH and not mode & stat.S_ISVTX for mode in modes)
