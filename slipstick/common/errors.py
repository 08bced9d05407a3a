"""The one kind of error that a user's own input causes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

_LONG = re.compile(r"\S{301,}")
_KEPT = 120
"""Letters at each end of a word of more than 300 that a message repeats."""


class InputError(ValueError):
    """What a user gave cannot be used; the message is one line for them (exit code 2), and repeats no long word whole.

    Examples
    --------
    >>> len(str(InputError(f"{'a' * 30_000}: no such file")))
    256
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_LONG.sub(lambda word: f"{word[0][:_KEPT]}...{word[0][-_KEPT:]}", message))
        self.typed = str(self)
        """The message in the words of the command line; a function's own speaks of its arguments."""


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """What is wrong inside is said with its place, a file and a row of it.

    Raises
    ------
    InputError
        That which was raised inside, behind the place where it does not name the file itself.

    Examples
    --------
    >>> with errors_at("runs.csv: line 3"):
    ...     raise InputError("time = 0 s: want a time above 0")
    Traceback (most recent call last):
    slipstick.common.errors.InputError: runs.csv: line 3: time = 0 s: want a time above 0
    """
    try:
        yield
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(place.partition(": ")[0]) else f"{place}: {text}") from None
