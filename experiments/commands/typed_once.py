"""An option that is typed twice: it would be read once, and what was typed first dropped without a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstick.hwmodels.files.errors import InputError


def require_once(command: Any, words: Sequence[str]) -> None:
    """Refuse an option with one value that stands several times among the words of a command or of one of its group.

    Parameters
    ----------
    command
        A command of click, or a group of them.

    Raises
    ------
    InputError
        Where there is one.
    """
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    options = {name: one for one in command.params for name in one.opts if name.startswith("-")}
    seen: set[str] = set()
    while rest:
        name, equals, _ = rest.pop(0).partition("=")
        one = options.get(name)
        if name == "--":
            return
        if one is None or one.is_flag:
            continue
        if not equals and rest:
            rest.pop(0)
        if one.name in seen and not one.multiple:
            raise InputError(f"{name} stands twice: give it once (where it takes several, with commas between them)")
        seen.add(one.name)
