"""Every place of the program that reads a file, found by looking at the code, and the table of docs/security.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.imports import FILES, nodes, tree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
LAYERS = ("hwmodels", "workloads", "estimators", "experiments")
LABORATORY = {"papers", "scoreboards", "scoring"}
OPENERS = frozenset(
    {
        *(
            "opened",
            "read_bytes",
            "head",
            "read_private",
            "read_text",
            "read_lines",
            "read_json",
            "read_yaml",
            "read_toml",
        ),
        *(
            "read_csv_rows",
            "table_rows",
            "read_arrays",
            "tables",
            "own_tables",
            "written",
            "import_own",
            "found_here",
            "read_cached",
        ),
    }
)
"""The only functions that open files (`tests/house/test_one_opener.py`), and those that import what a user named."""
HEADER = "| reader | reads | trust | bounds | attacked as |"


@dataclass(frozen=True)
class Row:
    """A row of the table: who reads what, whether it is trusted, what bounds it, and the reader that is attacked."""

    reader: str
    reads: str
    trust: str
    bounds: str
    attacked: str


def registered() -> set[str]:
    """Functions and classes that call an opener: by their name, those of one file alone with the file's."""
    found = set()
    for path in FILES:
        if path.parts[0] not in LAYERS or LABORATORY & {*path.parts}:
            continue
        known = {
            alias.asname or alias.name
            for node in nodes(path)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slipstick.common")
            for alias in node.names
            if alias.name in OPENERS
        }
        for name, function in _functions(path) if known else ():
            calls = {
                node.func.id
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            if calls & known:
                found.add(name)
    return found


def _functions(path: Path) -> Iterator[tuple[str, ast.AST]]:
    stem = path.stem
    for node in tree(path).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield f"{stem}.{node.name}" if node.name.startswith("_") else node.name, node


def rows() -> list[Row]:
    """The table of the page."""
    lines = PAGE.read_text().splitlines()
    start = lines.index(HEADER) + 2
    result = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        result.append(Row(*cells))
    return result
