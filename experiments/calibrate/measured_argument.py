"""What ``--measured`` says in words: a time, and at which numbers of the run it was measured."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name, whole_number
from slipstick.common.records import FrozenDict
from slipstick.experiments.question.settings import number_of

_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:e[+-]?\d+)?", re.IGNORECASE)
_TIME = re.compile(r"(\d[\d.]*(?:e[+-]?\d+)?\s*[a-zµ]+)(?:@(.{1,400}))?", re.IGNORECASE)


@dataclass(frozen=True)
class KnownTime:
    """A time in words.

    `numbers`: whole numbers at which it was measured (devices, tp, concurrency), where they are not those of the
        question.
    `text`: as it was typed.
    """

    seconds: float
    numbers: FrozenDict[int]
    text: str

    def only(self, names: Collection[str], what: str) -> None:
        """Check the names of its numbers.

        Raises InputError where one is none of `names`, or none may be given.
        """
        for name in self.numbers:
            if not names:
                numbers = self.text.partition("@")[2][:60]
                raise InputError(
                    f"--measured {self.text[:60]!r}: {what} is measured at the question's own numbers: leave out "
                    f"@{numbers}, and say them as the question's"
                )
            if name not in names:
                raise unknown_name(f"number of --measured {self.text[:60]!r}, {what}:", name, sorted(names))


def known_time(known: str) -> KnownTime | None:
    """A time in words, "23.4ms" or "3.2s@devices=64,tp=8"; None where something else is meant.

    Raises InputError where the unit or a number cannot be read, or the time is none.

    Examples
    --------
    >>> known_time("23.4ms").seconds, dict(known_time("3.2 s@devices=64,tp=8").numbers), known_time("steps.csv")
    (0.0234, {'devices': 64, 'tp': 8}, None)
    """
    match = _TIME.fullmatch(known.strip())
    if match is None or Path(known).exists():
        if _NUMBER.fullmatch(known.strip()) and not Path(known).exists():
            raise InputError(
                f"--measured {known[:60]}: a time without its unit: {known.strip()}ms or {known.strip()}s?"
            )
        return None
    seconds = number_of("--measured", match[1], "s")
    if not 0 < seconds < math.inf:
        raise InputError(f"--measured {known[:60]}: want a finite time above 0")
    numbers: dict[str, int] = {}
    for part in (match[2] or "").split(",") if match[2] else ():
        name, equals, value = (word.strip() for word in part.partition("="))
        number = whole_number(value)
        if not equals or not number:
            raise InputError(f"--measured {known[:60]!r}: {part[:40]!r}: want NAME=COUNT, such as 3.2s@devices=64,tp=8")
        if name in numbers:
            raise InputError(f"--measured {known[:60]!r}: {name} stands twice")
        numbers[name] = number
    return KnownTime(seconds, FrozenDict(numbers), known.strip())
