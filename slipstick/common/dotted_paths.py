"""Walks through nested records, mappings and tuples by dotted paths."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import BaseModel


def names_in(value: Any) -> Collection[str]:
    """Names of what a value holds."""
    return type(value).model_fields if isinstance(value, BaseModel) else fields_in(value)


def fields_in(value: Any) -> Mapping[str, Any]:
    """What a record, a mapping or a tuple holds, by name; nothing of a plain value."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).__pydantic_fields__}
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple):
        return {str(i): entry for i, entry in enumerate(value)}
    return {}


def truth_in(value: Any, path: str = "") -> tuple[str, bool] | None:
    """The first truth among plain values, with its dotted path; None where there is none."""
    if isinstance(value, bool):
        return path, value
    if isinstance(value, (str, int, float)) or not isinstance(value, Mapping):
        return None
    inside = (truth_in(entry, f"{path}.{name}" if path else str(name)) for name, entry in value.items())
    return next(filter(None, inside), None)


def sources_apart(data: Any) -> Any:
    """A machine's fields with each source under the name of one field.

    Raises ValueError where a field has two.
    """
    sources = data.get("sources") if isinstance(data, Mapping) else None
    if not isinstance(sources, Mapping):
        return data
    each = [(path.strip(), source) for paths, source in sources.items() for path in str(paths).split(",")]
    if len(each) > len(apart := dict(each)):
        twice = sorted({path for path, _ in each if sum(path == other for other, _ in each) > 1})
        raise ValueError(f"sources: {twice[0]} has two")
    return {**data, "sources": apart}


def numbers_of(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Numbers with their dotted paths; sources hold none."""
    if isinstance(value, (bool, str)):
        return
    if isinstance(value, (int, float)):
        yield path, value
        return
    for name, entry in fields_in(value).items():
        if name != "sources":
            yield from numbers_of(entry, f"{path}.{name}" if path else name)


def as_before(machine: dict[str, Any]) -> dict[str, Any]:
    """A machine's fields without those that files did not have once, where they say nothing.

    So a machine that was measured before there was such a field keeps its fingerprint.
    """
    runtime = {name: value for name, value in machine["runtime"].items() if name != "weights_between" or value}

    def stated(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if name not in LATER or value != LATER[name]}

    inside = {part: {name: stated(fields) for name, fields in machine[part].items()} for part in ("engines", "memory")}
    return {**stated(machine), "runtime": runtime, **inside}


ONE_DIE = {"count": 1, "bandwidth": None, "local": None}
LATER: dict[str, Any] = {"cores_per_die": None, "dies": ONE_DIE, "lanes": None, "channels": None, "ecc": "aside"}
"""Fields that files did not have once, and what says nothing of them."""
