"""Methods of records compiled when they are first called: a command calls a tenth of those that its classes have.

`dataclasses` writes and compiles the source of each method where a class is made: a quarter of the CPU time of
``estimate gpt2``. Python 3.13 compiles the methods of a class together, and is left as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

MAKER = "_create_fn"
"""What compiles a method in `dataclasses` of Python 3.11 and 3.12."""


def compile_methods_late() -> None:
    """From now on, make the methods of slipstick's records when they are first called; other packages' at once."""
    compiled: Callable[..., Callable[..., Any]] | None = getattr(dataclasses, MAKER, None)
    if compiled is None:
        return
    at_once = compiled

    def late(name: str, *source: Any, globals: Mapping[str, Any] | None = None, **more: Any) -> Callable[..., Any]:  # noqa: A002
        if not str((globals or {}).get("__name__", "")).startswith("slipstick."):
            return at_once(name, *source, globals=globals, **more)
        made: list[Callable[..., Any]] = []

        def method(self: object, *arguments: Any, **named: Any) -> Any:
            if not made:
                made.append(at_once(name, *source, globals=globals, **more))
                for owner in type(self).__mro__:
                    if owner.__dict__.get(name) is method:
                        setattr(owner, name, made[0])
            return made[0](self, *arguments, **named)

        method.__name__ = name
        return method

    setattr(dataclasses, MAKER, late)
