"""Fields of untrusted documents, taken out with words for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import number_of, require_mapping, with_e


def numeric_names(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names that every point gives a number for, in the order of the first."""
    if not points:
        return []
    return [name for name in points[0] if all(is_number(point.get(name)) for point in points)]


def is_number(value: object) -> bool:
    """Whether a value is a number, or text that reads as one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    try:
        float(with_e(value))  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


def as_list(value: object, where: str) -> list[Any]:
    """A value that must be a list.

    Raises InputError where it is none.
    """
    if not isinstance(value, list):
        raise InputError(f"{where}: want a list, got {str(value)[:40]!r}")
    return value


def as_mapping(value: object, where: object) -> Mapping[str, Any]:
    """A value that must have named fields."""
    return require_mapping(value, where, "entry")


def field_of(entry: object, key: str, where: str) -> Any:
    """One field of an entry.

    Raises InputError where the entry lacks it.
    """
    if not isinstance(entry, Mapping) or key not in entry:
        raise InputError(f"{where}: no field {key!r}")
    return entry[key]


def optional_mapping(entry: object, key: str, where: object) -> Mapping[str, Any]:
    """The named fields under a key of an entry; none where the key is missing or null."""
    return require_mapping(as_mapping(entry, where).get(key) or {}, where, key)


def as_point(values: object, count: int, where: str) -> tuple[float, ...]:
    """The coordinates of a point, shape (parameters,).

    Raises InputError where their number is not that of the parameters, or one is no number.
    """
    numbers = values if isinstance(values, list) else [values]
    if len(numbers) != count:
        raise InputError(f"{where}: {len(numbers)} coordinates for {count} parameters")
    return tuple(number_of(number, where) for number in numbers)
