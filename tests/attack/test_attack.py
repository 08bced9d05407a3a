"""The attacker's part in CI: 740 cases over every reader and verb; `make slow` runs 2,000, `make attack` 50,000."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests.attack import forked, seeds
from tests.attack.cases import FileCase, file_cases, read_case
from tests.attack.edits import PLACES, Edit, broken
from tests.attack.forked import attack
from tests.attack.lines import GOOD, LONG, WITHOUT, LineCase, line_case, line_cases
from tests.attack.readers import READERS, Reader
from tests.verbs_there import options

LINES = 40


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack") / "seeds"
    seeds.write(folder)
    return folder


@pytest.mark.parametrize("count", [700, pytest.param(1_960, marks=pytest.mark.slow)])
def test_broken_files_are_bad_input(count: int, home: Path) -> None:
    report = attack(file_cases(), partial(read_case, seeds=home), count, start=os.getpid() if SEARCH else 1)
    assert not report.failures, str(report)
    assert report.cases >= count and report.most_megabytes < 1000


def test_broken_lines_are_bad_input(home: Path) -> None:
    report = attack(line_cases(QUICK), partial(line_case, seeds=home), LINES, start=os.getpid() if SEARCH else 1)
    assert not report.failures, str(report)


QUICK = tuple(verb for verb in options() if verb not in WITHOUT and not verb.startswith(LONG))
SEARCH = bool(os.environ.get("SLIPSTICK_ATTACK_ANEW"))
"""Draw other cases each time; CI repeats the same ones."""


@pytest.mark.parametrize("name", sorted(READERS))
def test_every_reader_refuses_what_is_no_file(name: str, home: Path, tmp_path: Path) -> None:
    for place in PLACES[:5]:
        folder = tmp_path / place
        folder.mkdir()
        assert read_case(FileCase(name, READERS[name].seeds[0], (Edit(place, 0, 0),)), folder, home) is None


def test_good_lines_are_verbs() -> None:
    assert set(GOOD) <= set(options())


def test_an_attack_finds_what_is_wrong(home: Path) -> None:
    """A reader that runs what it reads, one that hangs and one that raises: all three are seen."""

    def bad(case: FileCase, folder: Path, seeds: Path) -> str | None:
        if case.seed.endswith(".csv"):
            exec(compile("marked = 'SLIPSTICK_CANARY'", "x", "exec"))
        raise KeyError(case.reader)

    report = attack(file_cases(), partial(bad, seeds=home), 60)
    assert any(what.startswith("CODE RUN") for what in report.counts)
    assert any(what.startswith("KeyError") for what in report.counts)


def _evil(folder: Path) -> ModuleType:
    spec = spec_from_file_location("evil", folder / "evil.py")
    assert spec is not None
    return module_from_spec(spec)


EVIL_WAYS: dict[str, Callable[[Path], object]] = {
    "imports": lambda folder: sys.modules.update(evil=_evil(folder)),
    "exec of": lambda folder: exec(compile("a = 1", str(folder / "evil.py"), "exec")),
    "writes": lambda folder: (folder.parents[1] / f"elsewhere-{os.getpid()}").write_text("x"),
    "os.remove": lambda folder: os.remove(Path(__file__).parent / "nothing-there"),  # noqa: PTH107
    "changed": lambda folder: (folder / "log.csv").write_text("x"),
    "os.system": lambda folder: os.system("true"),
}


@pytest.mark.parametrize("way", sorted(EVIL_WAYS))
def test_an_attack_hears_what_no_reader_may_do(way: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            EVIL_WAYS[way](path.parent)

    monkeypatch.setitem(READERS, "bad", Reader("bad", ("log.csv",), bad))  # type: ignore[arg-type]
    report = attack(file_cases(["bad"]), partial(read_case, seeds=home), 3, workers=1)
    assert report.counts and all(way in what for what in report.counts), str(report)


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
