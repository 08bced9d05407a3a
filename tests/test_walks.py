"""Values go straight: docs/architecture.md states through how many folders five of them go and how often they climb."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (.+) \| (\d+) \| (\d+) \|$", re.M)


@pytest.mark.slow  # half a minute
def test_no_way_is_longer_than_the_page_says() -> None:
    stated = {name: (int(rooms), int(climbs)) for name, rooms, climbs in ROW.findall(_page())}
    run = subprocess.run([sys.executable, "-m", "tools.walks"], cwd=ROOT, capture_output=True, text=True, check=True)
    today = {name: (int(rooms), int(climbs)) for name, rooms, climbs in ROW.findall(run.stdout)}
    assert today.keys() == stated.keys() and len(today) == 5
    longer = {name: pair for name, pair in today.items() if any(a > b for a, b in zip(pair, stated[name], strict=True))}
    assert longer == {}, f"stated: {stated}"


def _page() -> str:
    return (ROOT / "docs" / "architecture.md").read_text()
