"""The structure holds: no circles of files or folders, files of readable length, one home for a class name."""

from __future__ import annotations

import ast
import re
from collections import Counter

import networkx as nx
import pytest

from tools.imports import FILES, MODULES, ROOT, folders, imports, nodes

MOST_LINES, MEDIAN_LINES = 600, 150
LONGEST_FUNCTION = 120
"""Lines; the signatures of commands are their options, a line or two each."""
MOST_SHARED = 0
"""Names of classes that several files define: lower it where you rename one."""
CLASS = re.compile(r"^ *class (\w+)[(:\[]", re.M)


def test_no_import_circles_not_even_inside_functions() -> None:
    graph = nx.DiGraph((module, other) for module, path in MODULES.items() for other in imports(path))
    assert [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1] == []


@pytest.mark.parametrize("depth", range(1, 6))
def test_no_circles_of_folders(depth: int) -> None:
    """Folders are read whole at each depth: a folder at that depth holds all that lies below it."""
    assert [sorted(group) for group in nx.strongly_connected_components(folders(depth)) if len(group) > 1] == []


def test_few_class_names_have_several_homes() -> None:
    homes = Counter(name for path in FILES for name in CLASS.findall((ROOT / path).read_text()))
    assert len(homes) > 500
    assert len(shared := {name for name, count in homes.items() if count > 1}) <= MOST_SHARED, sorted(shared)


def test_files_are_short() -> None:
    lines = {path.as_posix(): len((ROOT / path).read_text().splitlines()) for path in FILES if path.stem != "__init__"}
    tests = {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in ROOT.glob("tests/**/*.py")
    }
    assert {name: count for name, count in (lines | tests).items() if count > MOST_LINES} == {}
    assert sorted(lines.values())[len(lines) // 2] <= MEDIAN_LINES


def _own_lines(node: ast.FunctionDef) -> int:
    """Lines of a function's body, without those of functions inside it (a verb's commands are)."""
    inner = [one for one in ast.walk(node) if isinstance(one, ast.FunctionDef) and one is not node]
    taken = {line for one in inner for line in range(one.lineno, (one.end_lineno or 0) + 1)}
    return len(set(range(node.body[0].lineno, (node.end_lineno or 0) + 1)) - taken)


def test_functions_are_short() -> None:
    long = {
        f"{path}:{node.name}": length
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and (length := _own_lines(node)) > LONGEST_FUNCTION
    }
    assert long == {}
