"""What ships in the place of what was kept: the same formulas and networks, for the very sources that made them."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from slipstick.common import prebuilt
from slipstick.common.disk_cache import VARIABLE, cache_path, identity_of, read_cached, source_files
from slipstick.common.expressions import symbol
from slipstick.estimators.symbolic.formula import Formula
from slipstick.estimators.symbolic.lambdified.evaluable import Evaluable
from slipstick.estimators.symbolic.lambdified.formula_cache import Formulas
from slipstick.workloads.catalog import workload_builders
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_cache import cached_workload

ONE = Formula(symbol("flop") / symbol("machine.clock") + 2, "s", "a test").lowered


def network() -> Workload:
    return workload_builders()["mlp"]()


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a formula and a network, and a folder where nothing is kept yet."""
    monkeypatch.setattr(prebuilt, "FILE", tmp_path / "prebuilt.xz")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "made"))
    formulas = Formulas("a model")
    formulas.get("key", lambda: ONE)
    formulas.keep()
    cached_workload("mlp", network)
    paths = [cache_path("formulas", "a model"), cache_path("workloads", "mlp")]
    prebuilt.write_prebuilt({identity_of(path): read_cached(path) for path in paths if path is not None})
    monkeypatch.setenv(VARIABLE, str(tmp_path / "fresh"))
    return tmp_path / "prebuilt.xz"


def answers(build: Callable[[], Evaluable], make: Callable[[], Workload]) -> tuple[Evaluable, Workload]:
    formulas = Formulas("a model")
    one = formulas.get("key", build)
    formulas.keep()
    return one, cached_workload("mlp", make)


def not_made() -> NoReturn:
    raise AssertionError("it ships")


def test_sources_come_in_one_order_wherever_their_packages_lie() -> None:
    """By their paths alone, sympy stood before the project in a checkout's environment and after it beside a wheel."""
    *ours, sympy = source_files()
    assert sympy.endswith("sympy/release.py") and ours == sorted(ours)


def test_what_ships_is_what_would_be_made_and_is_kept(packed: Path) -> None:
    assert prebuilt.made_here()
    assert answers(not_made, not_made) == (ONE, network())
    packed.unlink()
    prebuilt._unpacked.cache_clear()
    assert answers(not_made, not_made) == (ONE, network())


def test_nothing_ships_where_nothing_is_kept(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    made: list[int] = []
    assert answers(lambda: made.append(1) or ONE, lambda: made.append(2) or network()) == (ONE, network())  # type: ignore[func-returns-value]
    assert made == [1, 2]


@pytest.mark.parametrize("what", ["sources", "cut", "garbage", "bomb", "no file", "other format"])
def test_a_file_of_other_sources_or_a_broken_one_is_as_if_it_were_not_there(
    what: str, packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lzma.decompress(packed.read_bytes())
    if what == "sources":
        monkeypatch.setattr(prebuilt, "_digest", lambda: "0" * 64)
    elif what == "cut":
        packed.write_bytes(packed.read_bytes()[:-40])
    elif what == "garbage":
        packed.write_bytes(b"\0" * 500)
    elif what == "bomb":
        packed.write_bytes(lzma.compress(text + b" " * 40_000_000))
    elif what == "no file":
        packed.unlink()
    else:
        packed.write_bytes(lzma.compress(text.replace(b"slipstick-prebuilt-1", b"slipstick-prebuilt-0")))
    prebuilt._unpacked.cache_clear()
    made: list[int] = []
    assert answers(lambda: made.append(1) or ONE, lambda: made.append(2) or network()) == (ONE, network())  # type: ignore[func-returns-value]
    assert made == [1, 2]
