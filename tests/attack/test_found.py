"""What `make attack` found, kept: each was an exception, a crash or an endless run once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.scaling.surfaces.surface_answers import extrapolate_surface
from slipstick.experiments.extrapolate.series_files import read
from slipstick.experiments.question.question import question
from slipstick.experiments.replay.replay import read_recorded
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.workload import Workload
from tests.attack.seeds import trace


def test_a_resource_of_four_words_is_refused() -> None:
    with pytest.raises(InputError, match=r"want flop\.UNIT\.DTYPE"):
        Cost({"flop.matrix.float32.more": 1})


def test_a_workload_of_no_operation_takes_no_time_and_that_is_no_answer() -> None:
    with pytest.raises(InputError, match="want a finite time > 0"):
        question(Workload("nothing", ()), "v100-sxm", "roofline", []).answer()


@pytest.mark.parametrize("text", ["e", "+", "--", ".."])
def test_a_correlation_that_is_no_number_is_left_out_or_said(text: str, tmp_path: Path) -> None:
    document = trace()
    document["traceEvents"][1]["args"]["correlation"] = "CUT"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document).replace('"CUT"', text))
    with pytest.raises(InputError):
        read_recorded(str(path))


@pytest.mark.parametrize("header", ["p,time_s", "p,q,time_s"])
def test_values_whose_powers_overflow_are_refused(header: str, tmp_path: Path) -> None:
    """A count of 1e-320 beside 32: ratios of them, and their squares, are no numbers."""
    path = tmp_path / "series.csv"
    columns = header.count(",")
    rows = [f"{','.join([value] * columns)},{time}" for value, time in zip(SMALL, (9, 5, 3, 2, 1.5, 1), strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n")
    measured = read(path)
    with pytest.raises(InputError, match="within a factor of 1e.15 of each other"):
        if columns == 1:
            measured.series()
        else:
            extrapolate_surface(measured.points, measured.times, ["p", "q"], [[64, 64]])


def test_a_key_of_several_lines_makes_one_line(tmp_path: Path) -> None:
    path = tmp_path / "series.json"
    path.write_text('{"a\\nb": 1}')
    with pytest.raises(InputError, match=r"no known layout \(fields: a b\)"):
        read(path)


SMALL = ("1e-320", "2", "4", "8", "16", "32")
REPEATS = "1," * 2_000_000 + "1"
POINT = '{"params": {"p": 1}, "value": 2}\n'


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("lines.jsonl", POINT + '{"params": {"p": 2}, "value": [' + REPEATS + "]}\n", "2,000,000 measurements"),
        ("many.jsonl", POINT * 500_000 + POINT, "500,000 lines"),
        (
            "extrap.json",
            '{"parameters": ["p"], "measurements": {"a": {"t": [{"point": [1], "values": [' + REPEATS + "]}]}}}",
            "2,000,000 measurements",
        ),
        ("extrap.txt", "PARAMETER p\nPOINTS 1\nDATA " + REPEATS.replace(",", " "), "2,000,000 measurements"),
        ("points.txt", "PARAMETER p\nPOINTS " + "(1)" * 2_000_001, "2,000,000 measurements"),
    ],
)
def test_a_grown_file_of_measurements_is_refused_before_it_is_built(
    name: str, text: str, limit: str, tmp_path: Path
) -> None:
    """A few MB of repeats took 18 s and gigabytes before they were counted."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=f"more than {limit}"):
        read(path)


def test_a_column_name_of_several_lines_stays_one_line_of_the_error(tmp_path: Path) -> None:
    from slipstick.experiments.measure.clocks.anchor_times import read_rows

    path = tmp_path / "rows.csv"
    path.write_text('",time_s\n1,10.2\n",5.4\n4,3.1\n')
    with pytest.raises(InputError, match="no column 'kind'") as refused:
        read_rows(path)
    assert "\n" not in str(refused.value)


LONG = "a" * 30_000
"""A word that no file and no name is."""


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ss.machine(LONG), lambda: ss.workload(LONG), lambda: ss.replay(LONG), lambda: ss.read(LONG),
        lambda: ss.serve(LONG, "h100-sxm"), lambda: ss.read_calibration(LONG), lambda: ss.load_machine(LONG),
        lambda: ss.load_study(LONG), lambda: ss.estimate("resnet50", "h100-sxm", settings={LONG: 1}),
        lambda: ss.estimate("resnet50", "h100-sxm", dtype=LONG), lambda: ss.estimator(LONG),
        lambda: ss.load_machine(f"/{LONG}/{LONG} {LONG}"),
    ],
)  # fmt: skip
def test_a_word_of_a_user_is_not_repeated_whole(ask: Callable[[], object]) -> None:
    with pytest.raises(InputError) as refused:
        ask()
    assert len(str(refused.value)) < 2000
