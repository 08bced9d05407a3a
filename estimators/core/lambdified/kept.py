"""Formulas kept from run to run as steps (see `tape` and `hwmodels.files.kept_files`), in one file for each kind of
model and form of machine."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache

from slipstick.estimators.core.lambdified import steps_of
from slipstick.estimators.core.lambdified.evaluable import Evaluable
from slipstick.hwmodels.files.expressions import parse_expression
from slipstick.hwmodels.files.kept_files import kept_path, read_kept, write_kept
from slipstick.hwmodels.files.kept_parts import kept_table
from slipstick.hwmodels.files.prebuilt import prebuilt
from slipstick.hwmodels.files.readers import InputError


class Formulas:
    """The formulas of one model on machines of one form, by the key of the operations.

    Parameters
    ----------
    identity
        Text that says all that decides the formulas beside the key; None keeps them for this process alone.
    """

    def __init__(self, identity: str | None = None) -> None:
        self._path = None if identity is None else kept_path("formulas", identity)
        self._known: dict[str, Evaluable] | None = None
        self._new = False

    def get(self, key: str, build: Callable[[], Evaluable]) -> Evaluable:
        """The formula of a key; built where it is not known yet."""
        if self._known is None:
            self._known = self._read()
        if key not in self._known:
            self._known[key] = build()
            self._new = True
        return self._known[key]

    def keep(self) -> None:
        """Write what is new, whole or not at all; quietly nothing where that cannot be."""
        if not self._new or self._path is None or not self._known:
            return
        self._new = False
        known = dict(self._known)  # other threads may add to it
        if not write_kept(self._path, {key: one.data() for key, one in known.items()}):
            self._path = None

    def _read(self) -> dict[str, Evaluable]:
        content = read_kept(self._path)
        if content is None:
            content = prebuilt(self._path)
            self._new = content is not None
        try:
            return {key: Evaluable.of(data) for key, data in kept_table(content, "formulas").items()}
        except InputError:
            return {}


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
