"""The attacker's part in CI: 2,000 cases over every reader and verb; `make attack` runs 50,000."""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path

import pytest

from tests.attack import forked, seeds
from tests.attack.cases import FileCase, file_cases, read_case
from tests.attack.edits import PLACES, Edit, broken
from tests.attack.forked import attack
from tests.attack.lines import GOOD, LONG, WITHOUT, LineCase, line_case, line_cases, verbs
from tests.attack.readers import READERS

FILES, LINES = 1_960, 40


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack") / "seeds"
    seeds.write(folder)
    return folder


def test_broken_files_are_bad_input(home: Path) -> None:
    report = attack(file_cases(), partial(read_case, seeds=home), FILES, start=os.getpid() if SEARCH else 1)
    assert not report.failures, str(report)
    assert report.cases >= FILES and report.most_megabytes < 1000


def test_broken_lines_are_bad_input(home: Path) -> None:
    report = attack(line_cases(QUICK), partial(line_case, seeds=home), LINES, start=os.getpid() if SEARCH else 1)
    assert not report.failures, str(report)


QUICK = tuple(verb for verb in verbs() if verb not in WITHOUT and not verb.startswith(LONG))
SEARCH = bool(os.environ.get("SLIPSTICK_ATTACK_ANEW"))
"""Draw other cases each time; CI repeats the same ones."""


@pytest.mark.parametrize("name", sorted(READERS))
def test_every_reader_refuses_what_is_no_file(name: str, home: Path, tmp_path: Path) -> None:
    for place in PLACES[:5]:
        folder = tmp_path / place
        folder.mkdir()
        assert read_case(FileCase(name, READERS[name].seeds[0], (Edit(place, 0, 0),)), folder, home) is None


def test_good_lines_are_verbs() -> None:
    assert set(GOOD) <= set(verbs())


def test_an_attack_finds_what_is_wrong(home: Path) -> None:
    """A reader that runs what it reads, one that hangs and one that raises: all three are seen."""

    def bad(case: FileCase, folder: Path, seeds: Path) -> str | None:
        if case.seed.endswith(".csv"):
            exec(compile("marked = 'SLIPSTICK_CANARY'", "x", "exec"))
        raise KeyError(case.reader)

    report = attack(file_cases(), partial(bad, seeds=home), 60)
    assert any(what.startswith("CODE RUN") for what in report.counts)
    assert any(what.startswith("KeyError") for what in report.counts)


def test_a_case_that_computes_too_long_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its CPU time counts: on a busy host any case may take long."""

    def slow(case: FileCase, folder: Path, seeds: Path) -> str | None:
        return str(sum(1 for _ in itertools.count()))

    monkeypatch.setattr(forked, "SECONDS", 0.1)
    report = attack(file_cases(), partial(slow, seeds=home), 2, workers=1)
    assert report.counts == {"hangs: more than 0.1 s": 2}


def test_a_line_that_answers_is_no_failure(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert line_case(LineCase(("machines", "show", "h100-sxm")), tmp_path, home) is None


def test_a_table_that_is_none_any_more_is_edited_as_text() -> None:
    """A carriage return inside a cell, put there by one edit, is no CSV for the next."""
    assert broken(b"p,time_s\n1\r2,3\n", [Edit("cell", 3720, 94)], "series.csv")
