"""The documentation's formulas are typeset from the code, and its pages and the API page name what exists."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_inheritance import extended
from tools.listings import fences
from tools.machine_fields import page_with_fields, page_with_unread

ROOT = Path(__file__).parents[2]


def _hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_theory_shows_every_formula_of_the_hook() -> None:
    hooks = _hooks()
    page = (ROOT / "docs" / "theory.md").read_text()
    marks = re.findall(r"<!-- formula: ([a-z-]+) -->", page)
    assert sorted(marks) == sorted(hooks.formulas())
    typeset = hooks.with_formulas(page)
    assert typeset.count("<math") == len(marks) and "<!-- formula" not in typeset
    assert "<mi>memory efficiency</mi>" in typeset and "operation.float32_flop" in typeset
    with pytest.raises(KeyError):
        hooks.with_formulas("<!-- formula: phlogiston -->")


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
UGLY = re.compile(
    r"\de[-+]?\d+ ?(?:\$|x\b|%|[pnµmkMGT]?(?:s|J|W|B|Hz)\b|bytes)|\bx\d[\d.]*e[-+]?\d"
    r"|\d [kMGTP] [pnµmkMGT]?(?:s|B|Hz|J|W)\b|(?<![\d.,])0/s"
)
"""In what commands print: a quantity with an exponent, with two prefixes, or no speed at all."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_listings_show_quantities_in_decimals_with_one_prefix(page: Path) -> None:
    printed = [text for fence in fences(page.read_text()) for _, text in fence.steps if fence.language == "console"]
    assert [line for text in printed for line in text.splitlines() if UGLY.search(line)] == []


@pytest.mark.slow
def test_the_page_of_machine_files_names_what_no_answer_reads() -> None:
    page = (ROOT / "docs" / "machine-files.md").read_text()
    assert page == page_with_unread(page)


def test_the_page_of_machine_files_has_every_field_with_its_meaning() -> None:
    page = (ROOT / "docs" / "machine-files.md").read_text()
    assert page == page_with_fields(page)
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", page, re.M))
    assert all(row.rpartition(" | ")[2].strip() for row in rows.values())
    assert rows["memory.NAME.bandwidth"].startswith("a number > 0 in byte/s | none |")
    assert "of a shared level too" in rows["memory.NAME.bytes_per_cycle"]
    parts = re.compile(r"(engines|memory|links)\.[^.]+\.")
    for name in ("a100-sxm-80gb", "tpu-v3-8", "xeon-gold-6148", "xeon-phi-7120p", "a100-80-dgx"):
        for path in machine(name).numbers:
            named = parts.sub(r"\1.NAME.", path)
            entries = rows.get(named.rpartition(".")[0], "")  # of a list or a mapping
            assert named in rows or entries.startswith(("a list", "a mapping")), path
    whole, like_another, own = (yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S))
    assert Machine.model_validate(whole).bandwidth("L2") == pytest.approx(100 * 1.4e9 * 64)
    assert Machine.model_validate(extended(like_another, "page")[0]).bandwidth("HBM3") == 13e12
    assert Machine.model_validate(own).engines["matrix"].rows == 256


def test_the_api_page_names_what_exists() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    for name in re.findall(r"^::: (\S+)$", page, re.M):
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute).__doc__, name


def test_every_page_stands_in_the_menu() -> None:
    docs = ROOT / "docs"
    named = re.findall(r"([\w/-]+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = [path.relative_to(docs) for path in docs.rglob("*") if path.suffix in (".md", ".ipynb")]
    apart = ("notes", "validation")  # the lab book; a page a scoreboard, linked from the front page of validation
    assert sorted(named) == sorted(path.as_posix() for path in pages if path.parts[0] not in apart)


def test_the_front_page_is_short_and_has_a_command_a_number_and_a_picture() -> None:
    page = (ROOT / "docs" / "index.md").read_text()
    assert len(page.split()) < 200
    assert re.search(r"^\$ slipstick ", page, re.M) and re.search(r"\d ms", page) and "](gallery/" in page


def test_the_documentation_stays_short_enough_to_read() -> None:
    """A page of notes has at most 700 words beside tables that tools write; pages of scoreboards are not committed."""
    committed = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "validation"]
    words = {
        path: len(re.sub(r"<!-- (\w+): written.*?<!-- end of \1 -->", "", path.read_text(), flags=re.S).split())
        for path in committed
    }
    assert [path.name for path, count in words.items() if path.parent.name == "notes" and count > 700] == []
    assert sum(words.values()) < 60_000


def test_the_hook_shows_objects_under_their_typed_names_and_sessions_as_such() -> None:
    hooks = _hooks()
    assert "      heading: ss.machine\n" in hooks.under_typed_names("::: slipstick.hwmodels.catalog.machine\n")
    assert hooks.as_sessions("```python\n>>> 1\n```\n```python\nx = 1\n```") == (
        "```pycon\n>>> 1\n```\n```python\nx = 1\n```"
    )
