"""Arguments of functions: a keyword that is not known is refused with the nearest, an older one is taken with a hint.

What is of no kind that the function's annotation names is refused too, with what is wanted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

from slipstick.common.argument_kinds import check_kind
from slipstick.common.readers import unknown_name

P = ParamSpec("P")
R = TypeVar("R")


def formerly(**older: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that takes arguments by their older names as well, with a `DeprecationWarning` that names today's.

    A keyword that it does not know raises an `InputError` that names the nearest.

    `older`: today's name of each, by its older one.

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
        known = signature(function).parameters
        open_ = any(one.kind is Parameter.VAR_KEYWORD for one in known.values())

        @wraps(function)
        def called(*arguments: P.args, **named: P.kwargs) -> R:
            for old in older.keys() & named.keys():
                new = older[old]
                text = f"{function.__name__}: {old}= is called {new}= now; it is taken until the next minor release"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                if new in named:
                    raise TypeError(f"{function.__name__}: {old}= and {new}= are one argument: give one")
                named[new] = named.pop(old)
            for name in () if open_ and _can_be_called(function, arguments, named) else named:
                if name not in known:
                    raise unknown_name(f"argument of {function.__name__}", name, list(known))
            for name, value in (*zip(known, arguments, strict=False), *named.items()):
                one = known.get(name)
                if one is not None and isinstance(one.annotation, str) and one.default is not value:
                    check_kind(function.__name__, name, value, one.annotation)
            return function(*arguments, **named)

        return called

    return renamed


def _can_be_called(function: Callable[..., object], arguments: tuple[object, ...], named: dict[str, object]) -> bool:
    """Whether nothing is missing: a function that takes numbers of any name then says which it knows."""
    try:
        signature(function).bind(*arguments, **named)
    except TypeError:
        return False
    return True


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function; a keyword that it does not know raises an `InputError` that names the nearest.

    Examples
    --------
    >>> @checked
    ... def serve(concurrency: int) -> int:
    ...     return concurrency
    >>> serve(concurency=4)
    Traceback (most recent call last):
    slipstick...InputError: unknown argument of serve 'concurency'; did you mean 'concurrency'? (known: concurrency)
    """
    return formerly()(function)
