"""Which of our files import which, by name: tools that follow paths do not see through the links of the layers."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]
LAYERS = ("slipstick/common", "hwmodels", "workloads", "estimators", "experiments")
FILES = sorted(path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
MODULES = {
    "slipstick." + ".".join(path.with_suffix("").parts).removeprefix("slipstick.").removesuffix(".__init__"): path
    for path in FILES
}


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of one of `FILES`, read once; nobody changes it."""
    return ast.parse((ROOT / path).read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the syntax tree of one of `FILES`, gathered once."""
    return tuple(ast.walk(tree(path)))


@cache
def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports, inside functions too; imports for the type checker alone do not run."""
    typing = {
        id(inner)
        for node in nodes(path)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found & set(MODULES)


def folders(depth: int = 9) -> nx.DiGraph[str]:
    """Folder -> the folders that it imports; what lies deeper than `depth` counts as the folder at that depth."""

    def folder(path: Path) -> str:
        return Path(*path.parts[:-1][:depth]).as_posix()

    pairs = ((folder(path), folder(MODULES[name])) for path in FILES for name in imports(path))
    return nx.DiGraph((one, other) for one, other in pairs if one != other)
