"""Files of fitted costs, JSON with a schema, read within bounds: those of reuse, of devices, of a host's kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json, require_mapping

Document = Mapping[str, Any]
Made = TypeVar("Made")


def from_document(path: str | Path, schema: str, what: str, made: Callable[[Document], Made]) -> Made:
    """What `made` makes of a file's document.

    Raises InputError, which names the file, where the schema is another or `made` finds a field missing or wrong.
    """
    document = require_mapping(read_json(path), path, "file")
    if document.get("schema") != schema:
        raise InputError(f"{path}: want {what} of schema {schema!r}")
    try:
        return made(document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: {what} without a usable {error}") from None


def number(name: str, value: Any, high: float) -> float:
    """A field as a number, in the unit that it has in the file.

    Raises ValueError where it is none of 0 to `high`.
    """
    result = float(value)
    if not 0 <= result <= high:
        raise ValueError(f"{name} = {result:g}: want a number in [0, {high:g}]")
    return result
