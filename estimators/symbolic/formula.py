"""Formulas: a sympy expression with the units of its symbols and its source, evaluated on arrays.

Fittable parameters of frozen estimators: declared once in a field's type, named by dotted paths.

Formulas with a choice: the least of one expression over a small menu, as a library picks its kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, cached_property, lru_cache
from html import escape
from typing import Any, get_type_hints

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp, symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.symbolic.lambdified import evaluate, names_of, steps_of
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.symbolic_max import replaced


@dataclass(frozen=True)
class Parameter:
    """What a fittable number means; stands in the field's type: ``slope: Annotated[float, Parameter("s", "...")]``.

    `whole`: whether it counts something.
    `folded`: whether a formula holds its value in place of its name, as of a plain number of a record of one's own.
    """

    unit: str
    meaning: str
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    folded: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value, in the parameter's unit, lies within the bounds and is whole where it has to be."""
        return self.low <= value <= self.high and not (self.whole and value % 1)

    def check(self, name: str, value: float) -> None:
        """Check that a value, in the parameter's unit, lies within the bounds.

        Raises
        ------
        InputError
            Where it does not.
        """
        if not self.holds(value):
            what = "a whole number" if self.whole else "a value"
            unit = "" if self.unit == "1" else f" {self.unit}"
            raise InputError(f"{name} = {value!r}{unit}: want {what} in [{self.low:g}, {self.high:g}]")


def declared(cls: type) -> dict[str, Parameter]:
    """The parameters that a class declares in its field types, by field name."""
    return {name: note for name, note in _noted(cls).items() if not note.folded}


OURS = "slipstick."
"""Modules whose records declare each of their parameters."""


@cache
def _noted(cls: type) -> dict[str, Parameter]:
    """What a class declares, and of a class of somebody's own its plain numbers as well."""
    hints = get_type_hints(cls, include_extras=True)
    users, noted = not cls.__module__.startswith(OURS), dict[str, Parameter]()
    for field in fields(cls):
        hint = hints[field.name]
        if users and hint in (int, float):
            meaning = f"{field.name} of {cls.__name__}"
            noted[field.name] = Parameter("1", meaning, whole=hint is int, folded=True)
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Parameter):
                noted[field.name] = replace(note, whole=note.whole or hint.__origin__ is int)
    return noted


PLAIN = (float, int, str)


def parameters(thing: Any) -> dict[str, tuple[float, Parameter]]:
    """Every parameter of an estimator and of its parts: dotted name -> (value, declaration with unit, meaning and
    bounds).

    In a record of your own each plain number (a field that is a float or an int) is one as well: without a unit, whole
    where it is an int, and 0 or more where it is so today.

    Examples
    --------
    >>> import slipstick as ss
    >>> {name: value for name, (value, _) in ss.models.parameters(ss.Roofline(overhead=1e-6)).items()}
    {'compute_efficiency': 1.0, 'memory_efficiency': 1.0, 'overhead': 1e-06}
    """
    return dict(_kept(Same(thing)) if is_dataclass(thing) else _walk(thing, ""))


@lru_cache(maxsize=256)
def _kept(thing: Same[Any]) -> Mapping[str, tuple[float, Parameter]]:
    """Those of a record: questions in a loop ask the same estimator for them."""
    return dict(_walk(thing.it, ""))


def _walk(thing: Any, prefix: str) -> Iterator[tuple[str, tuple[float, Parameter]]]:
    if isinstance(thing, Mapping):
        parts = [(name, entry) for name, entry in thing.items() if not isinstance(entry, PLAIN)]
        for name, entry in parts:  # a table of 10,000 measured times holds no parameter
            yield from _walk(entry, f"{prefix}{name}.")
        return
    if not is_dataclass(thing) or isinstance(thing, type):
        return
    notes = _noted(type(thing))
    for field in fields(thing):
        value, note = getattr(thing, field.name), notes.get(field.name)
        if note is not None and note.folded:
            yield f"{prefix}{field.name}", (float(value), replace(note, low=0.0) if value >= 0 else note)
        elif note is not None:
            entries = value.items() if isinstance(value, Mapping) else [(None, value)]
            for key, number in entries:
                name = f"{prefix}{field.name}" + (f".{key}" if key is not None else "")
                yield name, (float(number), note)
        else:
            yield from ((f"{prefix}{field.name}.{name}", entry) for name, entry in parameters(value).items())


def check_parameters(thing: Any) -> None:
    """Raise InputError where a declared parameter of a record lies outside its bounds; for ``__post_init__``."""
    for field, note in declared(type(thing)).items():
        value = getattr(thing, field)
        for key, number in value.items() if isinstance(value, Mapping) else [(None, value)]:
            note.check(f"{type(thing).__name__}.{field}" + (f".{key}" if key else ""), number)


class CheckedParameters:
    """A frozen dataclass whose declared parameters are checked as it is made: InputError where one is out of bounds."""

    def __post_init__(self) -> None:
        check_parameters(self)


def with_parameters(thing: Any, values: Mapping[str, float]) -> Any:
    """The same estimator with some parameters changed, each in the unit that it declares.

    Raises InputError where a name is unknown or a value is out of bounds.
    """
    known = parameters(thing)
    for name, value in values.items():
        if name not in known:
            raise unknown_name(f"parameter of {type(thing).__name__}", name, sorted(known))
        known[name][1].check(name, value)
    return _changed(thing, dict(values))


def _changed(thing: Any, values: dict[str, float]) -> Any:
    if not values:
        return thing
    heads: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        head, _, rest = name.partition(".")
        if isinstance(thing, Mapping):  # its names may hold dots: "gemm.float32"
            head = max((one for one in thing if f"{name}.".startswith(f"{one}.")), key=len, default=head)
            rest = name[len(head) + 1 :]
        heads.setdefault(head, {})[rest] = value
    if isinstance(thing, Mapping):
        return FrozenDict(
            {**thing, **{head: rest[""] if "" in rest else _changed(thing[head], rest) for head, rest in heads.items()}}
        )
    kind: type = type(thing)
    whole = {name for name, note in _noted(kind).items() if note.whole}
    return replace(
        thing,
        **{
            head: (int(rest[""]) if head in whole else rest[""]) if "" in rest else _changed(getattr(thing, head), rest)
            for head, rest in heads.items()
        },
    )


@dataclass(frozen=True)
class Formula:
    """An expression one can read, differentiate, print and evaluate on arrays.

    Parameters
    ----------
    expression
        Its symbols are named by namespace: operation.*, machine.*, run.*, parameter.*, time.*, count.*.
    unit
        Of the result.
    source
        Paper and table or equation, or URL.
    terms
        Named sub-expressions of which the largest decides (what an operation is bound by).

    Examples
    --------
    >>> t = Formula(symbol("flop") / symbol("machine.clock"), "s", "definition")
    >>> float(t.evaluate({"flop": 4.0, "machine.clock": 2.0}))
    2.0
    """

    expression: sp.Expr
    unit: str
    source: str
    terms: FrozenDict[sp.Expr] = FrozenDict()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols, sorted."""
        return names_of(self.expression)

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """The value on arrays that broadcast against each other.

        Raises
        ------
        InputError
            Where a symbol has no value.
        """
        return evaluate(self.expression, values)

    @cached_property
    def lowered(self) -> Evaluable:
        """The formula and its terms as steps, without the expressions."""
        terms = {name: steps_of(term) for name, term in self.terms.items()}
        return Evaluable(self.unit, steps_of(self.expression), FrozenDict(terms), source=self.source)

    def bound_by(self, values: Mapping[str, Any]) -> str | None:
        """The name of the largest term at one point; None where the formula has no terms."""
        if not self.terms:
            return None
        return max(self.terms, key=lambda name: float(evaluate(self.terms[name], values)))

    def derivative(self, name: str) -> Formula:
        """The partial derivative by one symbol; at a maximum that of the active side, of a step 0.

        Raises
        ------
        InputError
            Where the formula has no such symbol.
        """
        if name not in self.names:
            raise unknown_name("symbol of the formula", name, self.names)
        return Formula(_derivative(self.expression, symbol(name)), f"{self.unit} per unit of {name}", self.source)

    def gradient(self, values: Mapping[str, Any]) -> dict[str, FloatArray]:
        """The derivative by every symbol at points, as numbers: what `derivative` says of each, much faster."""
        return self.lowered.gradient(values)

    @property
    def parts(self) -> tuple[sp.Expr, ...]:
        """All expressions of the formula."""
        return (self.expression, *self.terms.values())

    def outside(self, part: Any, place: str) -> Formula:
        """The formula of a part in the names that its parameters have outside: estimator.PLACE.NAME."""
        known, read = parameters(part), {name for one in self.parts for name in names_of(one)}
        inside = [name for name in read if name.startswith("parameter.") and name[10:] in known]
        return self.substitute({name: symbol(f"estimator.{place}.{name[10:]}") for name in inside})

    def substitute(self, values: Mapping[str, Any]) -> Formula:
        """The formula with some symbols replaced by numbers or expressions."""
        put = {symbol(name): sp.sympify(value, strict=True) for name, value in values.items()}
        return Formula(
            replaced(self.expression, put),
            self.unit,
            self.source,
            FrozenDict({name: replaced(term, put) for name, term in self.terms.items()}),
        )

    def latex(self) -> str:
        """The formula for a page; dotted names keep their last two words."""
        names = {s: _latex_name(str(s)) for s in self.expression.free_symbols}
        return str(sp.latex(self.expression, symbol_names=names))

    def _repr_html_(self) -> str:
        return f"$$ {escape(self.latex())} $$ <small>{escape(f'{self.unit}; {self.source}')}</small>"


@lru_cache(maxsize=1024)
def _derivative(expression: sp.Expr, by: sp.Symbol) -> sp.Expr:
    steps = {node: sp.Dummy() for node in expression.atoms(sp.floor, sp.ceiling, sp.Mod)}
    smooth = expression.xreplace(steps)
    smooth = smooth.replace(sp.Max, lambda *sides: _branches(sides, largest=True))
    smooth = smooth.replace(sp.Min, lambda *sides: _branches(sides, largest=False))
    back = {dummy: node for node, dummy in steps.items()}
    return sp.diff(smooth, by).xreplace(back)


def _branches(sides: tuple[sp.Expr, ...], *, largest: bool) -> sp.Piecewise:
    pairs = [
        (side, sp.And(*((side >= other) if largest else (side <= other) for other in sides if other is not side)))
        for side in sides[:-1]
    ]
    return sp.Piecewise(*pairs, (sides[-1], True))


def _latex_name(name: str) -> str:
    words = name.split(".")[-2:] if name.count(".") > 1 else name.split(".")[-1:]
    text = r"\_".join(words).replace("_", r"\_").replace(r"\\_", r"\_")
    return rf"\mathrm{{{text}}}"


@dataclass(frozen=True)
class MinOverConfigs(Formula):
    """The least value of `expression` over the rows of a menu.

    `menu`: symbol -> its value in each row (equal lengths). These symbols are no longer names of the formula.
    `criterion`: what is minimised to pick the row; the expression itself where None. A derivative keeps the row that
        its function picks.

    Raises
    ------
    InputError
        Where the menu is empty or its columns differ in length.

    Examples
    --------
    >>> from slipstick.common.expressions import symbol
    >>> places = sp.ceiling(symbol("n") / symbol("tile")) * symbol("tile")
    >>> tiles = MinOverConfigs(places, "1", "", menu=FrozenDict(tile=(64, 48)))
    >>> tiles.names, [float(tiles.evaluate({"n": n})) for n in (64, 65, 129)]
    (('n',), [64.0, 96.0, 144.0])
    """

    menu: FrozenDict[tuple[float, ...]] = FrozenDict()
    criterion: sp.Expr | None = None

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.menu.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(f"menu of a formula: want columns of one length >= 1, got lengths {sorted(lengths)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the symbols that are not chosen, sorted."""
        rule = names_of(self.criterion) if self.criterion is not None else ()
        return tuple(sorted({*names_of(self.expression), *rule} - set(self.menu)))

    @property
    def parts(self) -> tuple[sp.Expr, ...]:
        """All expressions of the formula, and the criterion."""
        return (*super().parts, *([] if self.criterion is None else [self.criterion]))

    def evaluate(self, values: Mapping[str, Any]) -> FloatArray:
        """The least value on arrays that broadcast against each other.

        Raises InputError where a symbol has no value.
        """
        return self.lowered.evaluate(values)

    @cached_property
    def lowered(self) -> Evaluable:
        """The steps of the expression over the menu, and of the criterion."""
        rule = None if self.criterion is None else steps_of(self.criterion)
        return replace(
            Formula(self.expression, self.unit, self.source, self.terms).lowered, menu=self.menu, criterion=rule
        )

    def derivative(self, name: str) -> Formula:
        """The partial derivative by one symbol, in the row that the function picks."""
        slope = Formula(self.expression, self.unit, self.source).derivative(name)
        picked = self.expression if self.criterion is None else self.criterion
        return MinOverConfigs(slope.expression, slope.unit, slope.source, menu=self.menu, criterion=picked)

    def substitute(self, values: Mapping[str, Any]) -> Formula:
        """The formula with some symbols replaced by numbers or expressions; the menu stays."""
        plain = Formula(self.expression, self.unit, self.source, self.terms).substitute(values)
        criterion = None
        if self.criterion is not None:
            criterion = Formula(self.criterion, self.unit, self.source).substitute(values).expression
        return MinOverConfigs(plain.expression, plain.unit, plain.source, plain.terms, self.menu, criterion)
