"""Frozen records: the mapping, the validation and the content digest that every value type here shares."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Hashable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from slipstick.common.errors import InputError, counted_problems
from slipstick.common.readers import unknown_name
from slipstick.common.units import Unit

Value = TypeVar("Value")
Model = TypeVar("Model", bound=BaseModel)


class FrozenDict(Mapping[str, Value], Generic[Value]):
    """An immutable mapping from names to values; equality, hash and pickle work.

    >>> FrozenDict({"L1": 1}) == FrozenDict(L1=1)
    True
    """

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Mapping[str, Value] | None = None, /, **named: Value) -> None:
        self._entries: dict[str, Value] = {**(entries or {}), **named}
        self._hash: int | None = None

    def __getitem__(self, name: str) -> Value:
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    # those of Mapping ask for one entry at a time
    if not TYPE_CHECKING:

        def get(self, name: str, default: Any = None) -> Any:
            """The entry, or the default where there is none."""
            return self._entries.get(name, default)

    def items(self) -> ItemsView[str, Value]:
        """Names and values, in their order."""
        return self._entries.items()

    def values(self) -> ValuesView[Value]:
        """Values, in their order."""
        return self._entries.values()

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._entries.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenDict) and self._entries == other._entries

    def __repr__(self) -> str:
        return f"Table({self._entries!r})"

    def __reduce__(self) -> tuple[type[FrozenDict[Value]], tuple[dict[str, Value]]]:
        return FrozenDict, (self._entries,)

    def using(self, **changes: Value) -> FrozenDict[Value]:
        """The same table with some entries added or replaced."""
        return FrozenDict({**self._entries, **changes})

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        arguments = getattr(source, "__args__", ()) or (Any,)
        entries = core_schema.dict_schema(core_schema.str_schema(), handler.generate_schema(arguments[0]))
        return core_schema.chain_schema(
            [
                core_schema.no_info_plain_validator_function(_as_dict),
                entries,
                core_schema.no_info_plain_validator_function(cls),
            ],
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda table, serialize: serialize(dict(table)), schema=entries
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return handler(schema["steps"][1])


def _as_dict(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


class Same(Generic[Value]):
    """A value that equals itself alone: for what is kept of large frozen values, whose own hash would take long."""

    __slots__ = ("it",)

    def __init__(self, it: Value) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.it is other.it


class ByContent:
    """Equal and hashed by the digest of its content: for frozen records that hold arrays."""

    @cached_property
    def identity(self) -> str:
        """Digest of the content."""
        return content_digest(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


class Record(BaseModel):
    """A frozen, validated group of fields read from a file; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @cached_property
    def form(self) -> Hashable:
        """All of it that is no magnitude (see `form_of`); records that a what-if leaves alone know theirs already."""
        return form_of({name: getattr(self, name) for name in type(self).__pydantic_fields__})


def form_of(value: Any) -> Hashable:
    """All of a value that is no magnitude: of a number its sign."""
    if isinstance(value, float):
        return (value > 0) - (value < 0), "float"
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Record):
        return value.form
    named = value.items() if isinstance(value, Mapping) else enumerate(value)
    inside = tuple((str(name), form_of(one)) for name, one in named)
    return inside or value


WANTED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("string_type", "string_sub_type"), "a text"),
        **dict.fromkeys(("tuple_type", "list_type"), "a list"),
        **dict.fromkeys(("dict_type", "model_type", "dataclass_type", "dataclass_exact_type"), "named fields"),
        **dict.fromkeys(("float_type", "float_parsing"), "a number"),
        **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
        **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
        "finite_number": "a finite number",
        "greater_than": "a number > {gt:.15g}",
        "greater_than_equal": "a number >= {ge:.15g}",
        "less_than": "a number < {lt:.15g}",
        "less_than_equal": "a number <= {le:.15g}",
        "too_short": "{min_length} or more entries, not {actual_length}",
        "too_long": "at most {max_length} entries, not {actual_length}",
        "string_too_short": "a text of at least {min_length} letters",
        "string_too_long": "a text of at most {max_length} letters",
        "^[^\\r\\n]*$": "one line of text",
        r"^[^.=]+$": "a name without '.' and '='",
        r"^[a-z]+\.[a-z0-9]+$": "a kind and a data type in small letters, such as gemm.float16",
        r"^[A-Za-z0-9][A-Za-z0-9._ -]*$": "letters, digits, blanks and ._-, a letter or digit first",
        "literal_error": "{expected}",
    }
)
"""What a field wants, by the pattern of its text or by the kind of error that pydantic finds, whose own words speak of
its types."""


def validated(model: type[Model], data: Any, where: str) -> Model:
    """A record from plain data; all that is wrong becomes one line.

    Raises InputError where a field is unknown, missing, of another type or out of range; names `where` and each field.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {_problems(error, model)}") from None


def of_kind(kind: type[Value], data: Any, where: str) -> Value:
    """What a JSON document holds as a type of Python, a frozen dataclass or a tuple of numbers: lists become tuples.

    Nothing else is turned into another kind: no text into a number, and no number with a fraction into a whole one.
    Raises InputError where a field is missing or of another type; names `where` and each field.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise InputError(f"{where}: {_problems(error, kind)}".replace(": the document =", " =")) from None


def as_document(thing: Any, schema: str) -> dict[str, Any]:
    """A frozen dataclass as plain values for JSON, which `of_kind` reads again."""
    return {"schema": schema, **TypeAdapter(type(thing)).dump_python(thing, mode="json")}


def _problems(error: ValidationError, model: type[Any]) -> str:
    """What is wrong, field by field, each once."""
    texts: dict[tuple[int | str, ...], str] = {}
    problems = error.errors(include_url=False)
    inside = {problem["loc"][:depth] for problem in problems for depth in range(len(problem["loc"]))}
    for problem in problems:
        if problem["type"] == "too_short" and problem["loc"] in inside:
            continue  # what is missing are the entries that are wrong
        texts.setdefault(problem["loc"], _problem(problem, model))
    return counted_problems(list(texts.values()))


def _problem(problem: ErrorDetails, model: type[Any]) -> str:
    place = problem["loc"]
    field = ".".join(str(part) for part in place) or "the document"
    if problem["type"] == "extra_forbidden":
        fields = getattr(model, "model_fields", {}) if len(place) == 1 else {}
        known = sorted(one.alias or name for name, one in fields.items())
        return str(unknown_name("field", field, known)) if known else f"unknown field {field!r}"
    if problem["type"] == "missing":
        named = getattr(model, "model_fields", {})
        wanted = next((one.annotation for name, one in named.items() if field in (name, one.alias)), None)
        only = get_args(wanted) if get_origin(wanted) is Literal else ()
        return f"field {field!r} is missing" + (f" (want {only[0]!r})" if len(only) == 1 else "")
    if wanted := WANTED.get(problem.get("ctx", {}).get("pattern", problem["type"]), ""):
        message = f"want {wanted.format(**problem.get('ctx', {}))}"
    else:
        message = problem["msg"].removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
    if isinstance(problem["input"], Mapping):  # a rule between fields: the whole mapping would only hide its words
        return (f"{field}: " if place else "") + message
    unit = unit_at(model, place) if isinstance(problem["input"], (int, float)) else ""
    return f"{field} = {short(problem['input'])} {unit}".rstrip() + f": {message}"


def unit_at(model: Any, location: Sequence[int | str]) -> str:
    """The unit of a record's field by its place; "" where it has none."""
    kind: Any = model
    for name in location:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(str(name))
            kinds = [field, *getattr(field.annotation, "__args__", ())] if field else []  # itself, or "or None"
            notes = [note for one in kinds for note in getattr(one, "__metadata__", getattr(one, "metadata", ()))]
            units = [note.name for note in notes if isinstance(note, Unit)]
            if units:
                return units[0].removesuffix("1")
            kind = field.annotation if field else None
        else:
            inner = [a for a in getattr(kind, "__args__", ()) if isinstance(a, type) and issubclass(a, BaseModel)]
            kind = inner[0] if inner else None
    return ""


def short(value: Any) -> str:
    """A value in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def content_digest(thing: Any) -> str:
    """SHA-256 (first 16 hexadecimal digits) of a record's content, the same in every process."""
    text = json.dumps(_plain(thing), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(thing: Any) -> Any:
    if isinstance(thing, BaseModel):
        return thing.model_dump(mode="json")
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = {f.name: _plain(getattr(thing, f.name)) for f in dataclasses.fields(thing) if f.compare}
        return {"type": type(thing).__name__, **fields}
    if isinstance(thing, Mapping):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, (tuple, list)):
        return [_plain(value) for value in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(str(value) for value in thing)
    if thing is None or isinstance(thing, (bool, int, str)):
        return thing
    if isinstance(thing, float):
        return repr(thing)
    if hasattr(thing, "tobytes") and hasattr(thing, "dtype"):
        return [str(thing.dtype), list(thing.shape), hashlib.sha256(thing.tobytes()).hexdigest()]
    return _text(thing)


@lru_cache(maxsize=16_384)
def _text(expression: Hashable) -> str:
    # A graph repeats a few expressions thousands of times, and sympy takes its time to write one.
    return str(expression)
