"""The one kind of error that a user's own input causes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """What a user gave cannot be used; the message is one line for them (exit code 2)."""


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """What is wrong inside is said with its place, a file and a row of it.

    Raises
    ------
    InputError
        That which was raised inside, behind the place.

    Examples
    --------
    >>> with errors_at("runs.csv: line 3"):
    ...     raise InputError("time = 0 s: want a time above 0")
    Traceback (most recent call last):
    slipstick.hwmodels.files.errors.InputError: runs.csv: line 3: time = 0 s: want a time above 0
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
