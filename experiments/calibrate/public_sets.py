"""Public measurements by set: where they come from, which scoreboards read them, and whether the files are those."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from slipstick.common.errors import InputError
from slipstick.common.opener import opened
from slipstick.common.readers import read_yaml, unknown_name
from slipstick.common.records import Record, validated

LARGEST = 2_000_000_000
"""Bytes of one unpacked file."""
FILE = Path(__file__).with_name("public_sets.yaml")
State = Literal["here", "partly here", "differs", "missing"]


class PublicSet(Record):
    """One set of public measurements; see the head of public_sets.yaml.

    `files`: patterns below the data folder; a folder stands for all in it.
    `sources`: repositories as owner/name, with the commit after an @ where it is known.
    `measured`: columns of measurements in its tables: each is blank or above zero.
    `count`, `digest`: files of the set, and the SHA-256 of their digests and paths, as the scoreboards' tables were
        made from them.
    """

    name: str
    what: str
    files: tuple[str, ...]
    sources: tuple[str, ...]
    licence: str
    scoreboards: tuple[str, ...]
    measured: tuple[str, ...] = ()
    count: int
    digest: str

    def paths(self, folder: Path) -> list[Path]:
        """The set's files that lie below a folder, by relative path."""
        result = [path for pattern in self.files for path in folder.glob(pattern)]
        files = [one for path in result for one in ([path] if path.is_file() else path.rglob("*")) if one.is_file()]
        return sorted({path.relative_to(folder) for path in files}, key=Path.as_posix)

    def state(self, folder: Path | None) -> State:
        """Whether the files below a folder are those that the scoreboards' tables were made from."""
        paths = self.paths(folder) if folder else []
        if folder is None or not paths:
            return "missing"
        if len(paths) < self.count:
            return "partly here"
        return "here" if digest(folder, paths) == self.digest else "differs"


@cache
def public_sets() -> tuple[PublicSet, ...]:
    """All sets, in the order of the list."""
    return tuple(validated(PublicSet, entry, str(FILE)) for entry in _entries())


def _entries() -> Sequence[object]:
    result = read_yaml(FILE)
    if not isinstance(result, list):
        raise InputError(f"{FILE}: want a list of sets")
    return result


def public_set(name: str) -> PublicSet:
    """A set by its name.

    Raises InputError where there is none.
    """
    sets = {one.name: one for one in public_sets()}
    if name not in sets:
        raise unknown_name("set of public measurements", name, sorted(sets))
    return sets[name]


def digest(folder: Path, paths: Sequence[Path]) -> str:
    """SHA-256 of the lines "SHA-256 of a file's content (unpacked), two spaces, its path", in the order given."""
    whole = hashlib.sha256()
    for path in paths:
        content = hashlib.sha256()
        with opened(folder / path, LARGEST) as stream:
            while block := stream.read(1 << 20):
                content.update(block)
        whole.update(f"{content.hexdigest()}  {path.as_posix()}\n".encode())
    return whole.hexdigest()
