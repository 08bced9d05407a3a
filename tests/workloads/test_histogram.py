"""Lengths from a histogram."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.runs.iterations import epoch_lengths
from slipstick.workloads.runs.lengths import read_histogram


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "histogram.csv"
    path.write_text(text)
    return path


def test_a_histogram_is_its_sequences(tmp_path: Path) -> None:
    lengths = read_histogram(write(tmp_path, "words,sentences\n5,3\n9,1\n7,0\n"), "words", "sentences", "tokens")
    assert lengths.values.tolist() == [5, 5, 5, 9]
    assert epoch_lengths(lengths, 2, "sorted").tolist() == [5, 9]
    assert np.sort(epoch_lengths(lengths, 2, "bucketed", seed=3)).tolist() == [5, 9]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("words,sentences\n5,1.5\n", "line 2: sentences = '1.5': want a whole number"),
        ("words,sentences\n0,1\n", "line 2"),
        ("words,sentences\n" + "5,9999999\n" * 6, "59999994 sequences, more than 50000000"),
        ("words,others\n5,1\n", "sentences"),
    ],
)
def test_a_broken_histogram_is_refused_by_line_and_column(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_histogram(write(tmp_path, text), "words", "sentences", "tokens")
