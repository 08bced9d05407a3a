"""The structure holds: no import circles, small rooms, files that can be told apart, files of readable length."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("hwmodels", "workloads", "estimators", "experiments")
CATALOGUES = ("hwmodels/catalog", "workloads/graphs", "experiments/commands")
FILES = sorted(path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
MODULES = {"slipstick." + ".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
MOST_ENTRIES, MOST_LINES, MEDIAN_LINES = 12, 350, 150


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports, inside functions too; imports for the type checker alone do not run."""
    tree = ast.parse((ROOT / path).read_text())
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found & set(MODULES)


def test_no_import_circles_not_even_inside_functions() -> None:
    graph = nx.DiGraph((module, other) for module, path in MODULES.items() for other in imports(path))
    assert [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_no_two_files_of_one_name_in_a_layer(layer: str) -> None:
    names = Counter(
        path.name
        for path in FILES
        if path.parts[0] == layer and path.name != "__init__.py" and "commands" not in path.parts
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_folder_with_more_than_twelve_entries() -> None:
    entries: dict[Path, set[str]] = {}
    for path in FILES:
        for depth in range(1, len(path.parts)):
            entries.setdefault(Path(*path.parts[:depth]), set()).add(path.parts[depth])
    full = {
        folder.as_posix(): len(found - {"__init__.py"})
        for folder, found in entries.items()
        if len(found - {"__init__.py"}) > MOST_ENTRIES and folder.as_posix() not in CATALOGUES
    }
    assert full == {}


def test_files_are_short() -> None:
    lines = {path.as_posix(): len((ROOT / path).read_text().splitlines()) for path in FILES if path.stem != "__init__"}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
    assert sorted(lines.values())[len(lines) // 2] <= MEDIAN_LINES
