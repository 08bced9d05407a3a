"""Fittable parameters of frozen estimators: declared once in a field's type, named by dotted paths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import Any, get_type_hints

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Same


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
