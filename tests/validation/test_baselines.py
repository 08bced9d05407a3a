"""Which simple method our errors are compared with: one that other rows chose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.baselines import Family, chosen, families, geometric


def test_a_baseline_is_not_chosen_by_the_row_that_it_stands_beside() -> None:
    others = [{"nearest": 0.1, "line": 0.3}, {"nearest": 0.2, "line": 0.4}]
    assert chosen({"nearest": 0.5, "line": 0.01}, others) == 0.5
    assert chosen({"nearest": 0.5, "line": 0.01}, []) == 0.01


def test_errors_are_compared_whatever_their_sign_and_shares_are_not(tmp_path: Path) -> None:
    def row(case: str, metric: str, ours: float, line: float) -> dict[str, object]:
        return {"dataset": "d", "case": case, "held_out": "k", "metric": metric, "ours": ours,
                "baselines": {"line": line}}  # fmt: skip

    rows = [row("a", "relative error", -0.1, 0.4), row("b", "median error", 0.1, 0.1), row("c", "share of rows", 1, 2)]
    (tmp_path / "one.json").write_text(json.dumps({"rows": rows}))
    (family,) = families(tmp_path)
    assert family.cases == ("a", "b") and family.ratios == pytest.approx((0.25, 1.0))
    assert family.mean == pytest.approx(geometric([0.25, 1.0]))


def test_worse_by_chance_and_worse_for_sure() -> None:
    """Eight cases that all lose; eight of which one loses tenfold; four that all lose are too few to say."""
    cases = tuple(f"case {at}, {metric}" for at in range(8) for metric in ("median", "90th percentile"))
    lost = Family("board", "data", "device", cases, (1.3,) * 16)
    chance = Family("board", "data", "device", cases, (10.0, 10.0, *(0.8,) * 14))
    assert lost.surely_worse
    assert chance.mean > 1 and not chance.surely_worse
    assert not Family("board", "data", "device", cases[:8], (1.3,) * 8).surely_worse
