"""What a compiled function reads of a formula, as steps: each part is made when it is first read, and may be kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from slipstick.common.array_types import FloatArray
from slipstick.common.cached_parts import cached_texts
from slipstick.estimators.symbolic.batched_sum import Chosen, SeparatedTerms, Term
from slipstick.estimators.symbolic.breakpoints import Breakpoints
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import CachedParts


class FormulaSource(Protocol):
    """Makes formulas by their places, where what is kept of one does not hold what is asked."""

    def formula(self, place: str) -> Formula:
        """The formula of a place."""
        ...


@dataclass(frozen=True)
class CachedNames:
    """CachedNames as they are kept."""

    listed: tuple[str, ...]

    def data(self) -> list[str]:
        """As JSON holds it."""
        return list(self.listed)

    @classmethod
    def of(cls, data: Any) -> CachedNames:
        """The names of `data`.

        Raises InputError where that are none.
        """
        return cls(cached_texts(data, "names"))


@dataclass(frozen=True, eq=False)
class FormulaSteps:
    """A formula of a compiled function.

    `parts`: where its parts are kept, under `place`.
    """

    parts: CachedParts
    place: str
    source: FormulaSource

    @classmethod
    def of(cls, formula: Formula) -> FormulaSteps:
        """Those of a formula, for this process alone."""
        return cls(CachedParts(), "", _OneFormula(formula))

    @property
    def formula(self) -> Formula:
        """The formula itself, with its expressions."""
        return self.source.formula(self.place)

    @cached_property
    def steps(self) -> Evaluable:
        """It, its terms and its menu, ready to be evaluated."""
        return self.parts.part(f"{self.place} steps", Evaluable.of, lambda: self.formula.lowered)

    @property
    def names(self) -> tuple[str, ...]:
        """CachedNames of the symbols, sorted."""
        return self.steps.names

    @cached_property
    def sizes_read(self) -> tuple[str, ...]:
        """CachedNames that have a say where every cache is there (see `residency.sizes_read`)."""
        return self.parts.part(f"{self.place} sizes", CachedNames.of, self._sizes_read).listed

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """The value on arrays that broadcast against each other.

        Raises InputError where a symbol has no value.
        """
        return self.steps.evaluate(values)

    def gradient(self, values: Mapping[str, Any]) -> dict[str, FloatArray]:
        """See `Formula.gradient`."""
        return self.steps.gradient(values)

    def turns(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """See `Breakpoints.at`."""
        return self._turns.at(values)

    def terms(self, numbers: Mapping[str, float], parts: CachedParts) -> tuple[Term, ...]:
        """The formula with numbers put in, taken apart into rows (operation.*) and points.

        `parts`: where they are kept: other numbers are other terms.
        """
        known = hashlib.sha256(repr(sorted(numbers.items())).encode()).hexdigest()[:20]
        return parts.part(f"{self.place} {known}", SeparatedTerms.of, lambda: self._terms(numbers)).listed

    @cached_property
    def _turns(self) -> Breakpoints:
        return self.parts.part(
            f"{self.place} turns", Breakpoints.of, lambda: Breakpoints.of_expression(self.formula.expression)
        )

    def _sizes_read(self) -> CachedNames:
        from slipstick.estimators.symbolic.cache_residency import sizes_read
        from slipstick.estimators.symbolic.lambdified import names_of

        return CachedNames(names_of(sizes_read(self.formula.expression)))

    def _terms(self, numbers: Mapping[str, float]) -> SeparatedTerms:
        from slipstick.common.expressions import sp, symbol
        from slipstick.estimators.symbolic.factored_formula import separate
        from slipstick.estimators.symbolic.formula import MinOverConfigs
        from slipstick.estimators.symbolic.lambdified.symbolic_max import replaced

        formula = self.formula
        if isinstance(formula, MinOverConfigs):
            return SeparatedTerms((Chosen(formula.substitute(numbers).lowered),))
        put = {symbol(name): sp.sympify(value, strict=True) for name, value in numbers.items()}
        return SeparatedTerms(
            separate(replaced(formula.expression, put), lambda name: str(name).startswith("operation."))
        )


@dataclass(frozen=True)
class _OneFormula:
    """A formula that is there."""

    known: Formula

    def formula(self, place: str) -> Formula:
        """It, whatever the place."""
        return self.known
