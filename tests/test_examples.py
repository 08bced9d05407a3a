"""Every example in the docstrings is executed and its output compared; tests/test_listings.py runs the pages."""

import doctest
import importlib
import pkgutil

import pytest

from slipstick import estimators, hwmodels, workloads

OPTIONAL = ("torch", "onnx", "numba")
MODULES = sorted(
    module.name
    for package in (hwmodels, workloads, estimators)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
)


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
