"""Parts of what is kept from run to run (see `disk_cache`), each checked to be of its type and within its bounds."""

from __future__ import annotations

import math
from typing import Any

from slipstick.common.errors import InputError

MOST_PARTS = 1_000_000
"""Entries of a list or a table."""
LARGEST_NUMBER = 1e300


def cached_list(value: Any, field: str, most: int = MOST_PARTS) -> list[Any]:
    """The value, if it is a list of at most `most` entries.

    Raises InputError where it is none; so do the others.
    """
    if type(value) is not list or len(value) > most:
        raise _unlike(field, f"a list of at most {most:,}")
    return value


def cached_table(value: Any, field: str) -> dict[str, Any]:
    """The value, if it is an object of JSON."""
    if type(value) is not dict:
        raise _unlike(field, "named parts")
    return value


def cached_text(value: Any, field: str) -> str:
    """The value, if it is a text."""
    if type(value) is not str:
        raise _unlike(field, "a text")
    return value


def cached_texts(value: Any, field: str) -> tuple[str, ...]:
    """The value as a tuple, if it is a list of texts that differ."""
    texts = tuple(cached_text(one, field) for one in cached_list(value, field))
    if len(set(texts)) < len(texts):
        raise _unlike(field, "no text twice")
    return texts


def cached_number(value: Any, field: str) -> int | float:
    """The value, if it is a finite number that a float can hold, in the unit that its field has."""
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > LARGEST_NUMBER:
        raise _unlike(field, "a finite number")
    number: int | float = value
    return number


def cached_places(value: Any, field: str, count: int) -> list[int]:
    """The value, if it is a list of whole numbers from 0 up to `count`, which is left out."""
    if not all(type(one) is int and 0 <= one < count for one in cached_list(value, field)):
        raise _unlike(field, f"whole numbers below {count:,}")
    places: list[int] = value
    return places


def _unlike(field: str, wanted: str) -> InputError:
    return InputError(f"what was kept: {field}: want {wanted}")
