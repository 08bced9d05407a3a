"""Which simple method our errors are compared with: one that other rows chose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.baselines import chosen, families, geometric


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
