"""The verbs of the program, as its parser has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any


@cache
def verbs() -> dict[str, list[Any]]:
    """Every verb in full ("plan serving") with its parameters."""
    from typer.main import get_command

    from slipstick.experiments.cli.cli import build

    def walk(command: Any, name: str) -> Iterator[tuple[str, list[Any]]]:
        for word, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {word}".strip())
        if not hasattr(command, "commands"):
            yield name, command.params

    return dict(walk(get_command(build()), ""))


@cache
def options() -> dict[str, tuple[str, ...]]:
    """The options of every verb, long and short."""
    return {
        name: tuple(word for one in taken for word in one.opts if word.startswith("-"))
        for name, taken in verbs().items()
    }
