"""Wherever a name of a file could become code: formulas, pages, TOML, YAML. Each is tried with a name that is code."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import sympy as sp
import yaml

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression, symbol
from slipstick.common.trusted_code import TrustedName
from slipstick.estimators.scaling.extrapolate import extrapolate
from slipstick.estimators.scaling.series import Series
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified import compiled, evaluate
from slipstick.experiments.cli.cli import run
from slipstick.experiments.jobs.job_records import StageFile
from slipstick.experiments.jobs.simulate_job import simulate
from slipstick.experiments.measure.host.decoders import own_decoder
from slipstick.experiments.methods.tuning.program_job import load_program
from slipstick.experiments.question.question import question
from slipstick.experiments.question.registry import estimator
from slipstick.experiments.question.user_code import own_function, own_program
from slipstick.experiments.studies.executors import engine
from slipstick.experiments.studies.study import Study, toml_text
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import load_machine, save_machine
from slipstick.workloads.importers.torch.named_program import build_by_name
from tools.imports import FILES, nodes

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
    if "\n" in name:
        with pytest.raises(InputError, match="want one line of text"):
            machine("h100-sxm").using({"name": name})
    on = machine("h100-sxm").using({"name": name.replace("\n", " "), "description": name})
    save_machine(on, "a.yaml")
    assert load_machine("a.yaml").name == on.name
    assert yaml.safe_load(Path("a.yaml").read_text())["description"] == name
    assert run(["whatif", "gemm", "--on", "a.yaml", "--vary", "machine.cores=1,2", "--report", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert "<script>alert(1)" not in page
    if "<" in name or CODE in name:  # markup for the page, code for the formulas
        assert run(["explain", "gemm", "--on", "a.yaml", "--report", "page.html"]) == 0
        assert "<script>alert(1)" not in Path("page.html").read_text()
    assert _unharmed()


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a&b"])
def test_the_name_of_a_column_is_text_in_pages_and_notebooks(name: str) -> None:
    times = [100.0, 52.0, 27.0, 15.0, 9.0]
    rows = "".join(f"{2**at},{seconds}\n" for at, seconds in enumerate(times))
    Path("runs.csv").write_text(f"{name},time_s\n{rows}")
    assert run(["extrapolate", "runs.csv", "--to", "64", "--report", "page.html"]) == 0
    prediction = extrapolate(Series.of([1, 2, 4, 8, 16], times, parameter=name), 64)
    formula = Formula(symbol(f"machine.{name}.clock"), "s", name)
    for html in (Path("page.html").read_text(), prediction._repr_html_(), formula._repr_html_()):
        assert "<script>alert" not in html and "<img src=x" not in html


JOB = 'name: j\nstages: [{name: s, workload: gemm, machine: v100-sxm, estimator: "evil:make"}]\n'
TRUST = "if you trust it, add --allow-code evil:make"


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the current folder that leaves a file where it is imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    (tmp_path / "evil.py").write_text("open('fired', 'w')\n\n\ndef make():\n    return None\n")
    return tmp_path


@pytest.mark.parametrize(
    "verb",
    [
        ["estimate", "j.yaml"],
        ["estimate", "j.yaml", "--simulate"],
        ["estimate", "j.yaml", "--estimator", "evil:other"],
        ["estimate", "j.yaml", "--set", "job.s.workers=2", "--simulate"],
        ["whatif", "j.yaml", "--simulate", "--vary", "job.copies=1,2"],
    ],
)
def test_a_job_names_code_and_does_not_run_it(verb: list[str], evil: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (evil / "j.yaml").write_text(JOB)
    assert run(verb) == 2
    assert TRUST in capsys.readouterr().err
    assert _unharmed()


def test_a_job_names_code_that_the_user_names_too(evil: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (evil / "j.yaml").write_text(JOB)
    assert run(["estimate", "j.yaml", "--estimator", "evil:make"]) == 2  # it is no estimator, but is run
    assert "imports evil and runs its code" in capsys.readouterr().err
    assert not _unharmed()


def test_text_is_never_imported(evil: Path) -> None:
    """From Python, too: only a `TrustedName` is, and that no reader makes."""
    (evil / "j.yaml").write_text(JOB)
    name = "evil:make"
    asked: list[Callable[[], object]] = [
        lambda: simulate("j.yaml"),
        lambda: simulate("gemm", "v100-sxm", estimator=name),
        lambda: estimator(name),
        lambda: question("gemm", "v100-sxm", name, []),
        lambda: Study.of_question("gemm", "v100-sxm", name, [], ["machine.clock=1GHz"]).question("gemm", "v100-sxm"),
        lambda: own_program(name),
        lambda: build_by_name(name),
        lambda: build_by_name("evil.py:make"),
        lambda: own_decoder(name),
        lambda: own_function(name),
        lambda: load_program(name, 8, 0.0),
        lambda: engine(name),
    ]
    for ask in asked:
        with pytest.raises(InputError, match="would import your or somebody's code"):
            ask()
    assert _unharmed()


@pytest.mark.parametrize(
    "made", [str(TrustedName("a:b")), TrustedName("a:b")[:], TrustedName("a:b") + "", f"{TrustedName('a:b')}"]
)
def test_what_is_made_of_an_own_name_is_plain_text(made: str) -> None:
    assert type(made) is str


def test_records_of_files_hold_plain_text() -> None:
    stage = StageFile.model_validate({"name": "s", "workload": "gemm", "estimator": TrustedName("evil:make")})
    assert type(stage.estimator) is str


ALLOWED = {
    "slipstick/common/trusted_code.py": "the module that the user named",
    "slipstick/common/lazy_packages.py": "torch and numba, which the file names",
    "experiments/cli/cli.py": "our own verbs",
    "experiments/question/estimator_builders.py": "our own estimators, which shipped_estimators names",
    "experiments/scoring/scoreboard_catalog.py": "our own scoreboards",
    "experiments/scoring/refits.py": "our own fits",
    "experiments/methods/tuning/program_job.py": "modules of a fixed list that are imported already",
}
DANGEROUS = {"eval", "exec", "compile", "lambdify", "__import__", "parse_expr", "spec_from_file_location"}
DANGEROUS_OF = {"pickle": {"load", "loads"}, "yaml": {"load", "unsafe_load", "full_load"}, "torch": {"load"}}


def test_nothing_else_runs_text() -> None:
    """Imports of what is no word of ours, eval, exec, compile, lambdify, pickle, yaml.load, torch.load: there alone."""
    found = []
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and str(path) not in ALLOWED and _runs(node):
                found.append(f"{path}:{node.lineno}: {ast.unparse(node)[:60]}")
    assert not found


def _runs(call: ast.Call) -> bool:
    called = call.func
    if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")).endswith("import_module"):
        return not isinstance(call.args[0], ast.Constant)
    if isinstance(called, ast.Name):
        return called.id in DANGEROUS
    if not isinstance(called, ast.Attribute):
        return False
    of = ast.unparse(called.value)
    if called.attr in DANGEROUS_OF.get(of, ()):
        return True
    return called.attr in {"lambdify", "parse_expr", "system", "popen"} and of in {"sp", "sympy", "os"}
