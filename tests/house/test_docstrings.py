"""Every public function says what it means: a sentence, units or shapes of its numbers, the errors that it raises.

Public is what does not begin with an underscore, at the top of a module or in a public class. A function that raises
InputError itself, not through others, says "Raises InputError where ...", or has a section Raises where the API page
shows it. The docstring of a command is its help for users.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.imports import FILES, LAYERS, nodes, tree

NUMBERS = re.compile(r"\b(float|complex|Amount|ArrayLike|NDArray|\w*Floats?|FloatArray)\b")
UNITS = re.compile(
    r"(?i:\b(seconds?|bytes?|bits?|flop\w*|hertz|joules?|watts?|volts?|cycles?|tokens?|dollars?|octaves?|units?|SI|"
    r"shares?|ratios?|factors?|log\w*|elasticit\w+|probabilit\w+|per cent|percent\w*|quantiles?|weights?|digits|"
    r"standard deviations?|spreads?|variance|covariance|residuals?|utilisation|shape[sd]?|rows?|columns?|accesses|"
    r"counts?|number of|numbers|how many|how often|so many|amounts?|index|indices|places?|elements|threads|workers|"
    r"devices|users)\b)|\b(Hz|J|W|s)\b|%|\([nkm], ?"
)
"""Words of which one says what a number is: its unit, its shape, or what is counted."""
HEADING = re.compile(r"^Raises( InputError\b|\n-{6}\n(?: *\n)?.*\bInputError\b)", re.M | re.S)


@dataclass(frozen=True)
class Function:
    """A public function or method of product code."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: str

    @property
    def missing(self) -> list[str]:
        """What its docstring lacks."""
        text = ast.get_docstring(self.node) or ""
        if re.search(
            r"typer\.|option\(|: Format", ast.unparse(self.node.args)
        ):  # a command: its docstring is the help that users see
            return [] if text else ["a sentence"]
        lacks = [] if re.match(r"\S.{8,}?[.:;?]", text, re.S) or text.endswith("`") else ["a sentence"]
        if self._numeric() and not UNITS.search(text + self.owner):
            lacks.append("units or shapes")
        if self._refuses() and not HEADING.search(text):
            lacks.append("Raises: InputError")
        return lacks

    def _numeric(self) -> bool:
        arguments = (*self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs)
        annotations = [argument.annotation for argument in arguments] + [self.node.returns]
        return any(NUMBERS.search(ast.unparse(note)) for note in annotations if note is not None)

    def _refuses(self) -> bool:
        """Whether its own body raises InputError, by itself or by `unknown_name`."""
        raised = (node.exc for node in _own_nodes(self.node) if isinstance(node, ast.Raise) and node.exc is not None)
        return any(re.match(r"(InputError|unknown_name)\b", ast.unparse(error)) for error in raised)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function, without those of functions inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield node
            yield from _own_nodes(node)


def public_functions(path: Path) -> Iterator[Function]:
    """Functions of a module and methods of its classes, without what begins with `_` and what only overloads."""
    body = tree(path).body
    module = ".".join(path.with_suffix("").parts)
    classes = [node for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    for owner, inner in [("", body), *((node.name, node.body) for node in classes)]:
        about = next((ast.get_docstring(node) or "" for node in classes if node.name == owner), "")
        for node in inner:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            if ast.unparse(node.body[-1]) == "..." and UNITS.search(about):
                continue  # a field of a protocol whose docstring says what it is
            if not any(ast.unparse(mark).endswith(("overload", ".setter")) for mark in node.decorator_list):
                yield Function(f"{module}.{owner}{'.' * bool(owner)}{node.name}", node, about if owner else "")


def files(layer: str) -> list[Path]:
    """The files of a layer."""
    return [path for path in FILES if path.parts[0] == layer]


def lacking(layer: str) -> dict[str, list[str]]:
    """Names of a layer whose docstring lacks something, and what."""
    functions = [one for path in files(layer) for one in public_functions(path)]
    return {one.name: one.missing for one in functions if one.missing}


@pytest.mark.parametrize("layer", LAYERS)
def test_public_functions_are_documented(layer: str) -> None:
    missing = [f"{name}: {', '.join(lacks)}" for name, lacks in lacking(layer).items()]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("layer", LAYERS)
def test_public_classes_are_documented(layer: str) -> None:
    classes = [(path, node) for path in files(layer) for node in tree(path).body if isinstance(node, ast.ClassDef)]
    bare = [(path.name, node.name) for path, node in classes if not ast.get_docstring(node)]
    assert [names for names in bare if not names[1].startswith("_")] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_documented_parameters_exist(layer: str) -> None:
    stale = []
    for path in files(layer):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef):
                names = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
                stale += [f"{path.name}: {node.name}: {name}" for name in _documented(node) if name not in names]
    assert stale == []


def _documented(function: ast.FunctionDef) -> Iterator[str]:
    """Names that are explained: lines under Parameters that hold nothing but names, and lines "`name`: its meaning"."""
    text = ast.get_docstring(function) or ""
    match = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n|\Z)", text, re.M | re.S)
    lines = [line for line in match.group(1).splitlines() if line[:1].strip()] if match else []
    lines += re.findall(r"^((?:`\*{0,2}\w+`(?:, )?)+): ", text, re.M)
    for line in lines:
        yield from (name.strip(" `*") for name in line.split(","))
