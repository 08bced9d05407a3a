"""Each aim of docs/mission.md: its command runs, its file and its test are there, its figure is what was measured."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import slipstick as ss
from slipstick.experiments.scoring.validation_pages import Saved, saved
from tools.listings import empty_folder, printed

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mission.md"
ROW = re.compile(r"^\| ([^|]+) \| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \| ([^|]+) \|$", re.M)
FIGURE = re.compile(r"(?:\[([a-z-]+)\]\(validation/\1\.md\)|reproduce ([a-z-]+)), (.+): ([\d.]+) (.+)")
AIMS = ROW.findall(PAGE.read_text())


@cache
def _boards() -> dict[str, Saved]:
    return saved(ROOT / "docs" / "validation")


@cache
def _reproduced(paper: str) -> Any:
    return ss.reproduce(paper)


def _measured(board: str, paper: str, case: str) -> tuple[float, str]:
    """The first row of the case, in per cent where it is a share."""
    if paper:
        row = next(row for row in _reproduced(paper) if row.cell == case)
        return row.ours, row.unit
    scored = next(row for row in _boards()[board].rows if row.case == case)
    assert scored.ours is not None
    return (100 * scored.ours, "%") if scored.unit == "1" else (scored.ours, scored.unit)


def test_every_line_of_the_table_is_read() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    assert len(AIMS) == len(lines) - 2 == 16
    assert [aim[0].partition(":")[0] for aim in AIMS][-8:] == ["use"] * 3 + ["paper"] * 5


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim[0])
def test_the_file_and_the_test_are_there(aim: tuple[str, ...]) -> None:
    assert (ROOT / aim[2]).exists() and (ROOT / aim[3]).is_file()


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim[0])
def test_the_command_answers(aim: tuple[str, ...]) -> None:
    with empty_folder(PAGE):
        code, output, errors = printed(aim[1])
    assert code == 0, errors
    assert output or aim[1].startswith("python ")


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim[0])
def test_the_figure_is_what_was_measured(aim: tuple[str, ...]) -> None:
    tolerance = re.fullmatch(r"the test: (\S+) of the recurrence", aim[4])
    if tolerance:
        assert f"abs={tolerance[1]})" in (ROOT / aim[3]).read_text()
        return
    found = FIGURE.fullmatch(aim[4])
    assert found, aim[4]
    board, paper, case, figure, unit = found.groups()
    ours, measured_in = _measured(board, paper, case)
    digits = len(figure.partition(".")[2])
    assert (f"{ours:.{digits}f}", measured_in) == (figure, unit)
