"""Functions of the face show an example, and each of them runs."""

import doctest
import inspect

import pytest

import slipstick as ss

# These take files that an example of a few lines cannot make: examples/ and docs/ show them.
WITHOUT = {"import_onnx", "import_torch", "load_calibration", "replay", "run_study"}
FUNCTIONS = sorted(name for name in ss.__all__ if inspect.isfunction(getattr(ss, name)) and name not in WITHOUT)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_shows_an_example_that_runs(name: str) -> None:
    found = doctest.DocTestFinder(recurse=False).find(getattr(ss, name), name)
    assert any(test.examples for test in found), "no example in the docstring"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in found:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
