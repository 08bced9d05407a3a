"""Words that cannot both be meant: an option typed twice, a file that is written over one that is read or written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError

WRITTEN = ("--report", "--plot", "--timeline", "--out", "--save", "--graph", "--bricks-file", "--export")
"""Options whose value is a file that is written, or a folder of them."""

PAGES = (".html", ".htm")


def missing(error: Any, words: Sequence[str]) -> str:
    """All that a command needs and that is not among the words, in a line; "" where click's error names it all.

    `error`: click's about the first thing that it missed.
    """
    context, first = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None or first is None:
        return ""
    typed = {word.partition("=")[0] for word in words}
    needed = [one for one in context.command.params if one.required and one.param_type_name == "option"]
    names = [repr(one.opts[0]) for one in needed if not typed & {*one.opts, *one.secondary_opts}]
    argument = [f"argument {first.name!r}"] if first.param_type_name == "argument" else []
    options = [f"option{'s' if len(names) > 1 else ''} {', '.join(names)}"] if names else []
    return f"Missing {' and '.join([*argument, *options])}."


HINTS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("compile", "compiled"), ("--mode compiled",)),
    "eager": ("--mode eager",),
    "graphs": ("--mode graphs",),
    "training": ("--train adamw",),
    "precision": ("--dtype",),
    **dict.fromkeys(("html", "page"), ("--report",)),
    **dict.fromkeys(("output", "export"), ("--out", "--save", "--format json")),
    "json": ("--format json",),
    "csv": ("--format csv",),
    **dict.fromkeys(("machine", "hardware", "gpu", "device"), ("--on",)),
}
"""What people write for an option, and which is meant: the first that the command has."""


def spelled(command: Any) -> list[str]:
    """The options of a command of click as they are typed, those of numbers too where it takes any."""
    names = [name for one in command.params for name in one.opts if name.startswith("--") and name != "--number"]
    return [*names, "--mode"] if any(one.name == "number" for one in command.params) else names


def meant(name: str, options: Sequence[str]) -> str:
    """The one of `options` that is likely meant by an option `name`, which is none of them; "" where none is near."""
    hints = [text for text in HINTS.get(name.replace("-", "_"), ()) if text.split()[0] in options]
    return next(iter(hints or get_close_matches(f"--{name.replace('_', '-')}", options, n=1)), "")


def unknown(error: Any) -> str:
    """The message for an option that a command lacks, by click's error."""
    hint = meant(error.option_name.removeprefix("--"), spelled(error.ctx.command)) if error.ctx else ""
    return f"unknown option {error.option_name}{hint and f'; did you mean {hint}?'}"


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


def require_apart(words: Sequence[str]) -> None:
    """Refuse an empty value, a file that two options write, and to write over one that another word names to read.

    A report is a page, and goes over nothing but a page: files that are read may name others, as a machine the one
    that it extends.

    Raises
    ------
    InputError
        Where a file is both.
    """
    written: list[tuple[str, str, int]] = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        at = place if equals else place + 1
        if not name.startswith("--") or at >= len(words):
            continue
        value = value if equals else words[at]
        if not value:
            raise InputError(f"{name}: its value is empty")
        if name in WRITTEN:
            written.append((name, value, at))
    first: dict[str, str] = {}
    for name, value, _ in written:
        other = first.setdefault(os.path.realpath(value), name)
        if other != name:
            raise InputError(f"{name} {value}: is written twice, by {other} as well; name another file")
    for name, value, at in written:
        others = [part for one in (*words[:at], *words[at + 1 :]) for part in (one, *_WITHIN.split(one))]
        if _is_file(value) and any(_is_file(other) and Path(other).samefile(value) for other in others):
            raise InputError(f"{name} {value}: is read by the same command; write to another file")
        if name == "--report" and Path(value).suffix.lower() not in PAGES and (Path(value).suffix or _is_file(value)):
            raise InputError(f"{name} {value}: a report is a page; want FILE.html")


_WITHIN = re.compile("[,:=@]")
"""Between a file and what else is in a word: ``decode:config.json``, ``net.py:make``, ``--measured=a.csv,b.csv``."""


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False
