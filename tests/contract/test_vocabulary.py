"""One vocabulary over all verbs: a word has one meaning, a meaning has one word, and no option has another word."""

from __future__ import annotations

import re
from functools import cache
from itertools import combinations
from typing import Any

import pytest
import typer

from slipstick.common.renamed_arguments import RENAMED
from slipstick.experiments.cli.cli import build, run
from slipstick.experiments.cli.renamed_options import todays_words
from slipstick.experiments.cli.vocabulary import WORDS
from tests.verbs_there import verbs

FOR_GOOD = {"reproduce", "validate"}
"""Verbs that keep their spelling whatever the vocabulary says (docs/json.md)."""
COMMON = frozenset("a an the of that is are how which to be by in or and for it what from s its on with your".split())  # noqa: SIM905


@cache
def options() -> dict[str, dict[str, Any]]:
    """The options of every command by their long names, hidden ones apart."""
    return {
        name: {word: one for one in taken if not getattr(one, "hidden", False) for word in one.opts if word[:2] == "--"}
        for name, taken in verbs().items()
    }


def words_of(meaning: str) -> set[str]:
    """The words of a sentence that carry its meaning."""
    return {word.rstrip("s") for word in re.findall(r"[a-z]+", meaning.lower())} - COMMON


def test_every_option_is_a_word_of_the_vocabulary_with_its_meaning() -> None:
    assert len(options()) > 50
    wrong = [
        f"{command} {name}: {one.help}"
        for command, taken in options().items()
        if command not in FOR_GOOD
        for name, one in taken.items()
        if (meaning := WORDS.get(name[2:].replace("-", "_"))) is None
        or not (one.help == meaning or one.help.startswith(f"{meaning}: "))
    ]
    assert wrong == []


def test_no_two_words_mean_the_same() -> None:
    near = [
        (left, right)
        for (left, one), (right, other) in combinations(WORDS.items(), 2)
        if len(words_of(one) & words_of(other)) > 0.6 * len(words_of(one) | words_of(other))
    ]
    assert near == []


def test_no_word_lies_unused() -> None:
    used = {name[2:].replace("-", "_") for taken in options().values() for name in taken}
    assert sorted(set(WORDS) - used) == []


def test_a_word_is_an_option_of_one_kind() -> None:
    kinds: dict[str, set[str]] = {}
    for command, taken in options().items():
        for name, one in taken.items():
            if command not in FOR_GOOD:
                kind = "flag" if getattr(one, "is_flag", False) else "text"
                kinds.setdefault(name, set()).add(kind)
    assert {name for name, kind in kinds.items() if len(kind) > 1} == set()


def test_verbs_that_are_kept_use_a_word_in_no_other_sense() -> None:
    kept = {name for command in FOR_GOOD for name in options()[command]}
    own = {"--machines", "--save", "--predictor", "--predictions", "--baselines", "--export-cases", "--refit"}
    assert {name for name in kept if name[2:].replace("-", "_") not in WORDS} <= own


def test_older_words_are_no_words_and_each_has_one_of_today() -> None:
    assert not RENAMED.keys() & WORDS.keys()
    assert {*RENAMED.values()} - {"baselines"} <= WORDS.keys()  # of `validate`, which keeps its own
    assert len({*RENAMED.values()}) == len(RENAMED)
    for command, taken in options().items():
        older = {name for name in taken if name[2:].replace("-", "_") in RENAMED}
        assert older == set(), command


@pytest.mark.parametrize(
    ("older", "today"),
    [
        (
            "serve m --count 4 --spread=0 --mixing mixed",
            "serve m --num-requests 4 --length-range=0 --chunked-prefill on",
        ),
        ("serve m --mixing=separate --prefix 0.5", "serve m --chunked-prefill=off --prefix-hit-rate 0.5"),
        ("plan serving m --step-tokens 9 --known 9ms", "plan serving m --max-batched-tokens 9 --measured 9ms"),
        ("measure anchors --for decode:m", "measure anchors --workload decode:m"),
        ("spmv predict a --label hot", "spmv predict a --cache-state hot"),
        ("validate all --beside none", "validate all --baselines none"),
        ("estimate m --known 5ms --count 3 -- --parts", "estimate m --measured 5ms --count 3 -- --parts"),
        ("whatif gemm --save s.toml", "whatif gemm --save s.toml"),
    ],
)
def test_older_words_are_read_with_a_hint(older: str, today: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert todays_words(typer.main.get_command(build()), older.split()) == today.split()
    words = [word.partition("=")[0] for word in older.split() if word.startswith("--")]
    gone = [word for word in words if word not in re.findall(r"--[a-z-]+", today) and word != "--"]
    assert re.findall(r"(--[a-z-]+) is called", capsys.readouterr().err) == gone


def test_an_older_word_answers_as_todays_does(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["estimate", "gpt2", "--on", "h100"]
    assert run([*words, "--top", "2"]) == 0
    today = capsys.readouterr()
    assert run([*words, "--parts", "2"]) == 0
    older = capsys.readouterr()
    assert older.out == today.out
    assert today.err == ""
    assert older.err == "slipstick: estimate --parts is called --top now\n"


def test_two_words_of_one_option_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", "gemm", "--known", "a.csv", "--measured", "b.csv"]) == 2
    assert "--measured and --known are both --measured today" in capsys.readouterr().err
