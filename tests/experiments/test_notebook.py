"""The example notebook's cells run from top to bottom and give what they promise; what objects show in a notebook."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

import slipstick as ss

NOTEBOOK = Path(__file__).parents[2] / "docs" / "what-if.ipynb"


def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert len(names["found"].frame) == 6
    assert names["found"].frame.time_ratio[2] == 1
    assert (tmp_path / "gnmt.svg").read_text().lstrip().startswith("<?xml")
    shown = names["found"]._repr_html_()
    assert "nan" not in shown.lower() and "80 % of ratio" in shown and "2 GHz" in shown
    picture = names["chart"]._repr_html_()
    assert picture.startswith("<svg") and "<script" not in picture


def _rows(html: str) -> list[list[str]]:
    """The cells of a table."""
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]


def test_a_machine_shows_units_and_each_source_once() -> None:
    html = ss.machine("h100-sxm")._repr_html_()
    cells = {row[0]: row for row in _rows(html)}
    assert cells["clock"][1] == "1.98 GHz" and cells["memory.HBM3.capacity"][1] == "80 GB"
    assert cells["memory.HBM3.bandwidth"][1] == "3.352 TB/s"
    source = ss.machine("h100-sxm").source_of("clock")
    assert html.count(escape(source)) == 1 and cells["clock"][2] == "[1]"


def test_a_workload_shows_its_kinds_and_not_each_operation() -> None:
    gnmt = ss.workload("gnmt")
    head, *rows = _rows(gnmt._repr_html_())
    assert head == ["kind", "count", "flop", "of them", "bytes moved"] and len(rows) == len({op.kind for op in gnmt})
    free = replace(ss.workload("gemm"), defaults={})._repr_html_()
    assert "free: " in free and _rows(free)[1] == ["gemm", "1"]


def test_an_estimate_shows_its_band_and_what_it_consists_of() -> None:
    """Parts and what is in none of them come to the whole: half of a small inference is spent waiting for the host."""
    answer = ss.question("resnet50-inference", "a100-sxm-80gb").answer()
    html = answer._repr_html_()
    head, *rows = _rows(html)
    assert head == ["kind", "count", "time", "share", "bound by"] and 2 < len(rows) <= 11
    assert "80 %: " in html and html.count("<details>") == 1
    assert 97 < sum(float(row[3].removesuffix(" %")) for row in rows) < 103
