"""Plain data as TOML, which the standard library only reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def toml_text(document: Mapping[str, Any]) -> str:
    """Plain data as TOML: values first, then tables."""
    return "\n".join(_toml_lines(document, ())) + "\n"


def _toml_lines(table: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    for name, value in table.items():
        if not isinstance(value, Mapping):
            yield f"{_toml_key(name)} = {_toml_value(value)}"
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield ""
            yield f"[{'.'.join(_toml_key(word) for word in (*place, name))}]"
            yield from _toml_lines(value, (*place, name))


def _toml_key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isascii() and plain.isalnum() else json.dumps(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(entry) for entry in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
