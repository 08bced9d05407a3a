"""Every example in the README, the docs and the docstrings is executed and its output compared."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from slipstick import estimators, hwmodels, workloads

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPTIONAL = ("torch", "onnx", "numba")
MODULES = sorted(
    module.name
    for package in (hwmodels, workloads, estimators)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name in OPTIONAL:
            pytest.skip(f"{name} needs the extra {error.name}")
        raise
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_the_readme_starts_with_exactly_two_commands() -> None:
    lines = [line for line in PAGES[0].read_text().splitlines() if line.strip()]
    assert lines[1:5] == ["```", "make demo", "make test", "```"]
