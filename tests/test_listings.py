"""Every listing of the README and the documentation runs as copied, from an empty folder, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.listings import fences, tried

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "validation" not in path.name)]
SLOW = [page for page in PAGES if any(fence.word == "slow" for fence in fences(page.read_text()))]


LONG = {
    "docs/training-runs.md",
    *("docs/papers/xeon-phi.md", "docs/papers/seqpoint.md", "docs/papers/dlbricks.md", "docs/own-network.md"),
    *("docs/paths.md", "docs/simulation.md", "docs/input.md", "docs/verbs.md", "docs/tutorial.md", "docs/clusters.md"),
    "docs/serving.md",
}
"""Pages whose listings take over three CPU seconds and whose subjects have tests of their own."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _holds(page: Path, *, slow: bool) -> None:
    if "import torch" in page.read_text():
        pytest.importorskip("torch", reason=f"{page.name} shows a PyTorch module")
    assert tried(page, slow=slow).problems == []


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if _name(page) in LONG else ()) for page in PAGES],
    ids=_name,
)
def test_a_page_runs_as_copied(page: Path) -> None:
    _holds(page, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=_name)
def test_a_page_runs_as_copied_with_what_takes_long(page: Path) -> None:
    _holds(page, slow=True)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_stand_in_listings_that_run(page: Path) -> None:
    """A command in a fence without a language would be shown, and never be tried."""
    apart = [fence for fence in fences(page.read_text()) if fence.language in ("", "text", "sh") and not fence.title]
    assert [line for fence in apart for line in fence.body.splitlines() if line.startswith(("slipstick ", "$ "))] == []
