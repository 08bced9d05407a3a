"""The page of scoreboards: one section a board, written without touching the others."""

from pathlib import Path

from slipstick.experiments.evidence.rows import ValidationRow
from slipstick.experiments.evidence.scoreboard_page import MARK, put


def row(case: str, ours: float) -> ValidationRow:
    return ValidationRow("public times", case, "machine", 3, "MAPE", "", ours, goal=0.1, ok=ours <= 0.1)


def test_a_section_is_replaced_and_the_rest_of_the_page_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Ours\n\nWritten by hand.\n\n{MARK}\n")
    put("tpu", [row("step | time", 0.05)], page)
    put("bandwidth", [row("triad", 0.3)], page)
    put("tpu", [row("step | time", 0.07)], page)
    text = page.read_text()
    assert text.startswith("# Ours\n\nWritten by hand.")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## bandwidth", "## tpu"]
    assert "| step \\| time | machine | 3 | MAPE | 0.07 | 0.1 | yes |" in text
    assert "| triad | machine | 3 | MAPE | 0.3 | 0.1 | **no** |" in text
    assert "0.05" not in text


def test_a_page_that_is_not_there_is_begun(tmp_path: Path) -> None:
    put("spmv", [row("hot", 0.02)], tmp_path / "new.md")
    assert (tmp_path / "new.md").read_text().startswith("# Validation\n\n" + MARK)
