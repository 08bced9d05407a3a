"""The scoreboard of extrapolation: its split, its rows, and that it beats the simple methods where it says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipstick.estimators.fitting.fitted_file import FITTED
from slipstick.estimators.scaling.laws.priors import FITTED_NAME, Recalibration
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.scaling import scaling_board
from slipstick.experiments.scoreboards.scaling.code_series import code_cases, code_rows
from slipstick.experiments.scoreboards.scaling.planted_laws import NAMES as PLANTED_LAWS
from slipstick.experiments.scoreboards.scaling.planted_laws import planted_answers, planted_law
from slipstick.experiments.scoreboards.scaling.random_series import RATIOS, SETTINGS, drawn, random_law
from slipstick.experiments.scoreboards.scaling.scaling_refit import ANSWERS, LaterValues, refit
from slipstick.experiments.scoreboards.scaling.series_collection import every_series, read_collection
from slipstick.experiments.scoring.score import Board, Data

SERIES = Board("", {"scaling": scaling_board.BOARD.parts["scaling"]})
INDEX = "series,parameter,points,kind,source\na/1,threads,7,strong,me/a:x\nb/1,n,5,problem_size,me/b:y\n"


def collection(folder: Path) -> Path:
    (folder / "scaling").mkdir()
    (folder / "scaling" / "index.csv").write_text(INDEX)
    rows = [f"a/1,threads,{p},{r},{(1 + 100 / p) * (1 + 0.01 * r)}" for p in (1, 2, 4, 8, 16, 32, 64) for r in range(3)]
    rows += [f"b/1,n,{n},1,{0.1 + n}" for n in (1, 2, 4, 8, 16)]
    (folder / "scaling" / "series.csv").write_text("series,parameter,value,rep,time_s\n" + "\n".join(rows) + "\n")
    return folder


def test_the_split_is_the_first_five_and_more_or_four_of_five(tmp_path: Path) -> None:
    folder = collection(tmp_path) / "scaling"
    one, two = read_collection(folder / "index.csv", folder / "series.csv")
    assert [(len(known), list(later)) for known, later, _ in scaling_board.cases(one)] == [(5, [32, 64]), (6, [64])]
    assert [(len(known), list(later)) for known, later, _ in scaling_board.cases(two)] == [(4, [16])]
    known, _, truth = next(scaling_board.cases(one))
    assert known.y[0] == pytest.approx(101 * 1.01) and truth == pytest.approx([4.125 * 1.01, 2.5625 * 1.01])
    asked = scaling_board.predictions([one, two])
    assert [(a.kind, a.bin, a.five) for a in asked] == [
        ("strong", "2x", False),
        ("strong", "4x", False),
        ("strong", "2x", False),
        ("problem_size", "2x", True),
    ]


def test_rows_of_other_sources_are_scored(tmp_path: Path) -> None:
    found = {(row.case, row.metric): row for row in SERIES.rows(collection(tmp_path))}
    row = found["strong 2x", "median relative error"]
    assert row.n == 2 and row.ok is None and "1 sources: me/a" in row.reason
    assert set(row.baselines) == {"amdahl_nnls", "four_terms_nnls", "last_value"}
    assert not any(row.interval_coverage is not None for row in found.values())


def test_missing_files_are_skipped_with_the_reason(tmp_path: Path) -> None:
    (row,) = SERIES.rows(tmp_path)
    assert row.case == "skipped" and "scaling/index.csv is not in" in row.reason


def test_public_measurements_are_predicted_better_than_by_the_simple_methods() -> None:
    if training_file("scaling/series.csv") is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    found = {(row.case, row.metric): row for row in SERIES.rows()}
    for ratio in ("2x", "4x", "8x", ">11x"):
        row = found[f"problem_size {ratio}", "median relative error"]
        assert row.ours is not None and row.ours < row.baselines["four_terms_nnls"]
    # the goals 4 and 5 % are missed
    for case, most in (("problem_size 4x", 5.0), ("problem_size 8x", 7.0)):
        ours = found[case, "median relative error"].ours
        assert ours is not None and ours < most
    for case in ("problem_size 2x, trusted", "problem_size 4x, trusted"):
        assert found[case, "median relative error"].ok
    for case in ("strong 2x, band", "strong 4x, band", "problem_size 2x, band", "problem_size 4x, band"):
        row = found[case, "interval score of log time"]
        assert row.ours is not None and row.ours < row.baselines["same_width_everywhere"]
        assert row.interval_coverage == pytest.approx(0.80, abs=0.10)


def test_refused_answers_count_in_what_was_asked_and_not_in_what_remains() -> None:
    """90 answers 1 % off and 10 that are 20 times too large: refusing those ten leaves 1 % of error."""
    good = scaling_board.Target("s", "me", "strong", False, 2.0, 1.0, 1.01, 0.9, 1.1, False, 1.0, 1.0, 1.0)
    wrong = replace(good, ours=20.0, refused=True)
    row = next(iter(scaling_board._refusals([good] * 90 + [wrong] * 10)))
    assert row.n == 90 and row.ours == pytest.approx(1.0)
    assert row.baselines["nothing_refused"] > row.baselines["refusing_the_worst_with_hindsight"] == pytest.approx(1.0)
    assert "10.0% refused" in row.reason
    (missed, *_) = scaling_board._refusals([good] * 90 + [replace(wrong, refused=False)] * 20)
    assert missed.n == 110 and missed.ours == pytest.approx(1900.0)


def test_random_series_are_drawn_as_described() -> None:
    generator = np.random.default_rng(1)
    p = np.array([1.0, 4.0, 16.0])
    times = np.array([random_law(generator)(p) for _ in range(300)])
    # 1/p + b + overheads, or p^-k + b, with b at most 0.3: the first time is 1 + b, none falls faster than 1/p
    assert np.all((times[:, 0] >= 1.0) & (times[:, 0] <= 1.3))
    assert np.all(times[:, 1] >= 0.25) and np.mean(times[:, 0] == 1.0) == pytest.approx(0.1, abs=0.05)


def test_random_series_are_predicted_and_covered() -> None:
    predicted = drawn(SETTINGS[0], 703, 200)
    for ratio in RATIOS:
        some = predicted.only(predicted.ratio == ratio)
        assert some.error() < some.error("amdahl")
        # how far bands stretch is learned from codes, which depart from their laws more than these series do
        assert 0.72 <= some.covered <= 0.95
    assert np.mean(predicted.only(predicted.trusted).near) > 0.8


def test_codes_count_alike_and_each_is_left_out(tmp_path: Path) -> None:
    folder = collection(tmp_path)
    cases = code_cases(every_series(Data(folder)))
    assert [(code, len(known)) for code, known, _, _ in cases] == [("a", 4), ("a", 5), ("a", 6)]
    rows = {(row.case, row.metric): row for row in code_rows(Data(folder))}
    row = rows["codes left out, 2x", "median relative error, mean over codes"]
    assert row.n == 3 and row.ok is None and row.ours == pytest.approx(0.0, abs=1.0)


def test_what_is_learned_for_a_code_never_sees_it(tmp_path: Path) -> None:
    """The folder's only code left out: the average as it is."""
    later = LaterValues.of(code_cases(every_series(Data(collection(tmp_path)))))
    assert later.recalibration("a") == Recalibration() != later.recalibration()


def test_a_band_recalibrated_leaves_a_tenth_of_the_codes_beyond_each_end() -> None:
    """Scores of two codes, one with ten times as many: each says half; the answer is nearest to both."""
    generator = np.random.default_rng(1)
    codes = np.repeat(["a", "b"], [4000, 400])
    scores = generator.standard_normal(4400) * np.where(codes == "a", 1.0, 2.0)
    errors = np.abs(ANSWERS - 0.42)[:, None] + np.zeros(4400)
    learned = LaterValues(codes, scores, errors).recalibration()
    beyond = [side * scores > 1.2816 * end for side, end in ((-1.0, learned.below), (1.0, learned.above))]
    shares = [np.mean([end[codes == code].mean() for code in "ab"]) for end in beyond]
    assert shares == pytest.approx([0.1, 0.1], abs=0.005) and learned.answer == pytest.approx(0.42)


def test_planted_laws_are_drawn_as_described_and_answered_better_than_by_amdahl() -> None:
    """Seeds below 1,000; the board has 400 series of seeds that served for nothing."""
    said = planted_answers(705, 12)
    assert len(said) == 2 * 12 * len(PLANTED_LAWS)
    assert said.error() <= 0.6 * said.error("amdahl")
    assert 0.72 <= said.covered <= 0.92 and np.mean(said.only(said.trusted).near) >= 0.80
    for name in PLANTED_LAWS:
        generator = np.random.default_rng(3)
        u = np.array([1.0, 8.0])
        times = np.array([planted_law(name, generator)(u) for _ in range(20)])
        # none is faster at one worker than one part in two, or at eight than an eighth of that
        assert np.all(times[:, 0] >= 0.5) and np.all(times[:, 1] >= 0.5 / 8)


@pytest.mark.slow
def test_the_refit_repeats_what_ships() -> None:
    if training_file("scaling/series.csv") is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    assert refit().text() == (FITTED / f"{FITTED_NAME}.json").read_text()
