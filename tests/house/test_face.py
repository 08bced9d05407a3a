"""What users import: pages and examples reach everything through `slipstick`, and the API page shows what it holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*") if path.suffix in {".md", ".py", ".ipynb", ".toml"})
SHOWN = [ROOT / "README.md", *(path for path in PAGES if path.name != "hooks.py"), *(ROOT / "examples").glob("*.py")]
DEEPER = re.compile(r"(?:from|import)\s+slipstick\.[\w.]+")


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_and_examples_import_from_the_face_only(page: Path) -> None:
    assert DEEPER.findall(page.read_text()) == []


def test_the_api_page_has_the_sections_and_names_of_the_face() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    assert re.findall(r"^(?:## |::: slipstick)(.*)", page, re.M) == sections()


def sections() -> list[str]:
    """Titles and full names of the stub, in its order."""
    lines = (ROOT / "slipstick" / "__init__.pyi").read_text().splitlines()
    titles = {number: line[2:] for number, line in enumerate(lines, 1) if line.startswith("# ")}
    imports = (node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.ImportFrom))
    names = {node.lineno: f".{node.module}.{node.names[0].name}" for node in imports}
    return [text for _, text in sorted({**titles, **names}.items())]
