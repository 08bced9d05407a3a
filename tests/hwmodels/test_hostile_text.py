"""Texts that would compute for ever, or are no numbers at all, are refused at once: formulas, units, integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.common.readers import parse_json, read_toml, read_yaml, whole_number
from slipstick.common.units import parse_quantity
from slipstick.workloads.graph.cost import bind_amount


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("floor(exp(1000000))", "number beyond 1e300"),
        ("Mod(exp(10**20), 7)", "number beyond 1e300"),
        ("floor(exp(exp(20)))*batch", "number beyond 1e300"),
        ("floor(exp(100)*batch)", "too large to be rounded"),
        ("ceiling(sqrt(2)*10**40*10**40)", "too large to be rounded"),
        ("2**(batch*10**40)", "exponent 1"),
        ("2**(batch + 10**40)", "exponent 1"),
        ("exp(exp(exp(exp(9))))", "number beyond 1e300"),
        ("log(-5)", "no real number"),
        ("sqrt(-1)*batch", "no real number"),
        ("(-8)**(1/3)", "no real number"),
        ("1if batch else 2", "IfExp is not accepted"),
        (f"Max({','.join(f'x{i}' for i in range(100))})", "more than 16 values to choose from"),
        (f"Max(Max({','.join(f'x{i}' for i in range(16))}), y)", "more than 16 values to choose from"),
        ("1" + "*(1 + batch" * 60 + ")" * 60, "nested deeper than 100 levels"),
    ],
)
def test_formulas(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1/(batch - 4)", r"1/\(batch - 4\) at batch = 4 divides by zero"),
        ("batch % (batch - 4)", "divides by zero"),
        ("log(batch - 9)", "no real number"),
        ("exp(exp(exp(batch)))", r"exp\(exp\(exp\(batch\)\)\) at batch = 4 has a part beyond 1e\+300"),
        ("ceiling(exp(exp(exp(batch))))", "beyond"),
        ("Max(1, exp(exp(exp(batch))))", "beyond"),
        ("floor(exp(exp(2*batch)))", "beyond"),
        ("batch**(batch**(batch**batch))", "beyond"),
        ("0.5**batch**64", "beyond"),  # a fraction of a thousand million digits
        ("exp(exp(exp(sqrt(batch - 5)*sqrt(batch - 8))))", "no real number"),
        ("batch**(batch**(batch**batch))*later", "beyond"),
    ],
)
def test_a_formula_without_a_value_says_where(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        bind_amount(parse_expression(text), {"batch": 4})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("exp(-exp(batch))", math.exp(-math.exp(4))),
        ("exp(-exp(2*batch))", 0.0),
        ("ceiling(log(128*batch)/log(2))", 9),  # of floats the quotient may be more than 9
        ("sqrt(batch)/3", 2 / 3),
        ("batch**48", 4**48),
    ],
)
def test_a_formula_with_a_value_has_it(text: str, value: float) -> None:
    assert bind_amount(parse_expression(text), {"batch": 4}) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("text", ["3 10**10**10 Hz", "3 (Hz**9)**9**9**9**9", "1 s**-1**9", "3 s**10", "٣ Hz"])
def test_units(text: str) -> None:
    with pytest.raises(ValueError, match="unknown unit|no quantity"):
        parse_quantity(text, "Hz")


def test_powers_that_units_have_are_read() -> None:
    assert parse_quantity("2 km**2/m^2 * GHz", "Hz") == pytest.approx(2e15)


@pytest.mark.parametrize("digits", [41, 401, 5000])
@pytest.mark.parametrize(
    ("name", "text", "read"),
    [("a.json", '{{"a": {}}}', lambda path: parse_json(path.read_text(), path)), ("a.toml", "a = {}", read_toml)],
)
def test_integers(digits: int, name: str, text: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text.format("9" * digits))
    with pytest.raises(InputError, match=f"{name}: an integer beyond 1e40"):
        read(path)


def test_lists_in_lists_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: " + "[" * 500_000)
    with pytest.raises(InputError, match=r"a\.yaml: line 1: nested deeper than 64 levels"):
        read_yaml(path)


@pytest.mark.parametrize("text", ["²", "٣", "-1", "1.0", "", "9" * 19])
def test_what_is_no_whole_number(text: str) -> None:
    assert whole_number(text) is None
