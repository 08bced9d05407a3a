"""The rehearsal: rows chosen by nobody, scored as strangers do, and what was scored must not have been known."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from slipstick.experiments.calibrate.public_sets import public_sets
from slipstick.experiments.scoring.scoreboard_catalog import scoreboards
from tools.rehearsal.attacked import attacked
from tools.rehearsal.compared import figures, page
from tools.rehearsal.folders import Given, chosen, part, read_rows
from tools.rehearsal.runs import Outcome, Run, rehearsed
from tools.rehearsal.tables import Table, Take, generation
from tools.rehearsal.takes import TAKES

LAYERS = "tpu/scalesim_v3_layers.csv"
HEAD = "topology,R,C,dataflow,M,N,K,compute_cycles\n"
CYCLES = ("256,128,256,138239", "256,128,128,72703", "128,128,128,36351")
"""Of SCALE-Sim 3.0.0 on 8 x 8, output stationary: (M / 8) (N / 8) (K + 14) - 1, with fill and drain."""
WITHOUT_FILES = {"abroad", "calibrations", "dispatch", "megatron", "remarks", "shipped"}
"""Boards whose measurements stand in the project, or that have no file to score."""


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """Layers of ten topologies; the first holds too much to be taken out."""
    path = tmp_path / "public" / LAYERS
    path.parent.mkdir(parents=True)
    rows = [f"big,8,8,os,{CYCLES[at % 3]}" for at in range(40)]
    rows += [f"net{at},8,8,os,{one}" for at in range(9) for one in CYCLES]
    path.write_text(HEAD + "\n".join(rows) + "\n")
    (tmp_path / "public" / "other.txt").write_text("left as it is")
    return tmp_path / "public"


def take() -> Take:
    """The one fast board."""
    return next(one for one in TAKES if one.board == "systolic")


def test_groups_are_taken_by_their_names_alone() -> None:
    tables = [{f"group {at}": 10 for at in range(50)} | {"most": 900}, {"elsewhere": 5, "group 3": 5}]
    taken = chosen("a rehearsal", tables)
    assert taken == chosen("a rehearsal", [dict(reversed(table.items())) for table in tables])
    assert taken != chosen("another one", tables) and "most" not in taken
    assert sum(tables[0].get(one, 0) for one in taken) >= 0.1 * 1400
    assert any(one in tables[1] for one in taken)  # every table gives some rows


def test_what_is_given_and_what_is_left_are_the_public_rows(public: Path, tmp_path: Path) -> None:
    made = part(take(), public, tmp_path / "given", tmp_path / "rest")
    given, rest = (read_rows(tmp_path / name / LAYERS)[1] for name in ("given", "rest"))
    assert {row["topology"] for row in given} == set(made.groups)
    assert {row["topology"] for row in rest}.isdisjoint(made.groups)
    every = [str(row) for row in read_rows(public / LAYERS)[1]]
    assert sorted([*map(str, given), *map(str, rest)]) == sorted(every) and made.rows == {LAYERS: len(given)}
    assert (tmp_path / "rest" / "other.txt").read_text() == "left as it is"


@pytest.mark.slow
def test_a_board_is_rehearsed_in_processes_of_its_own_and_kept(public: Path, tmp_path: Path) -> None:
    outcome = rehearsed(take(), public, tmp_path / "out")
    assert outcome.known.code == 0 and outcome.leak == 0.0 and not outcome.wrong
    kept = tmp_path / "out" / take().name / "known.json"
    document = json.loads(kept.read_text())
    document["errors"] = "as it was kept"
    kept.write_text(json.dumps(document))
    again = rehearsed(take(), public, tmp_path / "out")
    assert again.known.errors == "as it was kept" and again.given == outcome.given
    table = page([outcome])
    assert "| systolic-topology |" in table and "Exit code 0" in table


@pytest.mark.slow
def test_strangers_cost_a_board_nothing(public: Path, tmp_path: Path) -> None:
    """Through the whole path, as many strangers as a second or two allow: each is a run of the command."""
    found = {}
    for attack in attacked(take(), public, tmp_path / "out"):
        found[attack.stranger] = attack.faults
        if attack.stranger == "spoilt":
            break
    assert found == {"plain": (), "dressed": (), "spoilt": ()}


def test_scores_that_knowing_the_rows_changed_are_found() -> None:
    row = {
        "dataset": "d",
        "case": "c",
        "held_out": "h",
        "metric": "median error",
        "unit": "%",
        "n": 4,
        "groups": 2,
        "ours": 10.0,
        "baselines": {"a": 30.0},
        "interval_coverage": 0.5,
        "interval_width": 2.0,
        "reason": "",
    }
    fair, knowing = (Run(0, 1.0, "", (row | {"ours": value},)) for value in (10.0, 4.0))
    given = Given(("g",), {"f": 4})
    assert not Outcome(take(), given, fair, fair).wrong
    assert Outcome(take(), given, knowing, fair).wrong and Outcome(take(), given, knowing, fair).leak == pytest.approx(
        0.6
    )
    assert Outcome(take(), given, dataclasses.replace(fair, code=3), None).wrong
    assert Outcome(take(), given, fair, Run(0, 1.0, "", ())).wrong  # a row that is not there
    tail = row | {"metric": "90th percentile of the error", "ours": 40.0}
    one = figures(r"d \| c \| h", [row, tail])
    assert one is not None and one.cells() == "4, 2 | 10 / 40 | 30 | 50% in x2.00"
    assert figures("nothing", [row]) is None


def test_every_board_with_files_is_rehearsed_and_its_files_are_of_sets_that_name_it() -> None:
    """What the door looks at (`given.py`) are the sets that name a board: none of its files may be missing there."""
    assert set(scoreboards()) - {one.board for one in TAKES} == WITHOUT_FILES
    patterns = {name: [p for s in public_sets() if name in s.scoreboards for p in s.files] for name in scoreboards()}
    for one in TAKES:
        for table in (table for table in one.tables if table.by is not None):
            head = table.pattern.partition("*")[0]
            assert any(head.startswith(p.partition("*")[0]) or p.startswith(head) for p in patterns[one.board]), (
                one.name,
                table.pattern,
            )


def test_devices_of_one_generation_are_one_group() -> None:
    assert {generation(name) for name in ("h100_sxm", "NVIDIA H200", "Nvidia GH200")} == {"nvidia-hopper"}
    assert generation("Frobnicator 9000") == "Frobnicator 9000"
    assert Table("*", "device").group("as it is") == "as it is"
