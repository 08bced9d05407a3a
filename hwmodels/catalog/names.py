"""Names of machines as people and profilers write them: "H100", "NVIDIA A100-SXM4-80GB", "mi300x"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

VENDORS = frozenset(
    "nvidia amd intel google apple instinct tesla geforce quadro radeon xeon gold platinum cpu gpu tpu graphics".split()  # noqa: SIM905
)
"""Words that alone distinguish no two machines of the catalogue."""
LONGEST = 200
"""Letters of a spelling that are compared: no name has as many."""
FORM = {"sxm2": "sxm", "sxm3": "sxm", "sxm4": "sxm", "sxm5": "sxm", "pcie3": "pcie", "pcie4": "pcie", "pcie5": "pcie"}


@lru_cache(maxsize=2_048)
def tokens(name: str) -> frozenset[str]:
    """The words and numbers of a name, lower case; vendors left out where anything else is there.

    >>> sorted(tokens("NVIDIA A100-SXM4-80GB"))
    ['80gb', 'a100', 'sxm']
    """
    joined = re.sub(r"(\d)\s+(gb|gib|core|cores)\b", r"\1\2", name.lower())
    words = [FORM.get(word, word) for word in re.findall(r"[a-z0-9]+", joined)]
    return frozenset(word for word in words if word not in VENDORS) or frozenset(words)


def exact(name: str, names: Mapping[str, Iterable[str]]) -> str | None:
    """The machine one of whose names has the same words; None where there is none or more than one.

    `names`: machine -> its names.
    """
    wanted, joined = tokens(name), _joined(name)
    matches = {machine for machine, aliases in names.items() if any(tokens(one) == wanted for one in aliases)}
    if not matches:
        matches = {machine for machine, aliases in names.items() if any(_joined(one) == joined for one in aliases)}
    return matches.pop() if len(matches) == 1 else None


@lru_cache(maxsize=2_048)
def _joined(name: str) -> str:
    """Letters and digits alone: TPUv2 is tpu-v2."""
    return re.sub("[^a-z0-9]", "", name.lower())


def within(device: str, names: Mapping[str, Iterable[str]]) -> str | None:
    """The machine whose name has the most words that all stand in a profiler's name of the device; None: none has."""
    there = tokens(device)
    fitting = [
        (len(tokens(one)), machine)
        for machine, aliases in names.items()
        for one in aliases
        if tokens(one) and tokens(one) <= there
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _alike(one: str, other: str) -> float:
    """How much two spellings have in common, between 0 and 1."""
    return SequenceMatcher(None, one[:LONGEST].lower(), other.lower()).ratio()


def closest(name: str, names: Mapping[str, Iterable[str]], count: int = 3) -> list[str]:
    """Machines that may be meant, best first: those that share a word with a number in it, else similar spellings."""
    wanted = tokens(name)
    numbered = {word for word in wanted if any(letter.isdigit() for letter in word)}
    models = {word for word in numbered if not word.endswith(("gb", "gib")) and len(word) > 1}  # '8' is no model
    shared = [machine for machine, aliases in names.items() if models & frozenset().union(*map(tokens, aliases))]
    if shared:
        return sorted(shared, key=lambda machine: (len(tokens(machine) ^ wanted), -_alike(name, machine), machine))[
            :count
        ]
    letters = re.match(r"[a-z]*", min(models)) if models else None  # 'h1000' is no 'mi100'
    start = letters[0] if letters else ""
    alike = [
        (_alike(name, one), machine)
        for machine, aliases in names.items()
        for one in aliases
        if any(word.startswith(start) for word in tokens(one))
    ]
    best = sorted(((score, machine) for score, machine in alike if score > 0.6), reverse=True)
    return list(dict.fromkeys(machine for _, machine in best))[:count]
