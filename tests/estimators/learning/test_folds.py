"""Folds leave whole groups out, also under several keys and inside one another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.fitting.prediction_bands import Fold, folds, within

MODEL = ["a", "a", "b", "b", "c", "c"]
SYSTEM = ["x", "y", "x", "y", "y", "z"]


def _shown(made: tuple[Fold, ...]) -> list[tuple[str, list[int], list[int]]]:
    return [(fold.held_out, fold.known.tolist(), fold.scored.tolist()) for fold in made]


def test_one_key_leaves_each_group_out_once() -> None:
    assert _shown(folds(MODEL)) == [
        ("a", [2, 3, 4, 5], [0, 1]),
        ("b", [0, 1, 4, 5], [2, 3]),
        ("c", [0, 1, 2, 3], [4, 5]),
    ]


def test_two_keys_leave_out_what_shares_either() -> None:
    first = folds(MODEL, SYSTEM)[0]
    assert (first.held_out, first.known.tolist(), first.scored.tolist()) == ("a and x", [3, 4, 5], [0])


def test_rows_that_are_not_scored_are_still_known() -> None:
    assert _shown(folds(MODEL, scored={0, 2, 3})) == [("a", [2, 3, 4, 5], [0]), ("b", [0, 1, 4, 5], [2, 3])]


def test_a_group_without_others_has_no_fold() -> None:
    assert folds(["a", "a"]) == ()


def test_groups_are_put_together_by_size() -> None:
    made = folds(["a"] * 5 + ["b"] * 3 + ["c"] * 2 + ["d"], at_most=2)
    assert [(fold.held_out, len(fold.scored)) for fold in made] == [("a; d", 6), ("b; c", 5)]


def test_keys_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"keys of \[2, 1\] rows"):
        folds(["a", "b"], ["x"])


KEYS = st.integers(1, 25).flatmap(
    lambda n: st.tuples(*(st.lists(st.sampled_from("abcde"), min_size=n, max_size=n) for _ in range(2)))
)


@given(KEYS, st.integers(0, 4))
def test_no_fold_knows_what_it_scores(keys: tuple[list[str], list[str]], at_most: int) -> None:
    made = folds(*keys, at_most=at_most)
    for fold in made:
        for key in keys:
            assert not {key[i] for i in fold.known} & {key[i] for i in fold.scored}
        for inner in within(fold, keys[0]):
            assert set(inner.scored) | set(inner.known) <= set(fold.known)
            assert not {keys[0][i] for i in inner.known} & {keys[0][i] for i in inner.scored}
    scored = np.concatenate([fold.scored for fold in made]) if made else np.empty(0)
    assert len(scored) == len(set(scored))


@given(KEYS, st.randoms(use_true_random=False))
def test_folds_do_not_depend_on_the_order_of_rows(keys: tuple[list[str], list[str]], random: object) -> None:
    order = list(range(len(keys[0])))
    random.shuffle(order)  # type: ignore[attr-defined]
    turned = [[key[i] for i in order] for key in keys]
    plain = [(f.held_out, sorted(f.known), sorted(f.scored)) for f in folds(*keys)]
    back = [(f.held_out, sorted(order[i] for i in f.known), sorted(order[i] for i in f.scored)) for f in folds(*turned)]
    assert back == plain
