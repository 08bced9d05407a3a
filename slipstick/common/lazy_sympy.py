"""sympy, imported when it is first needed: numbers and formulas that are kept as steps are answered without it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import sympy as sp
else:

    class _Sympy:
        """The module, as `sp`; each name is looked up once."""

        def __getattr__(self, name: str) -> Any:
            import sympy

            value = getattr(sympy, name)
            setattr(self, name, value)
            return value

    sp = _Sympy()

__all__ = ["is_symbolic", "sp"]


def is_symbolic(value: object) -> TypeGuard[Any]:
    """Whether a value is an expression of sympy; without sympy nothing is.

    >>> is_symbolic(2.0), is_symbolic(sp.Symbol("batch"))
    (False, True)
    """
    basic = getattr(sys.modules.get("sympy.core.basic"), "Basic", None)
    return basic is not None and isinstance(value, basic)
