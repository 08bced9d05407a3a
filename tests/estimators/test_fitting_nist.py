"""The fitter against certified values: NIST Statistical Reference Datasets, nonlinear regression."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression, symbol
from slipstick.estimators.fitting.least_squares import fit_formula, fit_least_squares
from slipstick.estimators.symbolic.formula import Formula

CASES = json.loads((Path(__file__).parents[1] / "data" / "nist_strd.json").read_text())["cases"]


def digits(ours: float, certified: float) -> float:
    return -math.log10(max(abs(ours / certified - 1), 1e-15))


@pytest.mark.parametrize("start", ["start_1", "start_2"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_values_and_standard_errors_agree_to_six_digits(name: str, start: str) -> None:
    case = CASES[name]
    formula = Formula(parse_expression(case["model"]), "1", "NIST StRD")
    with np.errstate(all="ignore"):
        fit = fit_formula(formula, {"x": case["x"]}, case["y"], case[start])
    for parameter, value, error in zip(fit.names, fit.values, fit.standard_errors, strict=True):
        assert digits(value, case["certified"][parameter]) >= 6
        assert digits(error, case["standard_errors"][parameter]) >= 6


def test_fewer_data_than_parameters_is_refused() -> None:
    line = Formula(symbol("a") + symbol("b") * symbol("x"), "1", "")
    with pytest.raises(InputError, match="1 measurements cannot fix 2 parameters: a, b"):
        fit_formula(line, {"x": [1.0]}, [2.0], {"a": 0.0, "b": 1.0})


def test_unknown_symbol_is_named() -> None:
    with pytest.raises(InputError, match=r"unknown symbol of the formula 'c' \(known: a, x\)"):
        fit_formula(Formula(symbol("a") * symbol("x"), "1", ""), {"x": [1.0, 2.0]}, [1.0, 2.0], {"c": 1.0})


def test_what_the_data_do_not_fix_has_no_covariance() -> None:
    fit = fit_least_squares(
        lambda p: np.array([p[0] + p[1] - 1, p[0] + p[1] - 1.1, p[0] + p[1] - 0.9]), ["a", "b"], [0.0, 0.0]
    )
    assert np.all(np.isnan(fit.covariance))


def test_a_line_is_ordinary_least_squares() -> None:
    x, y = np.arange(7.0), np.array([1.0, 2.9, 5.2, 7.1, 8.8, 11.1, 13.0])
    fit = fit_formula(Formula(symbol("a") + symbol("b") * symbol("x"), "1", ""), {"x": x}, y, {"a": 0.0, "b": 1.0})
    slope, intercept = np.polyfit(x, y, 1)
    assert fit.values == pytest.approx((intercept, slope), rel=1e-12)
    _, covariance = np.polyfit(x, y, 1, cov=True)
    assert fit.covariance[1][1] == pytest.approx(covariance[0, 0], rel=1e-10)
