"""Relative links of the README, the documentation and the notes lead to files that are there, and to their headings.

`make docs` builds the site strictly, where a dead link is a warning and a warning a failure; this needs no builder.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^()\s#]*)(?:#([^()\s]+))?\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Identifiers of a page's headings, as MkDocs and GitHub make them, and those that it sets itself."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def is_made(target: Path) -> bool:
    """Whether `make docs` makes this page from a scoreboard's rows."""
    return target.parent == ROOT / "docs" / "validation" and (target.parent / "rows" / f"{target.stem}.json").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for path, anchor in LINK.findall(CODE.sub("", page.read_text())):
        target = (page.parent / path).resolve() if path else page
        missing = not (target.exists() or is_made(target)) or (target.is_dir() and "docs" in page.parts)
        if missing or (anchor and target.exists() and target.suffix == ".md" and anchor not in anchors(target)):
            dead.append(f"{path}#{anchor}")
    assert dead == []
