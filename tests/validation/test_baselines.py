"""Which simple method our errors are compared with: one that other rows chose."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from slipstick.experiments.scoring.score_summary import chosen, coverages, families, geometric, grouped


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
    """Eight groups that all lose; eight of which one loses tenfold; four that all lose are too few to say."""
    rows = [("data", "device", f"case {at}, {metric}") for at in range(8) for metric in ("median", "90th percentile")]
    (lost,) = grouped([(*row, math.log(1.3)) for row in rows])
    (chance,) = grouped([(*row, math.log(10.0 if row[2].startswith("case 0") else 0.8)) for row in rows])
    (few,) = grouped([(*row, math.log(1.3)) for row in rows[:8]])
    assert len(lost.groups) == 8 and lost.surely_worse
    assert not chance.surely_worse and not few.surely_worse


def test_groups_are_what_was_left_out() -> None:
    """Two devices with three cases each are two groups, not six."""
    rows = [("data", device, f"case {at}") for device in ("one", "other") for at in range(3)]
    (made,) = grouped([(*row, 0.5) for row in rows])
    assert made.groups == ((0.5,) * 3, (0.5,) * 3) and not made.judged


def test_bands_are_judged_by_the_groups_that_a_row_states(tmp_path: Path) -> None:
    """The same rows under five kinds of holding out are no five groups; six devices of one row each are six."""

    def row(dataset: str, held_out: str, share: float, **more: object) -> dict[str, object]:
        band: dict[str, object] = {
            "interval_level": 0.8,
            "interval_coverage": share,
            "coverage_low": None,
            "coverage_high": None,
        }
        return {"dataset": dataset, "case": "all", "held_out": held_out, "groups": 1, **band, **more}

    kinds = [row("kinds", f"kind {at}", 0.95, groups=2 + at) for at in range(3)]
    wide = {"groups": 6, "coverage_low": 0.85, "coverage_high": 0.97}
    judged = row("kinds", "kind 4", 0.95, **wide)
    shares = (0.7, 0.8, 0.9, 0.75, 0.85)
    good = [row("good", f"device {at}", share) for at, share in enumerate(shares)]
    bad = [row("bad", f"device {at}", 0.3 * share) for at, share in enumerate(shares)]
    few = [row("few", f"device {at}", 0.3) for at in range(4)]
    (tmp_path / "one.json").write_text(json.dumps({"rows": [*kinds, judged, *good, *bad, *few]}))
    found = {one.name: one.verdict for one in coverages(tmp_path)}
    assert found == {"one: kinds, all, kind 4 left out": "too wide", "one: good": "", "one: bad": "too narrow"}
