"""Maximum and minimum that stay as written.

sympy's Max and Min compare every pair of their arguments whenever an expression is rebuilt; a formula with fifty of
them takes seconds to compile. These only print, differentiate (the active side) and evaluate.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import sympy as sp


class _Extremum(sp.Function):  # type: ignore[misc]
    """What both share; a subclass says sympy's own function, numpy's name, and when a side is active."""

    nargs = None
    plain: Any
    numpy_name: str
    active: Any
    positive_if: Any

    @classmethod
    def eval(cls, *arguments: sp.Expr) -> sp.Expr | None:
        """A number where all arguments are; else as written."""
        if len(arguments) == 1:
            return arguments[0]
        if all(argument.is_Number for argument in arguments):
            return cls.plain(*arguments)
        return None

    def _eval_is_extended_real(self) -> bool:
        return True

    def _eval_is_positive(self) -> bool | None:
        return True if self.positive_if(argument.is_positive for argument in self.args) else None

    def _eval_derivative(self, by: sp.Symbol) -> sp.Expr:
        *sides, last = self.args
        pairs = [
            (s.diff(by), sp.And(*(self.active(s, o, evaluate=False) for o in self.args if o is not s))) for s in sides
        ]
        return sp.Piecewise(*pairs, (last.diff(by), True))

    def _numpycode(self, printer: Any) -> str:
        inner = [printer._print(argument) for argument in self.args]
        return str(reduce(lambda one, other: f"numpy.{self.numpy_name}({one}, {other})", inner))

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        inner = ", ".join(printer._print(argument) for argument in self.args)
        text = rf"\{self.numpy_name[:3]}\left({inner}\right)"
        return text if exp is None else f"{text}^{{{exp}}}"

    def _eval_rewrite(self, rule: Any, args: Any, **hints: Any) -> sp.Expr:
        return self.plain(*args)


class Largest(_Extremum):
    """The maximum of its arguments."""

    plain, numpy_name = sp.Max, "maximum"
    active, positive_if = sp.Ge, any


class Smallest(_Extremum):
    """The minimum of its arguments."""

    plain, numpy_name = sp.Min, "minimum"
    active, positive_if = sp.Le, all
