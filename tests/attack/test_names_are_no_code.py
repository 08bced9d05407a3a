"""Wherever a name of a file could become code: formulas, pages, TOML, YAML. Each is tried with a name that is code."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
import sympy as sp
import yaml

from slipstick.estimators.core.lambdified import compiled, evaluate
from slipstick.experiments.commands.cli import run
from slipstick.experiments.studies.toml_text import toml_text
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.expressions import parse_expression, symbol
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.machine_file import load_machine, save_machine

ROOT = Path(__file__).parents[2]
CODE = "__import__('pathlib').Path('fired').touch()"
NAMES = [
    CODE,
    f"x) or {CODE} or (1",
    "a\n" + CODE,
    "</script><script>alert(1)//",
    "]\nkey = 1 #",
    "'; x: !!python/name:os",
    '"',
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _unharmed() -> bool:
    return not Path("fired").exists()


@pytest.mark.parametrize("name", NAMES)
def test_symbols_are_places_in_compiled_formulas(name: str) -> None:
    assert float(evaluate(2 * symbol(name), {name: 3.0})) == 6.0
    with pytest.raises(InputError, match="no value for"):
        compiled(2 * symbol(name), ())  # what is no argument would be written as it is
    with pytest.raises(InputError, match="no value for"):
        compiled(sp.Function(name)(symbol("x")), ("x",))
    assert _unharmed()


@pytest.mark.parametrize(
    "text", [CODE, "(1).__class__", "a[0]", "lambda: 1", "f'{x}'", "x if y else z", "a := 1", "'a'"]
)
def test_formulas_in_files_are_arithmetic(text: str) -> None:
    with pytest.raises(InputError):
        parse_expression(text)
    assert _unharmed()


@pytest.mark.parametrize("name", NAMES)
def test_toml_says_what_it_was_given(name: str) -> None:
    document = {name: {"a": name, "b": [name], name: 1.5}}
    assert tomllib.loads(toml_text(document)) == document


@pytest.mark.parametrize("name", NAMES)
def test_machines_with_hostile_names_come_back_and_do_nothing(name: str) -> None:
    on = machine("h100-sxm").using({"name": name, "description": name})
    save_machine(on, "a.yaml")
    assert load_machine("a.yaml").name == name
    assert yaml.safe_load(Path("a.yaml").read_text())["description"] == name
    assert run(["whatif", "gemm", "--on", "a.yaml", "--vary", "machine.cores=1,2", "--report", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert "<script>alert(1)" not in page
    assert run(["explain", "gemm", "--on", "a.yaml", "--report", "page.html"]) == 0
    assert "<script>alert(1)" not in Path("page.html").read_text()
    assert _unharmed()


ALLOWED = {
    "experiments/question/own.py": "the module that the user named",
    "workloads/importers/torch/torch_by_name.py": "the module that the user named",
}
DANGEROUS = {"eval", "exec", "compile", "lambdify", "__import__", "parse_expr"}
DANGEROUS_OF = {"pickle": {"load", "loads"}, "yaml": {"load", "unsafe_load", "full_load"}, "torch": {"load"}}


def test_nothing_else_runs_text() -> None:
    """eval, exec, compile, lambdify, pickle, yaml.load, torch.load: at the places named above alone."""
    found = []
    for layer in ("hwmodels", "workloads", "estimators", "experiments"):
        for path in sorted((ROOT / "slipstick" / layer).resolve().rglob("*.py")):
            name = f"{layer}/{path.relative_to((ROOT / 'slipstick' / layer).resolve())}"
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and name not in ALLOWED and _runs(node.func):
                    found.append(f"{name}:{node.lineno}: {ast.unparse(node)[:60]}")
    assert not found


def _runs(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in DANGEROUS
    if not isinstance(called, ast.Attribute):
        return False
    of = ast.unparse(called.value)
    if called.attr in DANGEROUS_OF.get(of, ()):
        return True
    return called.attr in {"lambdify", "parse_expr", "system", "popen"} and of in {"sp", "sympy", "os"}
