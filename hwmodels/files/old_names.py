"""Arguments that have another name today: the older one is taken with a hint until the next minor release."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def formerly(**older: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that takes arguments by their older names as well, with a `DeprecationWarning` that names today's.

    Parameters
    ----------
    older
        Today's name of each, by its older one.

    Examples
    --------
    >>> @formerly(users="concurrency")
    ... def serve(concurrency: int) -> int:
    ...     return concurrency
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     serve(users=4), str(caught[0].message)
    (4, 'serve: users= is called concurrency= now; it is taken until the next minor release')
    """

    def renamed(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*arguments: P.args, **named: P.kwargs) -> R:
            for old in older.keys() & named.keys():
                new = older[old]
                text = f"{function.__name__}: {old}= is called {new}= now; it is taken until the next minor release"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                if new in named:
                    raise TypeError(f"{function.__name__}: {old}= and {new}= are one argument: give one")
                named[new] = named.pop(old)
            return function(*arguments, **named)

        return called

    return renamed
