"""Tables that are printed without rich are, letter by letter, those that rich prints."""

from __future__ import annotations

import random

import pytest
from rich.console import Console

from slipstick.experiments.report.output import STYLED_BY, piped_table, print_cells


def words(draw: random.Random, most: int) -> str:
    """Some words of letters and signs, with one blank or two between them."""
    made = ["".join(draw.choices("abc=,1", k=draw.randint(1, 14))) for _ in range(draw.randint(1, most))]
    return "".join(f"{word}{draw.choice((' ', '  '))}" for word in made).strip()


@pytest.mark.parametrize("width", [60, 100, pytest.param(200, marks=pytest.mark.slow)])
def test_a_table_whose_longest_column_wraps(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*STYLED_BY, "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    draw = random.Random(width)
    plain = 0
    for _ in range(400):
        rows, columns = draw.randint(1, 6), draw.randint(2, 5)
        most = draw.sample([2, 2, 2, 2, 30], columns)
        cells = {
            "h" * draw.randint(1, 9) + draw.choice("_ xyz") + str(place): [words(draw, longest) for _ in range(rows)]
            for place, longest in enumerate(most)
        }
        numeric = {name: draw.random() < 0.2 for name in cells}
        if not piped_table(cells, numeric, width):
            capsys.readouterr()
            continue
        printed = capsys.readouterr().out
        console = Console(width=width, highlight=False, emoji=False)
        for line in print_cells(console, cells, numeric):
            console.print(line, markup=False)
        assert printed == capsys.readouterr().out
        plain += len(printed.splitlines()) > rows + 1
    assert plain > 20
