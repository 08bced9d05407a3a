"""SQLite files of strangers: nothing is run, nothing is written, and a small file ends soon."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from slipstick.common import sqlite_files
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.bricks.brick_store import BrickStore, Composition, Where
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.importers.profilers.nsys import read_nsys
from tests import files_made
from tests.attack.shared_pages import share_pages
from tests.experiments.brick_parts import result

SOON = 5.0
"""CPU seconds: what such a file takes is 0.1 s."""
ENDLESS = "CREATE VIEW {} AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
READ: dict[str, Callable[[BrickStore], object]] = {
    "measured": lambda store: store.measured(),
    "contents": lambda store: store.contents(),
    "models": lambda store: store.models(1),
    "models of a size that none has": lambda store: store.models(99),
}


def store(path: Path) -> Path:
    made, host = BrickStore(path), machine("xeon-phi-7120p")
    made.add_machine(host)
    made.add(Where(host.fingerprint, "torch"), [result("a", 1e-3)])
    made.add_model(1, Composition("net", "whole", FrozenDict({"a": 3})))
    return path


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(sql)
        database.commit()


@pytest.mark.parametrize("command", [["bricks", "compose", "mlp", "--store"], ["bricks", "merge", "FILE"]])
def test_a_database_of_another_program_is_left_as_it_is(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three tables were added to a user's profile before it was refused."""
    path, own = files_made.nsys(tmp_path / "profile.sqlite"), store(tmp_path / "own.sqlite")
    before = path.read_bytes()
    words = [str(path) if word == "FILE" else word for word in command]
    assert run([*words, str(own if "FILE" in command else path)]) == 2
    assert "no store of bricks (table 'StringIds' is none of it)" in capsys.readouterr().err
    assert path.read_bytes() == before and sorted(tmp_path.iterdir()) == sorted([own, path])


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (ENDLESS.format("endless"), "holds the view 'endless'"),
        ("CREATE TRIGGER t AFTER INSERT ON bricks BEGIN DELETE FROM bricks; END", "holds the trigger 't'"),
        ("CREATE TABLE more (a)", "table 'more' is none of it"),
        ("CREATE INDEX more ON bricks (what)", "index 'more' is none of it"),
        ("DROP TABLE models", "it has no table models"),
        ("ALTER TABLE models ADD COLUMN more TEXT", "table 'models' is none of it"),
        ("PRAGMA application_id = 7", "SQLite file of application 7"),
        ("PRAGMA user_version = 2", "of version 2; this program knows those up to 1"),
        ("PRAGMA journal_mode = WAL", "its journal is a log of writes"),
    ],
)
def test_a_store_that_is_not_as_ours_are_is_refused_and_left(sql: str, said: str, tmp_path: Path) -> None:
    path = store(tmp_path / "bricks.sqlite")
    change(path, sql)
    before = path.read_bytes()
    for opened in (BrickStore, BrickStore.existing):
        with pytest.raises(InputError, match=said):
            opened(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_view_that_never_ends_is_never_read(tmp_path: Path) -> None:
    path = tmp_path / "bricks.sqlite"
    change(path, ENDLESS.format("bricks"))
    for opened in (BrickStore, BrickStore.existing):
        with pytest.raises(InputError, match="holds the view 'bricks'"):
            opened(path)


def test_a_store_of_before_the_header_said_so_is_read_and_then_marked(tmp_path: Path) -> None:
    path = store(tmp_path / "bricks.sqlite")
    change(path, "PRAGMA application_id = 0")
    change(path, "PRAGMA user_version = 0")
    before = path.read_bytes()
    assert len(BrickStore.existing(path).measured()) == 1 and path.read_bytes() == before
    BrickStore(path)
    assert path.read_bytes()[68:72] == b"SLIP"


def test_an_unread_transaction_of_a_killed_program_is_no_answer(tmp_path: Path) -> None:
    """Reading must not roll it back; the program that writes does when it goes on."""
    path = store(tmp_path / "bricks.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN")
        for number in range(200):
            database.execute("INSERT INTO machines VALUES (?, ?)", (str(number), "x" * 4000))
        half, journal = path.read_bytes(), path.with_name("bricks.sqlite-journal").read_bytes()
        database.execute("ROLLBACK")
    path.write_bytes(half)
    path.with_name("bricks.sqlite-journal").write_bytes(journal)
    with pytest.raises(InputError, match="half-written by a program that was killed"):
        BrickStore.existing(path).measured()
    assert path.read_bytes() == half
    assert len(BrickStore(path).measured()) == 1


@pytest.mark.parametrize("table", ["bricks", "machines", "models", "sqlite_master"])
def test_pages_that_share_their_children_end(table: str, tmp_path: Path) -> None:
    """200 cells on 8 levels are 10^18 rows in 60 KB: 20 s and 881 MB once."""
    path = store(tmp_path / "bricks.sqlite")
    share_pages(path, table)
    refused = 0
    begun = time.process_time()
    for read in READ.values():
        try:
            read(BrickStore.existing(path))
        except InputError as error:
            refused += "more rows than" in str(error) or "malformed" in str(error)
    assert refused and time.process_time() - begun < SOON


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds", "sqlite_master"])
def test_pages_of_a_profile_that_share_their_children_end(table: str, tmp_path: Path) -> None:
    path = files_made.nsys(tmp_path / "profile.sqlite")
    share_pages(path, table)
    begun = time.process_time()
    with pytest.raises(InputError, match="more rows than a file of .* bytes holds|malformed"):
        read_nsys(path)
    assert time.process_time() - begun < SOON


@pytest.mark.parametrize("words", [b"StringIds", b"value TEXT", b"CREATE TABLE", b"start INTEGER"])
def test_a_schema_in_no_text_is_refused(words: bytes, tmp_path: Path) -> None:
    path = files_made.nsys(tmp_path / "profile.sqlite")
    path.write_bytes(path.read_bytes().replace(words, words[:2] + b"\xff" + words[3:]))
    with pytest.raises(InputError, match="profile.sqlite: "):
        read_nsys(path)


@pytest.mark.parametrize("words", [b"identity TEXT", b"CREATE TABLE"])
def test_a_store_in_no_text_is_refused(words: bytes, tmp_path: Path) -> None:
    path = store(tmp_path / "bricks.sqlite")
    path.write_bytes(path.read_bytes().replace(words, words[:2] + b"\xff" + words[3:]))
    with pytest.raises(InputError, match="bricks.sqlite: "):
        BrickStore.existing(path).measured()


def test_a_query_ends_at_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "SECONDS", 0.0)
    monkeypatch.setattr(sqlite_files, "SECONDS_PER_BYTE", 0.0)
    path = files_made.nsys(tmp_path / "profile.sqlite", steps=2000)
    with pytest.raises(InputError, match="longer than its .* bytes can be worth"):
        read_nsys(path)
