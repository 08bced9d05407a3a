"""The example notebook's cells run from top to bottom and give what they promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
    assert names["found"]._repr_html_().startswith("<p>")
