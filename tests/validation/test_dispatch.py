"""Steps of our own host: what is bundled is whole, and dispatch explains what the sum of operations misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.experiments.measure.training.step_files import Step, read_steps
from slipstick.experiments.scoreboards.parallel import dispatch_board
from slipstick.hwmodels.catalog import machine


def constructed(tmp_path: Path, issue: float, begin: float) -> list[Step]:
    """Steps of an imagined framework that adds exactly `issue` to each operation and `begin` to a step."""
    lines = ["model,phase,operation,signature,kind,count,flop,byte,time_s"]
    for i, (count, alone) in enumerate([(10, 5e-6), (100, 2e-5), (400, 1e-6), (50, 3e-4), (20, 1e-3)]):
        step = begin + count * (alone - 1e-6 + issue)
        lines += [
            f"net{i},,step,,,1,0,0,{step!r}",
            f"net{i},,call,,,1,0,0,{1e-6!r}",
            f"net{i},forward,aten.add,x,elementwise,{count},0,0,{alone!r}",
        ]
    path = tmp_path / "steps.csv"
    path.write_text("\n".join(lines) + "\n")
    return read_steps(path)


def test_a_known_cost_of_dispatch_is_found_again(tmp_path: Path) -> None:
    steps = constructed(tmp_path, issue=7e-6, begin=4e-4)
    for step in steps:
        others = [other for other in steps if other.name != step.name]
        row = dispatch_board._predicted(step, others, machine(dispatch_board.HOST))
        assert row.ours == pytest.approx(0.0, abs=1e-3)
        assert row.baselines["sum of operations"] < 0


def test_the_bundled_steps_are_whole() -> None:
    steps = read_steps(dispatch_board.BUNDLED)
    assert len(steps) >= 10
    assert len({step.name for step in steps}) == len(steps)
    for step in steps:
        plain = sum(step.seconds[op.name] * float(op.times) for op in step.workload)
        assert 0 < plain < 1.2 * step.measured
    sizes = [step.measured / sum(float(op.times) for op in step.workload) for step in steps]
    assert max(sizes) / min(sizes) > 20, "operations of very different sizes"


def test_without_a_file_the_board_says_how_to_make_one(tmp_path: Path) -> None:
    (row,) = dispatch_board.BOARD.rows(tmp_path)
    assert row.ok is None and "slipstick measure steps" in row.reason
