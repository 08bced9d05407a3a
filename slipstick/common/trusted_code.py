"""Names of code of the user's own: a type that only the command line makes, so that no file's text is imported."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError

_ALLOWED: ContextVar[Collection[str] | None] = ContextVar("allowed", default=None)


class TrustedName(str):
    """A name that the user typed (`parser=TrustedName` of an option): ``MODULE:ATTRIBUTE`` in it may be imported and
    run.

    Every other `str` finds only what ships. Text that is read from a file, cut or put together is a plain `str`, and so
    is what a record validated, thus what is forgotten fails on the safe side.

    Examples
    --------
    >>> type(TrustedName("mine:make").upper()) is str
    True
    """

    __slots__ = ()


def is_own(name: str | None) -> bool:
    """Whether a name says MODULE:ATTRIBUTE."""
    return name is not None and ":" in name


def named_here(name: str, allow_code: Collection[str], place: object) -> str:
    """A name that stands in a file; one of code is a `TrustedName` only where the user named the same.

    `allow_code`: what the user named himself.
    `place`: the file and its field.
    Raises InputError where a file names code that the user does not.
    """
    if not is_own(name):
        return name
    if name not in allow_code:
        raise not_trusted(f"{place} = {name!r}", name)
    return TrustedName(name)


@contextmanager
def only_code(names: Collection[str]) -> Iterator[None]:
    """Within it no name but these is imported, even where it was typed: the words are an agent's, not the user's."""
    before = _ALLOWED.set(names)
    try:
        yield
    finally:
        _ALLOWED.reset(before)


def is_trusted(name: str) -> bool:
    """Whether a name may be imported: it was typed, and `only_code`, where that holds, names it."""
    allowed = _ALLOWED.get()
    return isinstance(name, TrustedName) and (allowed is None or name in allowed)


def not_trusted(what: str, name: str) -> InputError:
    """The error for a name of code that the user did not give."""
    return InputError(
        f"{what} would import your or somebody's code and run it: if you trust it, add --allow-code {name}, or "
        f"--estimator {name} where it is to answer (in Python, give the object itself)"
    )


def import_own(name: str) -> Any:
    """What MODULE:ATTRIBUTE or FILE.py:FUNCTION is: the only place where a name that is no word of ours is imported.

    The caller sees to it that the module is found; whatever it raises comes through.
    Raises InputError where the name is no `TrustedName`, or none of `only_code`, or a file is called like a module of
    Python's library.
    """
    if not is_trusted(name):
        raise not_trusted(repr(name), name)
    module, _, attribute = name.rpartition(":")
    name_in_python = Path(module).stem if module.endswith(".py") else module
    if name_in_python != module and name_in_python in sys.stdlib_module_names:
        raise InputError(f"{module}: Python has a module {name_in_python!r} of its own: give the file another name")
    return getattr(import_module(name_in_python), attribute)


def announce(name: str) -> None:
    """Say on standard error that a module is imported, which runs its code; once imported, it runs no second time."""
    module = name.rpartition(":")[0]
    if (Path(module).stem if module.endswith(".py") else module) not in sys.modules:
        print(f"slipstick: imports {module} and runs its code ({name})", file=sys.stderr)


@contextmanager
def code_refused(what: str) -> Iterator[None]:
    """Within it code of the user's own runs: whatever it raises is an InputError that says `what` was wanted.

    Errors of ours come through as they are.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # whatever the code raises is the user's to read
        raise InputError(f"{what}: {type(error).__name__}: {error}") from error


def found_here(name: str) -> Any:
    """What MODULE:ATTRIBUTE is, modules of the current folder too; the first import is reported on standard error.

    Raises InputError where the name is not trusted (`is_trusted`): it came from a file, or from an agent.
    """
    here = str(Path.cwd())
    if is_trusted(name):
        if here not in sys.path:
            sys.path.insert(0, here)  # stays: workers import the same module
        announce(str(name))
    return import_own(name)
