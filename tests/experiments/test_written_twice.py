"""Two options of a command never write one file: the second would replace the first without a word."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.cli.option_conflicts import WRITTEN
from slipstick.experiments.cli.vocabulary import WORDS
from tests.verbs_there import options

PAIRS = [
    (*name.split(), *pair)
    for name, taken in options().items()
    for pair in permutations([word for word in taken if word in WRITTEN], 2)
]


def test_every_word_that_writes_is_known() -> None:
    words = {word.replace("_", "-") for word, meaning in WORDS.items() if meaning.startswith("write ")}
    assert {*WRITTEN} == {f"--{word}" for word in words}
    assert {words[0] for words in PAIRS} >= {"serve", "estimate", "whatif", "extrapolate", "seqpoint", "calibrate"}


@pytest.mark.parametrize("words", PAIRS, ids=" ".join)
@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_no_pair_writes_one_file(
    words: tuple[str, ...],
    there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if there:
        Path("one.csv").write_text("precious")
    *verb, first, second = words
    assert run([*verb, first, "one.csv", f"{second}=./one.csv"]) == 2
    error = capsys.readouterr().err
    assert f"{second} ./one.csv: is written twice, by {first} as well" in error
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == ([("one.csv", "precious")] if there else [])
