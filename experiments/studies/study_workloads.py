"""What a study names: files found from its folder, workloads of every kind that an estimate takes."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import named_here
from slipstick.experiments.calibrate.measured_argument import known_time
from slipstick.experiments.question.user_code import is_own_program, own_program
from slipstick.workloads.catalog import MATRIX_FILES, REQUESTS, STEPS, TRAINING
from slipstick.workloads.catalog import workload as workload_by_name
from slipstick.workloads.graph.workload import Workload

BEFORE = ("pagerank:", REQUESTS, TRAINING, *STEPS)
"""Words that may stand before a file."""
FILES = (".json", ".yaml", ".yml", ".csv", ".gguf", *MATRIX_FILES)


def study_workload(
    name: str, folder: Path, trusted: Collection[str], inputs: Sequence[str] = (), train: str | None = None
) -> Workload:
    """A workload that a study in `folder` names: one that ships, a file, or code that the user named himself.

    Raises InputError where there is none, or the file names code that the user does not.
    """
    if is_own_program(name):
        return own_program(named_here(name, trusted, "workload"), inputs, train)
    if inputs or train:
        raise InputError(f"workload {name!r}: input and train are of a torch program, FILE.py:FUNCTION")
    return workload_by_name(located(name, folder))


def located(name: str, folder: Path) -> str:
    """The path of a file that a study in `folder` names; another name stays.

    Examples
    --------
    >>> located("pagerank:web.mtx.gz", Path("mine")), located("gpt2", Path("mine"))
    ('pagerank:mine/web.mtx.gz', 'gpt2')
    """
    before, path = _parts(name)
    return f"{before}{folder / path}" if path else name


def relative(name: str, folder: Path, to: Path) -> str:
    """A file that a study in `folder` names, as one in the folder `to` has to; another name stays."""
    before, path = _parts(name)
    return f"{before}{os.path.relpath((folder / path).resolve(), to)}" if path else name


def known_from(name: str | None, folder: Path) -> str | None:
    """What was measured as a study in `folder` says it: a file from there, or words as they are; None without."""
    if name is None:
        return None
    words = "=" in name or known_time(name) is not None
    return name if words and not (folder / name).exists() else str(folder / name)


def known_in(name: str | None, folder: Path, to: Path) -> dict[str, str]:
    """The line that says what was measured, of a study in `folder`, where it is written to the folder `to`."""
    if name is None:
        return {}
    return {"known": os.path.relpath((folder / name).resolve(), to) if (folder / name).exists() else name}


def _parts(name: str) -> tuple[str, str]:
    """What stands before a file, and the file; no file where the name is none: code is found from where it is run."""
    before = next((word for word in BEFORE if name.startswith(word)), "")
    path = name.removeprefix(before)
    is_file = path.removesuffix(".gz").endswith(FILES) or ("/" in path and not path.startswith("imported/"))
    return before, path if is_file and not is_own_program(name) else ""
