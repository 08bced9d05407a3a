"""Other people's predictors: their scores by hand, what they may know, files that are wrong, and the verb."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoring.case_sets import cases_of
from slipstick.experiments.scoring.prediction_files import read_predictions, write_cases
from slipstick.experiments.scoring.predictor_comparison import PredictorRun, run, scores
from slipstick.experiments.scoring.score import Board, Data, Scored, of_errors
from slipstick.experiments.scoring.scored_cases import Answer, Case, CaseSet, Measured, StatedTime
from tests.validation.test_scaling import collection

ROOT = Path(__file__).parents[2]
OWN = '''
def last_value(case, known):
    """As long as the largest known value took."""
    return case.inputs["times_s"][-1]


def silent(case, known):
    return None


def perfect(case, known):
    """Shares the work without loss; a factor of two to both sides."""
    time = case.inputs["times_s"][-1] * case.inputs["known"][-1] / case.inputs["to"]
    return time, time / 2, time * 2
'''


def cases() -> CaseSet:
    groups = {"one": "a", "two": "a", "three": "b", "=four": "b"}
    times = (1.0, 2.0, 4.0, 8.0)
    measured = tuple(
        Measured(Case(name, group, {"size": time, "row": (1.0, 2.0), "word": "=x"}), time)
        for (name, group), time in zip(groups.items(), times, strict=True)
    )
    return CaseSet("own", "group", measured, {"twice": lambda: [StatedTime(2 * one.time) for one in measured]})


def test_scores_are_those_by_hand() -> None:
    made = PredictorRun((StatedTime(1.0, 0.5, 2.0), StatedTime(4.0, 4.0, 8.0), StatedTime(4.0, 4.0, 4.0), None))
    (score,) = scores(cases(), {"mine": made})
    assert (score.cases, score.answered) == (4, 0.75)
    assert score.median_error == 0 and score.p90_error == pytest.approx(0.8)  # errors 0, 0, 1; linear between the last
    assert score.ratio == pytest.approx(2 ** (1 / 3))
    assert score.coverage == pytest.approx(2 / 3) and score.width == pytest.approx(2.0)
    # log widths 2 ln 2, ln 2, 0; the second band misses by ln 2, which costs 2 / 0.2 times that
    assert score.interval_score == pytest.approx((2 + 1 + 10) * np.log(2) / 3)


def test_errors_on_common_cases_stand_beside() -> None:
    good = PredictorRun((StatedTime(1.0), None, None, None))
    rough = PredictorRun(
        tuple(StatedTime(2 * one.time if place else 1.5) for place, one in enumerate(cases().measured))
    )
    first, second = scores(cases(), {"good": good, "rough": rough})
    assert first.common_median_error == 0 and second.common_median_error == pytest.approx(0.5)
    assert second.median_error == 1 and second.coverage is None and second.cpu_ms is None


def test_a_predictor_knows_the_other_groups_only() -> None:
    seen: dict[str, set[str]] = {}

    def predictor(case: Case, known: Sequence[Measured]) -> Answer:
        seen[case.name] = {one.case.group for one in known}
        assert not hasattr(case, "time")
        return 1.0 if case.group == "a" else None

    made = run(predictor, cases())
    assert seen == {"one": {"b"}, "two": {"b"}, "three": {"a"}, "=four": {"a"}}
    assert [one is None for one in made.predictions] == [False, False, True, True]


@pytest.mark.parametrize("answer", [0.0, -1.0, float("nan"), float("inf"), (1.0, 2.0), (1.0, 3.0, 2.0), "soon"])
def test_answers_that_cannot_be_count_as_none(answer: Answer) -> None:
    made = run(lambda case, known: answer, cases())
    assert not any(made.predictions) and len(made.refusals) == 4 and "one: " in made.refusals[0]


def test_cases_and_predictions_go_through_files(tmp_path: Path) -> None:
    write_cases(cases(), tmp_path / "cases.csv")
    with (tmp_path / "cases.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["group"] for row in rows] == ["a", "a", "b", "b"]
    assert json.loads(rows[0]["row"]) == [1, 2] and rows[3]["case"] == "'=four"  # no cell is a formula
    lines = ["case,time_s,low_s,high_s", *(f"{row['case']},{row['measured_s']},," for row in rows[1:])]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    found = read_predictions(cases(), tmp_path / "mine.csv")
    assert found == [None, StatedTime(2.0), StatedTime(4.0), StatedTime(8.0)]


def test_all_errors_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    wrong = ("one,-1,,", "two,1,2,", "five,1,,", "three,x,,", "=four,1,,", "=four,1,,")
    (tmp_path / "bad.csv").write_text("case,time_s,low_s,high_s\n" + "\n".join(wrong))
    with pytest.raises(InputError) as error:
        read_predictions(cases(), tmp_path / "bad.csv")
    said = str(error.value)
    for part in ("line 2: time = -1.0 s", "line 3: a band", "line 4: case 'five' is none of the 4", "line 5", "line 7"):
        assert part in said


@pytest.mark.slow
def test_the_verb_scores_a_function_and_a_file_beside_ours(tmp_path: Path) -> None:
    collection(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)

    def slipstick(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "slipstick", "validate", "scaling", "--data", str(tmp_path), *words]
        paths = os.pathsep.join([str(ROOT), str(tmp_path)])
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)

    wrote = slipstick("--export-cases", "cases.csv")
    assert wrote.returncode == 0 and "4 cases written" in wrote.stderr
    with (tmp_path / "cases.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    lines = [f'"{row["case"]}",{row["measured_s"]}' for row in rows]
    (tmp_path / "truth.csv").write_text("case,time_s\n" + "\n".join(lines) + "\n")
    functions = ("--predictor", "mine:last_value", "--predictor", "mine:perfect")
    scored = slipstick(*functions, "--predictions", "truth.csv", "--format", "json")
    assert scored.returncode == 0, scored.stderr
    rows = json.loads(scored.stdout)
    table = {row["predictor"]: row for row in rows if row["kind"] == "strong"}
    assert not any(row["predictor"] == "amdahl" for row in rows if row["kind"] == "problem_size")
    assert list(table) == ["mine:last_value", "mine:perfect", "truth.csv", "ours", "amdahl", "last value"]
    assert table["truth.csv"]["p90_error"] == 0 and table["mine:perfect"]["width"] == pytest.approx(4.0)
    same = ("median_error", "p90_error", "ratio")
    assert [table["mine:last_value"][key] for key in same] == [table["last value"][key] for key in same]
    assert table["ours"]["median_error"] < table["last value"]["median_error"]
    silent = slipstick("--predictor", "mine:silent", "--baselines", "none")
    assert silent.returncode == 1 and "no answer" not in silent.stderr
    wrong = slipstick("--predictor", "mine:absent")
    assert wrong.returncode == 2 and "MODULE:FUNCTION" in wrong.stderr


@pytest.mark.skipif(training_file("scaling/series.csv") is None, reason="no public measurements here")
@pytest.mark.parametrize("name", ["scaling", "surfaces", "training", "serving", "defaults"])
def test_public_sets_hold_cases_in_several_groups(name: str) -> None:
    from slipstick.experiments.scoring.case_sets import case_set

    found = case_set(name)
    assert len({one.case.group for one in found.measured}) > 2 and len(found.measured) > 50
    assert "ours" in found.references and all(one.time > 0 for one in found.measured)


def test_rows_of_any_board_are_cases_and_no_case_knows_its_own_group() -> None:
    """Two groups left out in turn know each other; rows that stand under a second rule of holding out are apart."""
    seconds = np.array([1.0, 2.0, 4.0])
    left = [Scored("step", one, seconds, 1.1 * seconds, baselines={"line": 2 * seconds}) for one in ("a", "b")]
    other = Scored("step", "models", seconds, seconds, groups=["x", "x", "y"], inputs=[{"n": n} for n in (1, 2, 4)])
    ratios = of_errors("share", "c", np.zeros(3), {})
    board = Board("How long?", {"set": lambda _: [*left, other, ratios]})
    cases = cases_of("mine", board, Data())
    known = [{one.case.group for one in cases.known(each.case)} for each in cases.measured]
    assert known == [{"b"}] * 3 + [{"a"}] * 3 + [{"y"}, {"y"}, {"x"}]
    assert cases.measured[0].case.inputs == {"line": 2.0} and cases.measured[8].case.inputs == {"n": 4}
    ours, line = (cases.references[name]() for name in ("ours", "line"))
    assert ours[1] is not None and ours[1].time == pytest.approx(2.2) and line[6] is None
