"""Rows of scoreboards as files, and the pages that are made from them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from slipstick.experiments.scoring import scoreboard_catalog
from slipstick.experiments.scoring.score import Board, Front
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.score_summary import Summary
from slipstick.experiments.scoring.validation_pages import (
    front_lines,
    front_page,
    save,
    saved,
    write_board_pages,
    write_pages,
)

ROOT = Path(__file__).parents[2]
HOW = Front("Steps", "the width", "step | time", "width")


def row(case: str, ours: float, metric: str = "MAPE", **more: object) -> ValidationRow:
    return ValidationRow("public times", case, "width", 3, metric, "1", ours, goal=0.1, ok=ours <= 0.1, **more)  # type: ignore[arg-type]


def boards(*names: str) -> dict[str, Board]:
    return {name: Board(f"What of {name}?", {}, (HOW,)) for name in names}


def test_rows_are_kept_with_command_date_and_commit_and_read_back(tmp_path: Path) -> None:
    rows = [row("step | time", 0.05, baselines={"line": 0.2}, noise_floor=0.01), skipped("other", "not here")]
    save("tpu", rows, tmp_path)
    run = saved(tmp_path)["tpu"]
    assert run.command == "slipstick validate tpu" and run.commit and run.date
    assert [one.to_dict() for one in run.rows] == [one.to_dict() for one in rows]


def test_numbers_that_json_lacks_are_none(tmp_path: Path) -> None:
    save("tpu", [row("step", float("nan"), baselines={"line": float("inf")})], tmp_path)
    (kept,) = saved(tmp_path)["tpu"].rows
    assert kept.ours is None and kept.baselines == {}


def test_shares_are_per_cent_and_what_is_missed_stands_first(tmp_path: Path) -> None:
    folder = tmp_path / "validation"
    save(
        "tpu",
        [row("step | time", 0.053, baselines={"line": 0.2}, noise_floor=0.004), row("other", 0.3, reason="two hosts")],
        folder,
    )
    simple = [{"line": 0.3}, {"line": 0.95}]
    tenth = row("step | time", 0.9, "90th percentile", baselines=simple[1])
    save("bandwidth", [row("step | time", 0.25, baselines=simple[0]), tenth], folder)
    write_pages(folder, boards("tpu", "bandwidth"))
    page = (folder / "tpu.md").read_text()
    assert "| step \\| time | width | 3 | MAPE 5.3 % (goal 10.0 %) | line 20 % |  | 0.4 % |  |" in page
    assert "| other | width | 3 | MAPE **30 %** (goal 10.0 %) |  |  |  | two hosts |" in page
    assert page.index("## Missed") < page.index("- public times: other") < page.index("## public times")
    both = (folder / "bandwidth.md").read_text()  # a line a case, whatever is scored of it
    assert "| 3 | MAPE **25 %** (goal 10.0 %), 90th percentile **90 %** (goal 10.0 %) | line 30 % / 95 % |" in both
    front = (tmp_path / "validation.md").read_text()
    assert "1 of 2 kinds of question miss their goal" in front and "1 of 4 goals are met" in front
    first, second = (line for line in front.splitlines() if line.startswith("| [Steps]"))
    assert "bandwidth.md) | the width | 3 | **25 %** | **90 %** | 10.0 % / 10.0 % |" in first and "tpu.md" in second
    assert (folder / "validation.svg").read_text().startswith("<?xml")


def test_the_front_page_that_ships_is_made_from_the_rows_and_fits_two_screens() -> None:
    folder = ROOT / "docs" / "validation"
    runs = saved(folder)
    lines = front_lines(runs, {name: scoreboard_catalog.scoreboard(name) for name in runs})
    text = (ROOT / "docs" / "validation.md").read_text()
    together = "\n".join(Summary.of(folder / "rows").lines())
    assert text == front_page(lines, runs, together=together)
    assert len(text.split()) < 1200


def test_a_page_of_every_scoreboard_is_made_from_its_rows_in_seconds(tmp_path: Path) -> None:
    """The pages are not committed: `make docs` makes them, and the front page links each of them."""
    shutil.copytree(ROOT / "docs" / "validation" / "rows", tmp_path / "rows")
    begin = time.process_time()
    runs = write_board_pages(
        tmp_path, {name: scoreboard_catalog.scoreboard(name) for name in scoreboard_catalog.scoreboards()}
    )
    assert time.process_time() - begin < 5
    assert len(runs) > 20
    front = (ROOT / "docs" / "validation.md").read_text()
    for name, run in runs.items():
        page = (tmp_path / f"{name}.md").read_text()
        assert page.startswith(f"# Scoreboard: {name}\n") and f"](validation/{name}.md)" in front
        assert all(row.dataset in page for row in run.rows)
