"""Product code and pages use the field's words: phrases of a private dialect that were removed do not come back."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from slipstick.common.renamed_arguments import RENAMED
from slipstick.experiments.cli.vocabulary import WORDS
from tools.imports import FILES, ROOT, nodes

BANNED = (
    "words a second",
    "one word after the other",
    "has no say",
    "have no say",
    "no say in",
    "left over",
    "asked of",
    "asked about",
    "asked point by point",
    "can be asked",
    "cannot be asked",
    "cannot be told",
    "be told apart",
    "not told apart",
    "foretold",
    "told by",
    "told from",
    "tells apart",
    "is said on",
    "nothing else is said",
    "what is said of",
    "can be said",
    "to be said",
    "is not said",
    "unless said",
    "foretell",
    "foretells",
    "asks for",
    "asked for",
    "cannot tell",
    "does not tell",
)
PATTERN = re.compile(r"\b(" + "|".join(phrase.replace(" ", r"\s+") for phrase in BANNED) + r")\b", re.IGNORECASE)


NAMES = {"asked": 0, "said": 0, "told": 0, "found": 6, "own": 0, "on": 4}
"""Names of variables, arguments and functions, and how often they may still stand: lower it when you mend one. Instead:
query, notes, predicted, result, what is meant, machine. Options such as --on keep theirs."""


def files() -> list[Path]:
    return [*(ROOT / path for path in FILES), *(ROOT / "slipstick").glob("*.py"), *(ROOT / "docs").rglob("*.md")]


def test_removed_words_do_not_come_back() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group(0)!r}"
        for path in files()
        for match in PATTERN.finditer(path.read_text())
    ]
    assert found == []


def names() -> list[tuple[str, str]]:
    """(file, name) of everything that product code names."""
    made: list[tuple[str, str]] = []
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                made.append((path.name, node.id))
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                made.append((path.name, node.name))
            elif isinstance(node, ast.arg) and path.parent.name != "cli":  # whose options have the vocabulary
                made.append((path.name, node.arg))
    return made


def test_names_become_rarer() -> None:
    made = names()
    counts = Counter(name for _, name in made)
    over = {name for name, most in NAMES.items() if counts[name] > most}
    assert [(file, name) for file, name in made if name in over] == []


RETIRED = frozenset(
    "beliefs doubts fade faded fed foretold handed handing kin kinship stranger strangers told twins".split()  # noqa: SIM905
)
"""Words of no field, which stand in no name of a module, class or function, no option and no key of an output: weights
by distance and likeness, priors, warnings, what an input bounds, transfers of a cache, holdouts are called so."""
OF_MODULES = RETIRED | {"held", "kept", "opened", "standing"}
"""Nor in one of a module or class: adjectives that stood for things; and no module is called `by_name`."""
OF_FILES = {"doubts"}
"""Keys of shipped files, which keep them until they are fitted again."""
OLD_OPTIONS = RETIRED | RENAMED.keys()


def parts(name: str) -> set[str]:
    """The words of a name, lower case: of ``HeldClass`` held and class."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def test_retired_words_name_nothing() -> None:
    found = [str(path) for path in FILES if parts(path.stem) & OF_MODULES or path.stem == "by_name"]
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and parts(node.name) & OF_MODULES:
                found.append(f"{path}: class {node.name}")
            elif isinstance(node, ast.FunctionDef) and parts(node.name) & RETIRED:
                found.append(f"{path}: {node.name}")
            elif isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
                found += [f"{path}: {key!r}" for key in keys if key not in OF_FILES and parts(key) & RETIRED]
    assert found == []
    assert [word for word in WORDS if word in OLD_OPTIONS or parts(word) & RETIRED] == []
