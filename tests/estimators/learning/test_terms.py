"""The one solver of sums of terms of at least zero: scipy's, to the last bit, without the rest of `scipy.optimize`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy
from scipy.optimize import nnls

from slipstick.estimators.fitting import nonnegative_terms

GENERATOR = np.random.default_rng(11)


@pytest.mark.parametrize("case", range(300))
def test_the_compiled_part_is_scipys_solver_to_the_last_bit(case: int) -> None:
    rows, columns = GENERATOR.integers(1, 14), GENERATOR.integers(1, 9)
    matrix = GENERATOR.normal(size=(rows, columns)) * np.exp(GENERATOR.normal(size=columns) * 4)
    matrix[:, GENERATOR.random(columns) < 0.1] = 0.0
    if case % 5 == 0:
        matrix[:, -1] = matrix[:, 0]  # two that say the same
    target = np.abs(GENERATOR.normal(size=rows)) if case % 3 else GENERATOR.normal(size=rows)
    most = 100 * int(columns)
    np.testing.assert_array_equal(
        nonnegative_terms._active_set()(matrix, target, most), nnls(matrix, target, maxiter=most)[0]
    )


def test_another_release_of_scipy_is_called_by_its_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    nonnegative_terms._active_set.cache_clear()
    monkeypatch.setattr(scipy, "__version__", "1.14.0")
    try:
        found = nonnegative_terms._active_set()(
            np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([2.0, 1.0, 1.0]), 9
        )
    finally:
        nonnegative_terms._active_set.cache_clear()
    assert found.tolist() == pytest.approx([1.5, 1.0])  # the example of scipy's documentation


def test_numbers_that_are_none_are_refused_as_scipy_does() -> None:
    with pytest.raises(ValueError, match="infs or NaNs"):
        nonnegative_terms.nonnegative(np.array([[1.0, np.nan]]), np.array([1.0]))


def test_the_solvers_of_scipy_that_are_not_called_are_not_imported() -> None:
    child = (
        "import sys; from slipstick.estimators.fitting.nonnegative_terms import nonnegative as n; import numpy as np; "
    )
    child += "n(np.ones((2, 1)), np.ones(2)); print('scipy.optimize' in sys.modules, 'scipy.sparse' in sys.modules)"
    words = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout.split()
    assert words == ["False", "False"] or not scipy.__version__.startswith(nonnegative_terms.COMPILED)
