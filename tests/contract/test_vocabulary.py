"""One vocabulary over all verbs: a word has one meaning, a meaning has one word, and no option has another word."""

from __future__ import annotations

import re
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from slipstick.experiments.cli.cli import run
from slipstick.experiments.cli.renamed_options import OLD, todays_words
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
    own = {"--machines", "--save", "--predictor", "--predictions", "--beside", "--export-cases", "--refit"}
    assert {name for name in kept if name[2:].replace("-", "_") not in WORDS} <= own


def test_older_words_are_no_words_of_their_command() -> None:
    for command, older in OLD.items():
        for old, today in older.items():
            assert f"--{today}" in options()[command] or today == "engine", (command, today)  # a number of the runtime
            assert f"--{old}" not in options()[command], (command, old)


@pytest.mark.parametrize(
    ("older", "today"),
    [
        ("serve m --gpus 4 --slo ttft=1s --input=64", "serve m --devices 4 --limit ttft=1s --input-tokens=64"),
        ("plan serving m --machines a,b --all x.csv", "plan serving m --on a,b --out x.csv"),
        ("estimate f.py:f --input 1,3 --anchors a.csv", "estimate f.py:f --input 1,3 --known a.csv"),
        ("workloads import m:f --purpose inference", "workloads import m:f --train none"),
        ("whatif gemm --save s.toml", "whatif gemm --save s.toml"),
        ("validate all --save docs --machines here", "validate all --save docs --machines here"),
    ],
)
def test_older_words_are_read_with_a_hint(older: str, today: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert todays_words(older.split()) == today.split()
    named = [word.partition("=")[0] for word in older.split() if word.startswith("--")]
    gone = [word for word in named if word not in re.findall(r"--[a-z-]+", today)]
    assert re.findall(r"(--[a-z-]+) is called", capsys.readouterr().err) == gone


def test_an_older_word_answers_as_todays_does(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "power-limit", "--time", "240s", "--power", "220W", "--rated", "250W"]
    assert run([*asked, "--slowdown", "0.05"]) == 0
    today = capsys.readouterr()
    assert run([*asked, "--loss", "0.05"]) == 0
    older = capsys.readouterr()
    assert older.out == today.out
    assert today.err == ""
    assert older.err.startswith("slipstick: plan power-limit --loss is called --slowdown now")


def test_two_older_words_of_one_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", "gemm", "--anchors", "a.csv", "--measured", "b.csv"]) == 2
    assert "--anchors and --measured are both --known today" in capsys.readouterr().err
