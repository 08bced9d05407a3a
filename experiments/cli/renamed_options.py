"""Older words of options, which are still taken, with a line on standard error that names today's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.renamed_arguments import option_name, renamed

VALUES: Mapping[str, Mapping[str, str]] = MappingProxyType({"mixing": {"mixed": "on", "separate": "off"}})
"""Values of an older option that have another word today."""


def todays_words(command: Any, words: Sequence[str]) -> list[str]:
    """A command line with its older options (`renamed_arguments.RENAMED`) as they are called today.

    `command`: of click, or a group of them: an older option is taken where the command has today's.
    Raises InputError where an option is given under both of its names.
    """
    at = 0
    while at < len(words) and words[at] in getattr(command, "commands", {}):
        command = command.commands[words[at]]
        at += 1
    spelled = (name for one in command.params for name in one.opts)
    known = {name.removeprefix("--").replace("-", "_") for name in spelled if name.startswith("--")}
    made, given, value_of = list(words[:at]), dict[str, str](), ""
    for place, word in enumerate(words[at:], at):
        if word == "--":
            return [*made, *words[place:]]
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            made.append(VALUES.get(value_of, {}).get(word, word))
            value_of = ""
            continue
        older = name.replace("-", "_")
        today = renamed(older, known, f"{' '.join(words[:at])} ", "--")
        if given.setdefault(today, older) != older:
            raise InputError(
                f"--{name} and --{option_name(given[today])} are both --{option_name(today)} today: give one"
            )
        value_of = "" if equals or today == older else older
        made.append(
            word if today == older else f"--{option_name(today)}{equals}{VALUES.get(older, {}).get(value, value)}"
        )
    return made
