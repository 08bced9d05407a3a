"""Maximum and minimum that stay as written.

sympy's Max and Min compare every pair of their arguments whenever an expression is rebuilt; a formula with fifty of
them takes seconds to compile. These only print, differentiate (the active side) and evaluate.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import sympy as sp


class _Extremum(sp.Function):  # type: ignore[misc]
    """What both share; a subclass says which side is active."""

    nargs = None
    name = ""

    @classmethod
    def eval(cls, *arguments: sp.Expr) -> sp.Expr | None:
        """A number where all arguments are; else as written."""
        if len(arguments) == 1:
            return arguments[0]
        if all(argument.is_number for argument in arguments):
            return cls.plain()(*arguments)
        return None

    @classmethod
    def plain(cls) -> Any:
        raise NotImplementedError

    @classmethod
    def active(cls, one: sp.Expr, other: sp.Expr) -> sp.Expr:
        raise NotImplementedError

    def _eval_is_extended_real(self) -> bool:
        return True

    def _eval_derivative(self, by: sp.Symbol) -> sp.Expr:
        *sides, last = self.args
        pairs = [(s.diff(by), sp.And(*(self.active(s, o) for o in self.args if o is not s))) for s in sides]
        return sp.Piecewise(*pairs, (last.diff(by), True))

    def _numpycode(self, printer: Any) -> str:
        inner = [printer._print(argument) for argument in self.args]
        return str(reduce(lambda one, other: f"numpy.{self.name}({one}, {other})", inner))

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        inner = ", ".join(printer._print(argument) for argument in self.args)
        text = rf"\{self.name[:3]}\left({inner}\right)"
        return text if exp is None else f"{text}^{{{exp}}}"

    def _eval_rewrite(self, rule: Any, args: Any, **hints: Any) -> sp.Expr:
        return self.plain()(*args)


class Largest(_Extremum):
    """The maximum of its arguments."""

    name = "maximum"

    @classmethod
    def plain(cls) -> Any:
        """sympy's own."""
        return sp.Max

    @classmethod
    def active(cls, one: sp.Expr, other: sp.Expr) -> sp.Expr:
        """Where `one` is the value."""
        return sp.Ge(one, other, evaluate=False)

    def _eval_is_positive(self) -> bool | None:
        return True if any(argument.is_positive for argument in self.args) else None


class Smallest(_Extremum):
    """The minimum of its arguments."""

    name = "minimum"

    @classmethod
    def plain(cls) -> Any:
        """sympy's own."""
        return sp.Min

    @classmethod
    def active(cls, one: sp.Expr, other: sp.Expr) -> sp.Expr:
        """Where `one` is the value."""
        return sp.Le(one, other, evaluate=False)

    def _eval_is_positive(self) -> bool | None:
        return True if all(argument.is_positive for argument in self.args) else None
