"""Lengths of data sets, and how they become the iterations of an epoch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.workloads.runs.iterations import Iterations, epoch_lengths
from slipstick.workloads.runs.lengths import Lengths, lognormal_lengths, read_lengths


def lengths_of(*values: int) -> Lengths:
    return Lengths(np.array(values), "tokens", "a test")


def test_batches_are_padded_to_their_longest() -> None:
    # six sentences in batches of two: sorted 1 2 | 3 5 | 8 9
    assert epoch_lengths(lengths_of(5, 1, 9, 2, 8, 3), 2, "sorted").tolist() == [2, 5, 9]
    assert sorted(epoch_lengths(lengths_of(5, 1, 9, 2, 8, 3), 2, "bucketed", seed=3).tolist()) == [2, 5, 9]
    assert epoch_lengths(lengths_of(4, 7, 5), 2, "sorted").tolist() == [5, 7]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=200), st.integers(1, 40), st.integers(0, 99))
def test_every_order_is_one_epoch(values: list[int], batch: int, seed: int) -> None:
    data = lengths_of(*values)
    padded = {order: epoch_lengths(data, batch, order, seed) for order in ("sorted", "bucketed", "shuffled")}
    for order, one in padded.items():
        assert len(one) == -(-len(values) // batch), order
        assert one.max() == max(values)
    # similar lengths together pad least
    assert padded["sorted"][:-1].sum() <= padded["shuffled"].sum()
    assert sorted(padded["bucketed"].tolist()) == padded["sorted"].tolist()


def test_resampled_lengths_say_that_they_are_synthetic() -> None:
    drawn = lengths_of(3, 9).resampled(1000, seed=1)
    assert drawn.synthetic and len(drawn) == 1000 and set(drawn.values.tolist()) == {3, 9}
    assert drawn == lengths_of(3, 9).resampled(1000, seed=1) != lengths_of(3, 9).resampled(1000, seed=2)


def test_log_normal_lengths_have_the_middle_and_width_asked_for() -> None:
    drawn = lognormal_lengths(20_000, 18, 0.6, 1, 1000, seed=2)
    assert np.median(drawn.values) == pytest.approx(18, abs=1)
    assert np.std(np.log(drawn.values)) == pytest.approx(0.6, rel=0.05)
    assert lognormal_lengths(1000, 18, 0.6, 10, 30).values.max() == 30


def test_frames_of_samples_are_rounded_down() -> None:
    # 10 ms at 16 kHz
    assert lengths_of(48_000, 48_159, 48_160).scaled(1 / 160, "frames").values.tolist() == [300, 300, 301]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n\n3\n0\n", "line 3: n = '0': want a whole number >= 1"),
        ("n\n3.5\n", "line 2: n = '3.5': want a whole number"),
        ("n\nx\n", "line 2: n = 'x': want a whole number"),
        ("m\n3\n", "no column 'n'"),
    ],
)
def test_bad_length_files_are_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "lengths.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read_lengths(tmp_path / "lengths.csv", "n", "tokens")


def test_bad_iterations_are_named() -> None:
    with pytest.raises(InputError, match="2 times for 3 lengths"):
        Iterations(np.ones(3), np.ones(2))
    with pytest.raises(InputError, match="times > 0"):
        Iterations(np.ones(2), np.array([1.0, 0.0]))
    with pytest.raises(InputError, match="finite values"):
        Iterations(np.array([1.0, np.inf]))
    with pytest.raises(InputError, match="unknown order"):
        epoch_lengths(lengths_of(1), 2, "sort")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="batch = 0"):
        epoch_lengths(lengths_of(1), 0, "sorted")
