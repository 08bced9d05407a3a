"""The structure holds: no circles of imports between files or folders, files of readable length."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("hwmodels", "workloads", "estimators", "experiments")
PLUGIN = "experiments/measure/pytest_budget.py"
"""Of no room: pytest loads it by the place that the installed metadata names."""
FILES = sorted(path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
MODULES = {"slipstick." + ".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
MOST_LINES, MEDIAN_LINES = 350, 150


@cache
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


@pytest.mark.parametrize("depth", range(1, 6))
def test_no_circles_of_folders(depth: int) -> None:
    """Folders are read whole at each depth: a folder at that depth holds all that lies below it."""

    def folder(path: Path) -> str:
        return Path(*path.parts[:-1][:depth]).as_posix()

    graph = nx.DiGraph(
        (folder(path), folder(MODULES[other])) for path in FILES for other in imports(path) if str(path) != PLUGIN
    )
    assert [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1] == []


def test_files_are_short() -> None:
    lines = {path.as_posix(): len((ROOT / path).read_text().splitlines()) for path in FILES if path.stem != "__init__"}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
    assert sorted(lines.values())[len(lines) // 2] <= MEDIAN_LINES
