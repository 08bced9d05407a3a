"""The gallery links each script that made a picture, and the scripts draw what stands there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.gallery import ENTRIES, PAGE, PICTURES, Entry, drawn, page_text

TOLERANCE = 4.0
"""Root mean square of the differences of pixels, of 255: letters may be placed anew, and curves may not move."""


def test_the_page_holds_every_script_and_picture() -> None:
    assert PAGE.read_text() == page_text()
    assert {path.stem for path in PICTURES.glob("*.png")} == {entry.name for entry in ENTRIES}
    assert {path.stem for path in PICTURES.glob("*.py")} == {entry.name for entry in ENTRIES}


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_script_draws_what_stands(entry: Entry, tmp_path: Path) -> None:
    compare = pytest.importorskip("matplotlib.testing.compare")
    shutil.copy(PAGE.parent / "tutorial" / "runs.csv", tmp_path)
    made = drawn(entry, tmp_path)
    differs = compare.compare_images(str(PICTURES / made.name), str(made), TOLERANCE)
    assert differs is None, f"{differs}; python -m tools.gallery writes the pictures anew"
