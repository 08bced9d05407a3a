"""Product code and pages use the field's words: phrases of a private dialect that were removed do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("hwmodels", "workloads", "estimators", "experiments")
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
)
PATTERN = re.compile(r"\b(" + "|".join(phrase.replace(" ", r"\s+") for phrase in BANNED) + r")\b", re.IGNORECASE)


def files() -> list[Path]:
    code = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    code += (ROOT / "slipstick").glob("*.py")
    return [
        *code,
        *(path for path in (ROOT / "docs").glob("*.md") if path.name not in {"validation.md", "glossary.md"}),
    ]


def test_removed_words_do_not_come_back() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group(0)!r}"
        for path in files()
        for match in PATTERN.finditer(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize("phrase", BANNED)
def test_glossary_lists_what_is_banned(phrase: str) -> None:
    assert phrase in (ROOT / "docs" / "glossary.md").read_text()
