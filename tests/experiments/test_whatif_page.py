"""What the page of a what-if shows: every line says what it stands for, with units; no front that nobody asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.experiments.question.question import question
from slipstick.experiments.question.space import Range, Space
from slipstick.experiments.report.whatif_page import cards, ratio_chart, write
from slipstick.experiments.studies.whatif import WhatIf, answer

CLOCK, CORES, BANDWIDTH = "machine.clock", "machine.cores", "machine.memory.HBM2.bandwidth"


def _found(space: Space) -> WhatIf:
    return answer(replace(question("gemm", "v100-sxm", "roofline", []), vary=space))


def test_of_many_lines_a_few_spread_over_one_axis_and_the_rest_as_today() -> None:
    axes = {
        CLOCK: tuple(1e9 + i * 1e7 for i in range(30)),
        CORES: (20.0, 79.0, 160.0),
        BANDWIDTH: tuple(2e11 * (i + 1) for i in range(9)),
    }
    chart = ratio_chart(_found(Space(FrozenDict(axes))))
    assert chart.x_title == "machine.clock [Hz]"
    shown = ["200 GB/s", "600 GB/s", "1 TB/s", "1.4 TB/s", "1.8 TB/s"]
    assert [line.label for line in chart.lines] == [f"{BANDWIDTH} = {text}, {CORES} = 79" for text in shown]
    assert all(len(line.x) == 30 and line.low is None for line in chart.lines)


def test_a_line_of_many_samples_names_what_it_runs_over() -> None:
    sampled = {CLOCK: Range(1e9, 2e9), BANDWIDTH: Range(2e11, 2e12)}
    chart = ratio_chart(_found(Space(FrozenDict({CORES: (40.0, 80.0)}), FrozenDict(sampled), 2048)))
    over = {CLOCK: BANDWIDTH, BANDWIDTH: CLOCK}[chart.x_title.partition(" ")[0]]
    labels = [f"{CORES} = {cores}: median and range of 2,048 points over {over}" for cores in (40, 80)]
    assert [line.label for line in chart.lines] == labels


@pytest.mark.parametrize("objectives", [[], ["time", "energy"]])
def test_the_front_stands_only_where_it_was_asked_for(objectives: list[str], tmp_path: Path) -> None:
    found = _found(Space(FrozenDict({CLOCK: (1e9, 1.2e9, 1.5e9)})))
    text = write(found, tmp_path / "p.html", (), objectives)[0].read_text()
    assert ("<h2>The front</h2>" in text) == bool(objectives)
    assert "1.2 GHz</td>" in text and "machine.<wbr>clock" in text


def test_points_that_are_alike_but_not_as_today_are_no_absence_of_change(tmp_path: Path) -> None:
    """A bandwidth of a tenth is slower; a capacity of the memory changes nothing, and the card says what bounds it."""
    found = _found(Space(FrozenDict({BANDWIDTH: (9e10,)})))
    assert found.frame.time_ratio[0] > 1.5 and cards(found)[0].value != "no change"
    still = cards(_found(Space(FrozenDict({"machine.memory.HBM2.capacity": (8e9, 16e9)}))))[0]
    assert still.value == "no change" and "bounds today's time" in still.meaning


def test_a_quantity_that_varies_twice_is_refused() -> None:
    with pytest.raises(InputError, match="machine.clock varies twice"):
        question("gemm", "v100-sxm", "roofline", vary=[f"{CLOCK}=1GHz", f"{CLOCK}=2GHz"])
