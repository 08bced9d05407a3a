"""Formulas drawn by the browser itself: sympy's presentation MathML, with cases as a table and names as text."""

from __future__ import annotations

from html import escape
from typing import Any

from sympy.printing.mathml import MathMLPresentationPrinter

from slipstick.common.expressions import sp


class _MathPrinter(MathMLPresentationPrinter):  # type: ignore[misc]
    """Piecewise as cases, symbols as words, products as dots."""

    def _node(self, name: str, *children: Any) -> Any:
        """An element; texts are escaped here, since sympy's text nodes write themselves as they are."""
        node = self.dom.createElement(name)
        for child in children:
            node.appendChild(self.dom.createTextNode(escape(child)) if isinstance(child, str) else child)
        return node

    def _print_Symbol(self, symbol: sp.Symbol, style: str = "plain") -> Any:
        return self._node("mi", symbol.name.replace("_", " "))

    def _print_Float(self, value: sp.Float) -> Any:
        text = f"{float(value):.6g}"
        digits, _, power = text.partition("e")
        if not power:
            return self._node("mn", text)
        raised = self._node("msup", self._node("mn", "10"), self._node("mn", str(int(power)).replace("-", "\u2212")))
        return (
            raised
            if digits == "1"
            else self._node("mrow", self._node("mn", digits), self._node("mo", "\u00b7"), raised)
        )

    def _print_Largest(self, expression: sp.Expr) -> Any:
        return self._call("max", expression)

    def _print_Smallest(self, expression: sp.Expr) -> Any:
        return self._call("min", expression)

    def _call(self, name: str, expression: sp.Expr) -> Any:
        inner: list[Any] = []
        for argument in expression.args:
            inner += [self._print(argument), self._node("mo", ",")]
        return self._node("mrow", self._node("mo", name), self._node("mo", "("), *inner[:-1], self._node("mo", ")"))

    def _print_Piecewise(self, expression: sp.Piecewise) -> Any:
        rows = [
            self._node(
                "mtr",
                self._node("mtd", self._print(value)),
                self._node(
                    "mtd",
                    self._node("mtext", "else" if condition == sp.true else "if\u00a0"),
                    *([] if condition == sp.true else [self._print(condition)]),
                ),
            )
            for value, condition in expression.args
        ]
        return self._node("mrow", self._node("mo", "{"), self._node("mtable", *rows))


def mathml(expression: sp.Expr, left: str = "") -> str:
    """A ``<math>`` element of `left` = expression."""
    printer = _MathPrinter({"mul_symbol": "\u00b7"})
    node = printer._print(expression)
    text = node.toxml()
    equals = f"<mi>{escape(left)}</mi><mo>=</mo>" if left else ""
    return f'<math display="block"><mrow>{equals}{text}</mrow></math>'
