"""Arguments of functions: a keyword that is not known is refused with the nearest, an older one is taken with a hint.

What is of no kind that the function's annotation names is refused too, with what is wanted.

Kinds of arguments, as a function's annotations say them: what cannot be one is refused with what is wanted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, signature
from numbers import Number
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name

WORDS = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "True or False", "None": "None"}
"""What is wanted, by the word of an annotation; classes are wanted by their names."""
NUMBERS = {"int", "float", "bool"}
SEVERAL = {
    "Sequence": "several in a list", "Collection": "several in a list", "tuple": "a tuple", "Mapping": "a dictionary",
}  # fmt: skip
CLASSES = {"Answer", "Estimator", "Machine", "Measurement", "Question", "Series", "Workload"}
"""Of which no text is one, whatever else of them may be written."""
TEXTS = {"train": "adam", "input": ["batch,3,224,224"], "dtype": "bf16", "settings": ["run.threads=4"]}
"""Arguments that are often taken for others, and what may be written."""
ANYTHING = {"Any", "object", "Callable", "Literal", "ArrayLike"}


def check_kind(function: str, name: str, value: object, annotation: str) -> None:
    """Check an argument against its annotation, as far as words of it say: None, numbers, texts, and several at once.

    Objects, and values of annotations that this does not read, are left to the function.

    `annotation`: as written: "str | Machine", "int | None".
    Raises InputError where the value is of no kind that the annotation names.
    """
    kinds = _kinds(annotation)
    if kinds and not _fits(value, kinds):
        *others, last = [_wanted(kind) for kind in kinds]
        wanted = f"{', '.join(others)} or {last}" if others else last
        hint = f", {name}={TEXTS[name]!r}" if name in TEXTS else ""
        raise InputError(f"{function}: {name} = {' '.join(repr(value).split()):.60}: want {wanted}{hint}")


def _wanted(kind: str) -> str:
    return WORDS.get(kind) or SEVERAL.get(kind) or f"an object of {kind}"


def _kinds(annotation: str) -> list[str]:
    """Words of a union, of generic types their head; none where some of it may be anything."""
    depth, parts = 0, [""]
    for letter in annotation:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    kinds = [part.strip().partition("[")[0].rpartition(".")[2] for part in parts]
    return [] if ANYTHING & set(kinds) else kinds


def _fits(value: object, kinds: list[str]) -> bool:
    named = set(kinds)
    if value is None:
        return "None" in named
    plain, several = named <= {*WORDS, *SEVERAL}, bool(named & {*SEVERAL})
    if isinstance(value, bool | Number):
        return bool(named & NUMBERS) or not (plain or "str" in named)
    if isinstance(value, str):
        return "str" in named or not named <= {*NUMBERS, *SEVERAL, *CLASSES, "None"}  # else its letters would be taken
    if isinstance(value, list | tuple | set | Mapping):
        return several or not (plain or "str" in named)
    return hasattr(value, "__iter__") or not named <= {*SEVERAL, "None"}


P = ParamSpec("P")
R = TypeVar("R")


RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "known": "measured",
        "parts": "top",
        "spread": "length_range",
        "count": "num_requests",
        "step_tokens": "max_batched_tokens",
        "max_sequences": "max_num_seqs",
        "prefix": "prefix_hit_rate",
        "mixing": "chunked_prefill",
        "draft_share": "draft_cost",
        "finish": "resume_steps",
        "start": "tune_from",
        "project": "target_log",
        "marker": "step_pattern",
        "rule": "concurrency_rule",
        "for": "workload",
        "trusted": "allow_code",
        "beside": "baselines",
        "slow_first": "warm_up",
        "sheet": "bricks_file",
        "label": "cache_state",
    }
)
"""Today's word by the older one: of options, of arguments, of numbers of a run and of keys of a study's file. The older
is taken wherever a command or a function has today's and not the older itself, until the next minor release."""


IN_PLACES: Mapping[str, str] = MappingProxyType({"engine": "trainer"})
"""Words that are older in some places alone: what trains was called an engine, as what serves still is."""


def renamed(word: str, known: Collection[str], where: str, dashes: str = "") -> str:
    """Today's word for one that is not known, where that is known; else the word as it is.

    `where`: what has the word, for the line on standard error that names today's.
    `dashes`: what stands before an option.

    Examples
    --------
    >>> renamed("parts", {"top"}, "read"), renamed("parts", {"parts", "top"}, "read")
    ('top', 'parts')
    """
    today = RENAMED.get(word) or IN_PLACES.get(word, word)
    if word in known or today not in known:
        return word
    before, after = (option_name(one) if dashes else one for one in (word, today))
    print(f"slipstick: {where}{dashes}{before} is called {dashes}{after} now", file=sys.stderr)
    return today


def option_name(word: str) -> str:
    """A word as the command line has it."""
    return word.replace("_", "-")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function; a keyword that it does not know raises an `InputError` that names the nearest.

    An older keyword (`RENAMED`) is taken for today's, and a line on standard error says so.

    Examples
    --------
    >>> @checked
    ... def serve(concurrency: int) -> int:
    ...     return concurrency
    >>> serve(concurency=4)
    Traceback (most recent call last):
    slipstick...InputError: unknown argument of serve 'concurency'; did you mean 'concurrency'? (known: concurrency)
    """
    known = signature(function).parameters
    open_ = any(one.kind is Parameter.VAR_KEYWORD for one in known.values())

    @wraps(function)
    def called(*arguments: P.args, **named: P.kwargs) -> R:
        for old in RENAMED.keys() & named.keys():
            new = renamed(old, known.keys(), f"{function.__name__}: ")
            if new != old and new in named:
                raise InputError(f"{function.__name__}: {old} and {new} are one argument: give {new}")
            named[new] = named.pop(old)
        for name in () if open_ and _can_be_called(function, arguments, named) else named:
            if name not in known:
                raise unknown_name(f"argument of {function.__name__}", name, list(known))
        for name, value in (*zip(known, arguments, strict=False), *named.items()):
            one = known.get(name)
            if one is not None and isinstance(one.annotation, str) and one.default is not value:
                check_kind(function.__name__, name, value, one.annotation)
        try:
            return function(*arguments, **named)
        except InputError as error:
            error.args = (as_arguments(str(error), known),)
            raise

    return called


def as_arguments(message: str, known: Collection[str]) -> str:
    """A message that speaks of options, with a function's arguments for them; commands that it proposes stay.

    Examples
    --------
    >>> as_arguments("--on a100, --draft-tokens 4; slipstick read --top 3", {"machine", "draft_tokens", "top"})
    'machine=a100, draft_tokens=4; slipstick read --top 3'
    >>> as_arguments("leave --lengths out", {"lengths"})
    'leave lengths out'
    """

    def word(match: re.Match[str]) -> str:
        option = (match["option"] or "").replace("-", "_")
        name = next((one for one in (option, ARGUMENTS.get(option, "")) if one in known), "")
        return f"{name}{'=' if match['value'] else ''}" if name else match[0]

    return _OPTION.sub(word, message)


ARGUMENTS: Mapping[str, str] = MappingProxyType({"on": "machine", "set": "settings", "file": "series"})
"""Words that an option and a function's argument do not share."""
_VALUE = r"(?!(?:out|too|names|shows|decides)\b)[\w'\"./-]+(?:$|[:,;)@])"
_OPTION = re.compile(rf"slipstick [^;:,)]*|--(?P<option>[a-z][a-z-]*[a-z])(?P<value> (?={_VALUE}))?")


def _can_be_called(function: Callable[..., object], arguments: tuple[object, ...], named: dict[str, object]) -> bool:
    """Whether nothing is missing: a function that takes numbers of any name then says which it knows."""
    try:
        signature(function).bind(*arguments, **named)
    except TypeError:
        return False
    return True
