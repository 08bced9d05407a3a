"""Every example in the docstrings is executed and its output compared; tests/test_listings.py runs the pages."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import slipstick as ss

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    ".".join(("slipstick", *path.relative_to(ROOT).with_suffix("").parts))
    for layer in ("hwmodels", "workloads", "estimators", "experiments")
    for path in (ROOT / layer).rglob("*.py")
    if ">>> " in path.read_text()
)
# These take files that an example of a few lines cannot make: examples/ and docs/ show them.
WITHOUT = {"import_onnx", "import_torch", "replay", "run_study"}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0 and tried


def test_every_function_of_the_face_shows_an_example() -> None:
    functions = {name: getattr(ss, name) for name in ss.__all__ if inspect.isfunction(getattr(ss, name))}
    assert {name for name, one in functions.items() if ">>> " not in (one.__doc__ or "")} == WITHOUT
