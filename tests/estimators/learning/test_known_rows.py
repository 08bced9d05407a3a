"""A user's own rows: Bayes' rule in closed form, which rows to measure by brute force, rows that say nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import SOURCE, LawFit, LawRows
from slipstick.estimators.fitting.updated_model import LawKnown, open_to, with_known
from slipstick.estimators.fitting.user_rows import chosen
from tests.estimators.learning.test_fit import Line, drawn

OWN = ("rate", "chip")
LAW = Line()


@pytest.fixture(scope="module")
def made() -> LawFit:
    return fit(LAW, drawn())


def rows_of(work: list[float], seconds: list[float], chip: str = "new") -> LawRows:
    count = len(work)
    groups = {"maker": ["a"] * count, "chip": [chip] * count}
    return LawRows({"work": np.array(work)}, groups, ["mine"] * count, np.array(seconds), ["user"] * count)


@pytest.mark.parametrize("slower", [0.8, 1.15, 1.4, 10.0])
def test_one_row_of_a_new_chip_is_bayes_rule(made: LawFit, slower: float) -> None:
    """Much work, so that log time = log rate: the mean of two normals, the prior as wide as the row is far off."""
    groups = {"maker": ["a"], "chip": ["new"]}
    columns = {"work": np.array([1e6])}
    plain = float(made.seconds(LAW, columns, groups)[0])
    row = rows_of([1e6], [slower * plain])
    opened = open_to(made, LAW, row, OWN)
    model = LawKnown.of(opened, LAW, row)
    _, slope = model.linear(np.zeros(model.size))
    prior, noise = float(np.linalg.norm(slope)) ** 2, float(model.noise[0]) ** 2
    prior = max(prior, np.log(slower) ** 2 - noise)
    after = with_known(made, LAW, row, OWN).fit
    assert np.log(after.seconds(LAW, columns, groups)[0] / plain) == pytest.approx(
        np.log(slower) * prior / (prior + noise), abs=0.02
    )
    off = np.log(slower * plain / after.seconds(LAW, columns, groups)[0])
    assert abs(off) < after.half_width(LAW, columns, groups)[0]


def test_opening_a_fit_to_a_new_chip_keeps_its_band(made: LawFit) -> None:
    """The error that rows of one configuration share is moved from their scatter to the configuration."""
    row = rows_of([3.0], [1.0])
    at = row.columns, row.groups
    opened = open_to(made, LAW, row, OWN)
    assert opened.seconds(LAW, *at) == pytest.approx(made.seconds(LAW, *at))
    assert opened.half_width(LAW, *at) == pytest.approx(made.half_width(LAW, *at), rel=0.1)
    wide = replace(made, stretches={"chip": 3.0})
    opened = open_to(wide, LAW, row, OWN)
    assert opened.half_width(LAW, *at) == pytest.approx(wide.half_width(LAW, *at), rel=0.1)


def test_a_row_scatters_as_its_own_source_does(made: LawFit) -> None:
    """Among rows of another, wilder source, a row whose groups name its own says as much as ever."""
    row = rows_of([1e6], [1e6])
    noisy = replace(
        made, scatter={**made.scatter, "wild": 1.0}, shared={**made.shared, "wild": max(made.shared.values())}
    )
    (own,) = made.scatter
    named = replace(row, groups={**row.groups, SOURCE: [own]})
    alone, among = (with_known(one, LAW, named, OWN).fit for one in (made, noisy))
    assert among.half_width(LAW, named.columns, named.groups) == pytest.approx(
        alone.half_width(LAW, named.columns, named.groups)
    )


def test_a_chip_of_its_own_pace_is_known_by_few_rows(made: LawFit) -> None:
    """1.6 x what its maker's chips take: two rows of different work bring the others within a few per cent."""
    work = np.exp(np.linspace(-2, 3, 20))
    truth = 3.2 * np.exp(0.02 * np.random.default_rng(2).standard_normal(20)) * work + 0.5
    every = rows_of(work.tolist(), truth.tolist())
    after = with_known(made, LAW, every.take(np.array([3, 18])), OWN).fit
    before, then = (np.abs(one.seconds(LAW, every.columns, every.groups) / truth - 1) for one in (made, after))
    assert np.mean(then) < 0.3 * np.mean(before)
    assert np.mean(after.half_width(LAW, every.columns, every.groups)) < np.mean(
        made.half_width(LAW, every.columns, every.groups)
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_rows_that_contradict_each_other_change_little(seed: int) -> None:
    """Eight rows that scatter by a factor around the law: no better than the law alone for the rest of them."""
    made, generator = fit(LAW, drawn(chips=4, rows=8)), np.random.default_rng(seed)
    work = np.exp(generator.uniform(-2, 3, 8))
    columns = {"work": work}
    plain = made.seconds(LAW, columns, {"maker": ["a"] * 8, "chip": ["new"] * 8})
    noisy = plain * np.exp(np.where(np.arange(8) % 2, 1.0, -1.0) * generator.uniform(0.5, 1.0, 8))
    known = with_known(made, LAW, rows_of(work.tolist(), noisy.tolist()), OWN)
    moved = np.abs(np.log(known.fit.seconds(LAW, columns, {"maker": ["a"] * 8, "chip": ["new"] * 8}) / plain))
    assert known.before is not None and known.after is not None and known.after <= known.before
    assert np.mean(moved) < 0.25


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_the_first_choice_is_the_best_one_by_brute_force(seed: int, targets: int) -> None:
    """Posterior variances of all targets by inverting the precision, for each row that could be measured."""
    generator = np.random.default_rng(seed)
    slope, noise = generator.standard_normal((6, 4)), generator.uniform(0.1, 1.0, 6)
    wanted, weight = generator.standard_normal((targets, 4)), generator.uniform(0.1, 1.0, targets)
    left = []
    for row, scale in zip(slope, noise, strict=True):
        after = np.linalg.inv(np.eye(4) + np.outer(row, row) / scale**2)
        left.append(float(weight @ np.einsum("ij,jk,ik->i", wanted, after, wanted)))
    first = chosen(slope, noise, 2, wanted, weight)
    assert first[0].place == int(np.argmin(left))
    assert first[0].spread == pytest.approx(float(np.linalg.norm(slope[first[0].place])))
    assert first[1].left <= first[0].left and first[1].place != first[0].place
