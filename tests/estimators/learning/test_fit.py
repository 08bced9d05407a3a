"""The fitter: a published random-effects problem, drawn problems, physics of its bands, determinism, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, load_fitted
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, LawFit, LawRows, ParameterPrior
from slipstick.estimators.fitting.formula_model import plain_fit
from slipstick.estimators.fitting.prediction_bands import calibrated, folds, left_out, stretch


@dataclass(frozen=True)
class Line:
    """`rate` x work + `fixed`, with effects of makers and their chips on the rate."""

    name: str = "line"
    parameters: Sequence[ParameterPrior] = (
        ParameterPrior("rate", "s", "a unit of work", 1.0, 0.5, 1e-3, 1e3, "rate", ("maker", "chip")),
        ParameterPrior("fixed", "s", "whatever the work", 0.1, 0.5, 1e-4, 1e2, "fixed"),
    )
    levels: Sequence[Grouping] = (Grouping("maker", 0.3), Grouping("chip", 0.1))

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        return np.asarray(parameters["rate"] * columns["work"] + parameters["fixed"], dtype=float)


@dataclass(frozen=True)
class Batches:
    """One mean and batches about it."""

    name: str = "batches"
    parameters: Sequence[ParameterPrior] = field(
        default=(ParameterPrior("mean", "s", "of all", 4.5, 0.5, 1e-3, 1e3, "mean", ("batch",)),)
    )
    levels: Sequence[Grouping] = (Grouping("batch", 0.04),)

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        return np.asarray(parameters["mean"] * columns["one"], dtype=float)


def drawn(chips: int = 8, rows: int = 12, noise: float = 0.05, seed: int = 3) -> LawRows:
    """Rows of two makers whose chips differ by 20 %."""
    generator = np.random.default_rng(seed)
    effect = 0.2 * generator.standard_normal(chips)
    chip = np.repeat(np.arange(chips), rows)
    work = np.exp(generator.uniform(-2, 3, chips * rows))
    seconds = (2.0 * np.exp(effect[chip]) * work + 0.5) * np.exp(noise * generator.standard_normal(len(work)))
    names = [f"chip {c}" for c in chip]
    makers = ["a" if c % 2 else "b" for c in chip]
    runs = [f"{name} {at % rows}" for at, name in enumerate(names)]
    return LawRows({"work": work}, {"maker": makers, "chip": names}, runs, seconds, ["one"] * len(names))


def test_the_dyestuff_batches() -> None:
    """Davies (1967): six batches of five; REML gives 1527.5, 42.0 between batches and 49.5 within (lme4, Table 1.1).

    Here yields are exponents (log time = yield / 1000); t errors and the hyperprior draw the widths a little.
    """
    yields = [
        1545, 1440, 1440, 1520, 1580, 1540, 1555, 1490, 1560, 1495, 1595, 1550, 1605, 1510, 1560,
        1445, 1440, 1595, 1465, 1545, 1595, 1630, 1515, 1635, 1625, 1520, 1455, 1450, 1480, 1445,
    ]  # fmt: skip
    batch = [name for name in "ABCDEF" for _ in range(5)]
    alone = [str(at) for at in range(30)]
    rows = LawRows({"one": np.ones(30)}, {"batch": batch}, alone, np.exp(np.array(yields) / 1000), ["lab"] * 30)
    made = fit(Batches(), rows)
    assert 1000 * made.logs[0] == pytest.approx(1527.5, abs=6)
    assert 1000 * made.widths["mean", "batch"] == pytest.approx(42.0, abs=10)
    assert 1000 * made.scatter["lab"] == pytest.approx(49.5, abs=25)
    effects = dict(zip([c.group for c in made.coordinates[1:]], 1000 * made.logs[1:], strict=True))
    shrunk = {"A": -17.6, "B": 0.4, "C": 28.6, "D": -23.1, "E": 56.7, "F": -45.0}  # the same table's predictions
    assert effects == pytest.approx(shrunk, abs=14)


def test_values_and_widths_of_a_drawn_problem_come_back() -> None:
    made = fit(Line(), drawn(chips=40))
    rate, fixed = np.exp(made.logs[:2])
    assert rate * np.exp(made.logs[2:4].mean()) == pytest.approx(2.0, rel=0.12)
    assert fixed == pytest.approx(0.5, rel=0.1)
    assert made.widths["rate", "chip"] == pytest.approx(0.2, rel=0.35)


def test_a_band_grows_with_what_is_unseen() -> None:
    rows, law = drawn(), Line()
    made = fit(law, rows)
    columns = {"work": np.array([1.0, 1.0, 1.0])}
    groups = {"maker": ["a", "a", "c"], "chip": ["chip 1", "new", "new"]}
    known, chip, maker = made.half_width(law, columns, groups)
    assert known < chip < maker


def test_rows_far_off_hardly_count() -> None:
    rows, law = drawn(), Line()
    wrong = rows.seconds.copy()
    wrong[::10] *= 20
    other = LawRows(rows.columns, rows.groups, rows.cluster, wrong, rows.source)
    at = {"work": np.array([3.0])}, {"maker": ["a"], "chip": ["chip 1"]}
    assert fit(law, other).seconds(law, *at) == pytest.approx(fit(law, rows).seconds(law, *at), rel=0.1)


def test_one_prolific_configuration_does_not_outvote_the_others() -> None:
    rows, law = drawn(chips=6, rows=4), Line()
    places = np.r_[np.arange(len(rows)), np.repeat(np.arange(4), 300)]  # chip 0 again and again
    many = rows.take(places.astype(np.intp))
    at = {"work": np.array([3.0])}, {"maker": ["b"], "chip": ["new"]}
    assert fit(law, many).seconds(law, *at) == pytest.approx(fit(law, rows).seconds(law, *at), rel=0.12)


def test_a_fit_is_the_same_when_run_twice_and_in_any_order() -> None:
    rows, law = drawn(), Line()
    one, again = fit(law, rows), fit(law, rows)
    assert one.to_dict() == again.to_dict()
    turned = fit(law, rows.take(np.arange(len(rows))[::-1]))
    assert turned.coordinates == one.coordinates
    assert turned.logs == pytest.approx(one.logs, abs=2e-3)


def test_two_steps_from_a_near_fit_stand_for_a_fit_of_their_own() -> None:
    rows, law = drawn(), Line()
    keep = np.array([at for at in range(len(rows)) if rows.groups["chip"][at] != "chip 3"])
    known = rows.take(keep)
    exact, near = fit(law, known), fit(law, known, near=fit(law, rows))
    at = {"work": np.array([0.1, 3.0])}, {"maker": ["a", "a"], "chip": ["chip 3", "chip 1"]}
    assert near.seconds(law, *at) == pytest.approx(exact.seconds(law, *at), rel=0.03)


def test_bands_of_left_out_groups_are_stretched() -> None:
    groups = [f"g{at // 4}" for at in range(80)]
    off = np.tile([0.0, 0.1, 0.2, 0.3], 20)
    assert stretch(np.exp(off), np.full(80, 0.1), np.ones(80), groups) == pytest.approx(3.0 ** (20 / 24))
    assert stretch(np.full(80, np.nan), np.full(80, 0.1), np.ones(80), groups) == 1.0
    assert 0.5 < calibrated(Line(), drawn(), drawn().groups["chip"]).stretch < 2


def test_folds_within_promise_what_the_outer_fold_shows_where_the_law_is_right() -> None:
    rows, law = drawn(), Line()
    chips = list(rows.groups["chip"])
    made = left_out(law, rows, folds(chips), chips)
    score = OuterScore.of("chip", "all", 8, made.seconds, rows.seconds, made.half, made.inner)
    assert score.over_inner is not None and 0.7 < score.over_inner < 1.4
    doubled = OuterScore.of("chip", "all", 1, np.full(4, 2.0), np.ones(4), np.ones(4), 0.1)
    assert doubled.over_inner == pytest.approx(np.log(2) / 0.1)
    assert "over_inner" not in FittedFile("line", {}, 4, {}, (replace(doubled, over_inner=None),)).text()


def test_files_keep_everything_and_change_only_with_the_fit(tmp_path: Path) -> None:
    law, rows = Line(), drawn()
    made = fit(law, rows)
    score = OuterScore("chip", "all", 96, 8, 0.05, 0.2, 0.8, 1.5)
    file = FittedFile("line", {"rows.csv": "ab12"}, len(rows), {"line": made}, (score,))
    assert file.save(tmp_path)
    assert not file.save(tmp_path)
    made.logs[:] *= 1 + 3e-6  # a sum in another order
    assert not file.save(tmp_path)
    again = load_fitted("line", tmp_path)
    made.logs[:] /= 1 + 3e-6
    assert again.text() == file.text()
    assert again.outer == file.outer
    made.logs[0] *= 1.001
    assert file.save(tmp_path)
    at = {"work": np.array([3.0])}, {"maker": ["a"], "chip": ["chip 1"]}
    assert again.fit("line").half_width(law, *at) == pytest.approx(made.half_width(law, *at), rel=1e-4)
    with pytest.raises(InputError, match="no fit of curve"):
        again.fit("curve")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="format"):
        load_fitted("other", tmp_path)


def test_times_must_be_positive() -> None:
    rows = drawn()
    with pytest.raises(ValueError, match="positive times"):
        fit(Line(), LawRows(rows.columns, rows.groups, rows.cluster, rows.seconds * 0, rows.source))


@pytest.mark.parametrize(("low", "high", "seconds"), [(1e-3, 0.1, 5.0), (0.3, 2.0, 1e-4)])
def test_a_fit_that_is_pressed_against_a_bound_ends_at_the_bound(low: float, high: float, seconds: float) -> None:
    """exp(log 0.1) = 0.10000000000000002, which a record of parameters with that bound refuses."""
    prior = ParameterPrior("mean", "s", "of all", (low * high) ** 0.5, 5.0, low, high)
    law = FormulaLaw("pressed", (prior,), lambda numbers, columns: numbers["mean"] * columns["row"] ** 0)
    measured = np.full(20, seconds)
    end = high if seconds > high else low
    assert plain_fit(law, measured)["mean"] == end
    rows = LawRows({"row": np.ones(20)}, {}, [str(row) for row in range(20)], measured, ["one"] * 20)
    assert fit(law, rows).values(law, {})["mean"] == [end]


def test_of_several_levels_left_out_the_one_that_errs_most_stretches_the_bands() -> None:
    rows = drawn()
    chips, one = rows.groups["chip"], ["a", "b"] * (len(rows) // 2) + ["a"] * (len(rows) % 2)
    alone = [calibrated(Line(), rows, key).stretch for key in (chips, one)]
    assert calibrated(Line(), rows, chips, one).stretch == max(alone)


def test_what_a_level_calls_for_widens_the_rows_that_leave_it_open() -> None:
    rows, law = drawn(), Line()
    alone = {level: calibrated(law, rows, rows.groups[level]).stretch for level in ("chip", "maker")}
    made = calibrated(law, rows, "chip", "maker")
    assert made.stretches == alone and made.stretch == max(1.0, min(alone.values()))
    columns = {"work": np.ones(3)}
    groups = {"maker": ["a", "a", "c"], "chip": ["chip 1", "new", "chip 1"]}
    plain = replace(made, stretch=1.0, stretches={}).half_width(law, columns, groups)
    factors = made.half_width(law, columns, groups) / plain
    assert factors == pytest.approx([made.stretch, alone["chip"], alone["maker"]])
    again = LawFit.from_dict(made.to_dict())
    assert again.half_width(law, columns, groups) == pytest.approx(factors * plain, rel=1e-4)
    assert made.ratio_half_width(law, columns, groups) > made.stretch * replace(
        made, stretch=1.0, stretches={}
    ).ratio_half_width(law, columns, groups) * (1 - 1e-9)


def test_a_row_of_a_known_source_scatters_as_that_source() -> None:
    rows = drawn()
    made = fit(Line(), rows)
    noisy = replace(made, scatter={**made.scatter, "crowd": 10 * max(made.scatter.values())})
    known = {**rows.groups, "source": rows.source}
    assert noisy.half_width(Line(), rows.columns, known) == pytest.approx(
        made.half_width(Line(), rows.columns, rows.groups)
    )
    assert (noisy.half_width(Line(), rows.columns, rows.groups) > noisy.half_width(Line(), rows.columns, known)).all()


def test_groups_whose_errors_are_larger_have_wider_bands(tmp_path: Path) -> None:
    """Chips of one maker differ by 3 %, those of the other by 40 %: one width of effects would serve neither."""
    generator = np.random.default_rng(5)
    chip = np.repeat(np.arange(24), 4)
    effect = np.where(np.arange(24) % 2, 0.03, 0.4) * generator.standard_normal(24)
    work = np.exp(generator.uniform(0, 3, len(chip)))
    seconds = (2.0 * np.exp(effect[chip]) * work + 0.1) * np.exp(0.02 * generator.standard_normal(len(chip)))
    names, makers = [f"chip {c}" for c in chip], ["a" if c % 2 else "b" for c in chip]
    rows = LawRows({"work": work}, {"maker": makers, "chip": names}, names, seconds, ["one"] * len(names))
    made = calibrated(Line(), rows, "chip", factors_by="maker")
    factors = made.band_factors["maker"]
    assert factors["a"] < 0.7 < 1.1 < factors["b"]
    few = rows.take(np.flatnonzero([at < 9 or at % 2 == 0 for at in chip]))  # four chips of maker a
    assert calibrated(Line(), few, "chip", factors_by="maker").band_factors["maker"]["a"] == 1
    stored = FittedFile("it", {}, len(rows), {"line": made})
    assert stored.save(tmp_path)
    read, unseen = load_fitted("it", tmp_path).fit("line"), {"maker": ["a", "b"], "chip": ["?", "?"]}
    narrow, wide = read.half_width(Line(), {"work": np.ones(2)}, unseen)
    assert wide / narrow == pytest.approx(factors["b"] / factors["a"], rel=0.02)
