"""Constants chosen on data say on which, how they are chosen anew, and whether a scoreboard scores the same data."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUNED = sorted(
    path
    for path in (ROOT / "estimators").rglob("*.py")
    if "\nchosen on: " in (text := path.read_text())
    and re.search(r"^chosen on: ", ast.get_docstring(ast.parse(text)) or "", re.M)
)


@pytest.mark.parametrize("path", TUNED, ids=lambda path: path.stem)
def test_a_file_of_tuned_constants_says_where_they_come_from(path: Path) -> None:
    tree = ast.parse(path.read_text())
    text = ast.get_docstring(tree) or ""
    assert re.search(r"^version: \d+$", text, re.M)
    for heading in ("chosen on", "refit", "scored on the same data"):
        assert re.search(rf"^{heading}: \S", text, re.M), heading
    assert "slipstick validate " in text, "the command that scores them"


@pytest.mark.parametrize("path", TUNED, ids=lambda path: path.stem)
def test_a_file_of_tuned_constants_holds_nothing_else(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        assert isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr, ast.ImportFrom)), f"line {node.lineno}"
        if isinstance(node, ast.ImportFrom):
            assert node.module in ("__future__", "collections.abc")


def test_the_page_of_tuned_constants_names_each_file_and_its_version() -> None:
    page = (ROOT / "docs" / "notes" / "tuned.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)\.py` \| (\d+) \|", page, re.M))
    versions = {path.stem: re.findall(r"^version: (\d+)$", path.read_text(), re.M)[0] for path in TUNED}
    assert listed == versions
