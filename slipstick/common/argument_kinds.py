"""Kinds of arguments, as a function's annotations say them: what cannot be one is refused with what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number

from slipstick.common.errors import InputError

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
