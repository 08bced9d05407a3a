"""The one kind of error that a user's own input causes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

_LONG = re.compile(r"\S{301,}")
MOST_PROBLEMS = 8
"""Of a file, in one line."""
ENOUGH = 1_000
"""Problems of a file after which its reading ends: what is wrong with each of many more lines takes long to say."""
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


def counted_problems(problems: Sequence[str], least: str = "") -> str:
    """What is wrong, in one line, numbered where there is more than one; the first few of many.

    `least`: words before their number, where there may be more of them.

    >>> counted_problems(["a is 0", "b is missing"])
    '2 problems: (1) a is 0; (2) b is missing'
    """
    more = f" (and {len(problems) - MOST_PROBLEMS} more)" if len(problems) > MOST_PROBLEMS else ""
    if len(problems) == 1:
        return problems[0]
    numbered = (f"({number}) {text}" for number, text in enumerate(problems[:MOST_PROBLEMS], 1))
    return f"{least}{len(problems):,} problems: {'; '.join(numbered)}{more}"


class Problems(list[str]):
    """What is wrong with `where`, a file or a graph: ``with problems:`` passes over an error of input inside.

    Raises InputError once there are `ENOUGH`.

    Examples
    --------
    >>> problems = Problems("runs.csv")
    >>> for line, text in (3, "x"), (4, "1"), (5, "y"):
    ...     with problems, errors_at(f"runs.csv: line {line}"):
    ...         if text.isalpha():
    ...             raise InputError(f"time_s = {text!r} is no number")
    >>> problems.refuse()
    Traceback (most recent call last):
    slipstick.common.errors.InputError: runs.csv: 2 problems: (1) line 3: time_s = 'x' is no number; (2) line 5: ...
    """

    def __init__(self, where: object) -> None:
        super().__init__()
        self.where = where

    def __enter__(self) -> None:
        """Nothing is wrong yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Keep what was wrong; errors of other kinds pass."""
        if isinstance(error, InputError):
            self.append(str(error))
        return isinstance(error, InputError)

    def append(self, text: str) -> None:
        """Add what is wrong."""
        super().append(text)
        if len(self) >= ENOUGH:
            self.refuse()

    def refuse(self) -> None:
        """End the reading of the file or the graph.

        Raises InputError where something was wrong: names the first few, each once, and counts them all.
        """
        if self:
            texts = dict.fromkeys(text.removeprefix(f"{self.where}: ") for text in self)
            least = "at least " if len(self) >= ENOUGH else ""
            raise InputError(f"{self.where}: {counted_problems(list(texts), least)}")
