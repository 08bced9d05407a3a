"""What one case is: a reader with a broken file, or a command line with a broken option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.attack.edits import ALL_EDITS, EVIL, PLACES, Edit, broken, put
from tests.attack.readers import READERS


@dataclass(frozen=True)
class FileCase:
    """A seed, edited, given to a reader."""

    reader: str
    seed: str
    edits: tuple[Edit, ...]


def file_cases(names: Sequence[str] = tuple(READERS)) -> SearchStrategy[FileCase]:
    """Any reader with any of its seeds and any edits."""
    pairs = [(name, seed) for name in names for seed in READERS[name].seeds]
    return st.builds(lambda pair, edits: FileCase(pair[0], pair[1], tuple(edits)), st.sampled_from(pairs), ALL_EDITS)


def read_case(case: FileCase, folder: Path, seeds: Path) -> str | None:
    """Run one case; bad input is the good answer, anything else that is raised is the finding."""
    from slipstick.common.errors import InputError

    (folder / ".seeds").symlink_to(seeds)
    place, content = seed_content(seeds, case.seed)
    path = folder / place
    if case.edits[0].kind in PLACES:
        put(path, case.edits[0].kind, content)
    else:
        path.write_bytes(broken(content, list(case.edits), case.seed))
    (folder / "evil.py").write_text(EVIL)
    before = _bytes(path)
    try:
        READERS[case.reader].call(path)
    except InputError as error:
        if notes := _said(error):
            return notes
    if case.reader not in MOVES and _bytes(path) != before:
        return "the file that was read is changed"
    return None


MOVES = ("load",)
"""Puts the file to its place in a store, and is tried there."""


def _bytes(path: Path) -> bytes | None:
    """The content of a regular file; None for anything else."""
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None


def _said(error: Exception) -> str | None:
    return "an error of several lines" if "\n" in str(error).strip() else None


def seed_content(seeds: Path, name: str) -> tuple[str, bytes]:
    """Name and content of a seed."""
    if name == "store/part":
        path = sorted((seeds / "store" / "results").iterdir())[0]
        return path.name, path.read_bytes()
    path = seeds / name
    return path.name, path.read_bytes()


def shown(case: Any) -> str:
    """A case as text that `python -m tests.attack --replay` takes."""
    return repr(case)
