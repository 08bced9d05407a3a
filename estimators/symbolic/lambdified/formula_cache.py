"""Formulas and what is read off them, kept from run to run as steps (see `tape` and `slipstick.common.disk_cache`).

Formulas lie in one file for each kind of model and form of machine; what a compiled function is made of in one for each
function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar, cast

from slipstick.common.disk_cache import Kind, cache_path, read_cached, write_cached
from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.common.prebuilt import prebuilt
from slipstick.estimators.symbolic.lambdified import steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable


class Keepable(Protocol):
    """What may be kept: it has a form that JSON holds."""

    def data(self) -> Any:
        """As JSON holds it."""
        ...


P = TypeVar("P", bound=Keepable)


class CachedParts:
    """Parts that one identity decides, each under a key, in one file; a part is made or read when it is needed.

    Parameters
    ----------
    identity
        Text that says all that decides the parts beside the key; None keeps them for this process alone.
    """

    def __init__(self, identity: str | None = None, kind: Kind = "formulas") -> None:
        self._path = None if identity is None else cache_path(kind, identity)
        self._data: dict[str, Any] | None = None
        self._known: dict[str, Keepable] = {}
        self._new = False

    def part(self, key: str, read: Callable[[Any], P], build: Callable[[], P]) -> P:
        """The part of a key; built where it is not known yet, or `read` refuses what was kept."""
        if self._data is None:
            self._data = self._read()
        if key in self._data and key not in self._known:
            with contextlib.suppress(InputError):
                self._known[key] = read(self._data[key])
        if key not in self._known:
            self._data.pop(key, None)
            self._known[key] = build()
            self._new = True
        return cast(P, self._known[key])

    def keep(self) -> None:
        """Write what is new, whole or not at all; quietly nothing where that cannot be."""
        if not self._new or self._path is None or self._data is None:
            return
        self._new = False
        known = {**{key: one.data() for key, one in dict(self._known).items() if key not in self._data}, **self._data}
        if not write_cached(self._path, known):
            self._path = None

    def _read(self) -> dict[str, Any]:
        content = read_cached(self._path)
        if content is None:
            content = prebuilt(self._path)
            self._new = content is not None
        return content if type(content) is dict else {}


class Formulas(CachedParts):
    """The formulas of one model on machines of one form, by the key of the operations."""

    def get(self, key: str, build: Callable[[], Evaluable]) -> Evaluable:
        """The formula of a key; built where it is not known yet."""
        return self.part(key, Evaluable.of, build)


@lru_cache(maxsize=128)
def formulas_of(kind: type, form: Hashable) -> Formulas:
    """Those of a class of models on machines of one form; of a class that is not ours for this process alone."""
    ours = kind.__module__.startswith("slipstick.")  # their sources tell old formulas from new ones
    return Formulas(f"{kind.__module__}.{kind.__qualname__} {form!r}" if ours else None)


def promises(kind: type, *deciding: str) -> bool:
    """Whether a class says the form of the formulas that it has.

    One that replaces what decides them and not `form` has formulas that the inherited form knows nothing of.
    """
    for each in kind.__mro__:
        if "form" in vars(each):
            return True
        if any(name in vars(each) for name in deciding):
            return False
    return False


@lru_cache(maxsize=16)
def text_as_steps(text: str, unit: str = "") -> Evaluable:
    """The formula that a text is (see `parse_expression`), ready to be evaluated.

    Raises
    ------
    InputError
        Where the text is none.
    """
    known = Formulas(f"text {text}")
    steps = known.get("text", lambda: _parsed(text))
    known.keep()
    return replace(steps, unit=unit)


def _parsed(text: str) -> Evaluable:
    return Evaluable("", steps_of(parse_expression(text)))
