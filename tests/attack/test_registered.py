"""A reader without a row in docs/security.md, without trust, or without a seed that is attacked, fails here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.attack import seeds
from tests.attack.cases import seed_content
from tests.attack.readers import READERS
from tests.attack.registered import Row, registered, rows

TABLE = rows()


def test_every_reader_of_the_code_has_one_row() -> None:
    listed = Counter(name.strip() for row in TABLE for name in row.reader.split(","))
    assert sorted(registered() - set(listed)) == [], (
        "add a row to docs/security.md: what is read, its trust, its bounds"
    )
    assert sorted(set(listed) - registered()) == [], "the code has no such reader"
    assert [name for name, count in listed.items() if count > 1] == []


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reader.partition(",")[0])
def test_every_row_says_trust_bounds_and_how_it_is_attacked(row: Row) -> None:
    assert row.reads and row.bounds
    assert row.trust.split(":")[0] in ("no", "own", "yours")
    if row.attacked.startswith("none: "):
        assert row.trust.startswith(("own", "yours")), "what strangers give is attacked"
        return
    assert any(name.rpartition(".")[2] == row.attacked for name in READERS)


def test_every_attacked_reader_has_seeds_that_are_there(tmp_path: Path) -> None:
    seeds.write(tmp_path)
    for reader in READERS.values():
        assert reader.seeds
        for seed in reader.seeds:
            assert seed_content(tmp_path, seed)[1], f"{reader.name}: the seed {seed} is empty or missing"
