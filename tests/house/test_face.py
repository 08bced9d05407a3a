"""What users import: pages and examples reach everything through `slipstick`, and the API page shows what it holds."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import slipstick as ss
from slipstick.common.renamed_arguments import RENAMED
from slipstick.experiments.cli.vocabulary import WORDS

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*") if path.suffix in {".md", ".py", ".ipynb", ".toml"})
SHOWN = [ROOT / "README.md", *(path for path in PAGES if path.name != "hooks.py"), *(ROOT / "examples").glob("*.py")]
DEEPER = re.compile(r"(?:from|import)\s+slipstick\.[\w.]+")
MOST_NAMES = 85
VERBS = (
    *("estimate", "whatif", "explain", "extrapolate", "calibrate", "serve", "plan_serving", "plan_training", "replay"),
    *("read", "study", "measure", "seqpoint", "phases", "tune", "bricks", "simulate", "oracle"),
)
IN_PYTHON = {"machine": "on", "settings": "set"}
"""Arguments that have another name than their option: `on` and `set` are poor names of variables."""
OF_PYTHON = {
    "workload": "what runs",
    "series": "measured times by one number",
    "log": "iterations",
    "file": "to read",
    "job": "an input pipeline",
    "models": "of which bricks are composed",
    "loss": "of a fit",
    "starts": "of a fit",
    "source": "where measurements come from",
    "progress": "called with what is done",
    "rate": "requests/s",
}
"""Arguments that stand on the command line without a name, or not at all."""


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_and_examples_import_from_the_face_only(page: Path) -> None:
    assert DEEPER.findall(page.read_text()) == []


def test_the_api_page_has_the_sections_and_names_of_the_face() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    expected = [*sections("__init__"), *(text for each in ss.SUBJECTS for text in (f"ss.{each}", *sections(each)))]
    assert re.findall(r"^(?:## |::: slipstick)(.*)", page, re.M) == expected


def sections(stub: str) -> list[str]:
    """Titles and full names of a stub, in its order; the subjects have sections of their own."""
    lines = (ROOT / "slipstick" / f"{stub}.pyi").read_text().splitlines()
    titles = {
        number: line[2:] for number, line in enumerate(lines, 1) if line.startswith("# ") and "subject" not in line
    }
    imports = (node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.ImportFrom) and node.module)
    names = {node.lineno: f".{node.module}.{node.names[0].name}" for node in imports}
    return [text for _, text in sorted({**titles, **names}.items())]


def test_the_face_is_small_and_its_page_fits_a_screen() -> None:
    assert len(ss.__all__) <= MOST_NAMES
    lines = (ss.__doc__ or "").splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    assert [verb for verb in VERBS if verb not in (ss.__doc__ or "") and verb not in ("simulate", "oracle")] == []


def test_a_name_of_a_subject_is_found_there_alone() -> None:
    for subject in ss.SUBJECTS:
        for name in getattr(ss, subject).__all__:
            assert name not in ss.__all__
    with pytest.raises(AttributeError, match=r"no attribute 'Contention'; it is ss.models.Contention"):
        ss.Contention  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("verb", VERBS)
def test_arguments_are_words_of_the_vocabulary(verb: str) -> None:
    """An argument is the option of its name, or stands above; no older word of any command is an argument."""
    function: Any = getattr(ss, verb)
    names = [one.name for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
    assert [name for name in names if name not in {*WORDS, *IN_PYTHON, *OF_PYTHON}] == []
    assert not RENAMED.keys() & set(names)


def test_older_arguments_are_taken_with_a_line_that_names_todays(capsys: pytest.CaptureFixture[str]) -> None:
    common = {"model": "llama-3.1-8b", "machine": "rtx-4090", "dtype": "q4_k_m"}
    older = ss.serve_locally(**common, known="qwen2.5-7b:q4_k_m=140")  # type: ignore[call-arg]
    assert capsys.readouterr().err == "slipstick: serve_locally: known is called measured now\n"
    assert older.rows() == ss.serve_locally(**common, measured="qwen2.5-7b:q4_k_m=140").rows()
    with pytest.raises(ss.InputError, match="known and measured are one argument: give measured"):
        ss.serve_locally(**common, known="x", measured="y")  # type: ignore[call-arg]


def test_older_numbers_of_a_server_are_taken_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        name: ss.whatif("llama-3.1-8b", "h100", {"run.concurrency": [1, 2]}, settings={name: 8}, output_tokens=4).rows()
        for name in ("run.count", "run.num_requests")
    }
    assert capsys.readouterr().err.count("slipstick: run.count is called num_requests now") >= 1
    assert rows["run.count"] == rows["run.num_requests"]
