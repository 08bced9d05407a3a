"""Files that state what differs from a shipped machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import load_machine


def written(folder: Path, *lines: str) -> str:
    path = folder / "mine.yaml"
    path.write_text("\n".join(("name: mine", "extends: h100-sxm", *lines)))
    return str(path)


def test_four_lines_make_a_future_gpu(tmp_path: Path) -> None:
    path = written(tmp_path, "clock: 2.2 GHz", "memory: {HBM3: {capacity: 288 GB, bandwidth: 13 TB/s}}")
    mine, base = load_machine(path), machine("h100-sxm")
    assert (mine.clock, mine.bandwidth("HBM3"), mine.memory["HBM3"].capacity) == (2.2e9, 13e12, 288e9)
    assert (mine.cores, mine.engines, mine.family) == (base.cores, base.engines, base.family)
    assert (mine.name, mine.aliases, mine.price) == ("mine", (), None)
    assert mine.source_of("clock") == mine.source_of("memory.HBM3.bandwidth") == "this file, which names no source"
    assert mine.source_of("cores").startswith(base.source_of("cores"))
    faster = question("gpt2-inference", mine).answer().time
    assert faster < question("gpt2-inference", base).answer().time


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("power: {cap: 350 W}", {"power.cap": "350 W"}),
        ("clock: 1.2 GHz", {"clock": "1.2 GHz"}),
        ("clock: 0.8x", {"clock": "0.8x"}),
        ("cores: 0.5x", {"cores": "0.5x"}),
        ("memory: {HBM3: {bandwidth: 2x}}", {"memory.HBM3.bandwidth": "2x"}),
        ("power: {cap: 1000 W}", {"power.cap": "1000 W"}),
        ("power: {cap: 1000 W, idle: 150 W}", {"power.cap": "1000 W", "power.idle": "150 W"}),
    ],
)
def test_a_number_of_a_file_is_one_that_was_set(tmp_path: Path, line: str, changes: dict[str, str]) -> None:
    """Of a machine by its name, by which its own measurements are known, both ways give one answer."""
    base = machine("h100-sxm")
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: {base.name}\nextends: h100-sxm\n{line}\n")
    mine, changed = load_machine(path), base.using(changes)
    assert (mine.stated.clock, mine.stated.power, mine.rated_clock) == (
        changed.stated.clock,
        changed.stated.power,
        base.rated_clock,
    )
    one, other = (question("gemm", each).answer() for each in (mine, changed))
    assert (one.time, one.energy, one.assumptions) == (other.time, other.energy, other.assumptions)


def test_a_rate_in_another_unit_leaves_the_board_its_other_memory(tmp_path: Path) -> None:
    """The L2 of an H100 is stated in bytes a cycle: in bytes a second it is as stated, and HBM costs what it cost."""
    faster, board = "HBM3: {bandwidth: 6 TB/s}", machine("h100-sxm")
    same = f"L2: {{bandwidth: {board.bandwidth('L2')} B/s}}"
    plain, restated = (
        load_machine(written(tmp_path, f"memory: {{{levels}}}")) for levels in (faster, f"{same}, {faster}")
    )
    assert restated.stated.memory["HBM3"] == plain.stated.memory["HBM3"] == board.memory["HBM3"]
    assert restated.stated.memory["L2"] == restated.memory["L2"] != board.memory["L2"]
    one, other = (question("llama-3-8b-decode", each).answer() for each in (plain, restated))
    assert (one.time, one.energy) == pytest.approx((other.time, other.energy), rel=1e-9)
    own = load_machine(written(tmp_path, "memory: {HBM3: null, HBM4: {capacity: 288 GB, bandwidth: 13 TB/s}}"))
    assert own.stated.memory["HBM4"] == own.memory["HBM4"] and own.stated.memory["L2"] == board.memory["L2"]


@pytest.mark.parametrize("dies", ["{count: 1}", "{count: 0.125x}", "null"])
def test_a_part_of_a_board_is_set_and_not_written(tmp_path: Path, dies: str) -> None:
    """It would keep all cores, memory and power: `Machine.using` takes their share."""
    with pytest.raises(InputError, match=r"dies: mi300x has 8.*--set machine\.dies\.count=1"):
        load_machine(files(tmp_path, die=f"extends: mi300x\ndies: {dies}"))
    same = load_machine(files(tmp_path, same="extends: mi300x\ndies: {count: 8}"))
    assert same.using({"dies.count": 1}).power.cap == machine("mi300x").using({"dies.count": 1}).power.cap
    own = load_machine(files(tmp_path, own="extends: mi300x\nfamily: mine\ndies: {count: 2}"))
    assert own.dies.count == 2 and own.stated == own


def test_a_file_of_another_family_is_rated_as_it_states(tmp_path: Path) -> None:
    text = "clock: 2.2 GHz\npower: {cap: 1000 W}"
    path = files(
        tmp_path, limited="extends: own.yaml\npower: {cap: 500 W}", own=f"extends: h100-sxm\nfamily: a\n{text}"
    )
    own, limited = load_machine(tmp_path / "own.yaml"), load_machine(path)
    for each in (own, limited):
        assert (each.stated.power.cap, each.stated.clock, each.rated_clock) == (1000.0, 2.2e9, None)
    assert (own.power.cap, limited.power.cap) == (1000.0, 500.0)


def test_what_extends_and_says_nothing_else_is_the_same_machine(tmp_path: Path) -> None:
    assert load_machine(written(tmp_path)).fingerprint == machine("h100-sxm").fingerprint


def test_names_are_taken_away_and_bandwidths_replace_each_other(tmp_path: Path) -> None:
    assert question("gemm", load_machine(written(tmp_path, "memory: {L2: {bandwidth: 9 TB/s}}"))).answer().time > 0
    lines = (
        "memory: {L2: {bandwidth: 9 TB/s}, HBM3: null, HBM5: {capacity: 1 TB, bandwidth: 20 TB/s}}",
        "links: {nvswitch: null}",
    )
    mine = load_machine(written(tmp_path, *lines, "sources: {memory: a talk}"))
    assert list(mine.memory) == ["L1", "L2", "HBM5"] and not mine.links
    assert mine.memory["L2"].bytes_per_cycle is None and mine.bandwidth("L2") == 9e12
    assert mine.source_of("memory.HBM5.bandwidth") == "a talk"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "memory: {HBM5: {capacity: 1 TB, bandwidth: 20 TB/s}}",
            r"HBM5 would make HBM3, .* HBM3: null",
        ),
        ("links: {nvlink: null}", r"links\.nvlink: null takes away what the extended machine has, and it has none"),
        ("clok: 2 GHz", "unknown field 'clok'; did you mean 'clock'"),
        ("sources: [1]", "sources"),
    ],
)
def test_what_cannot_be_merged_is_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_machine(written(tmp_path, line))


@pytest.mark.parametrize("name", ["h100-sxn", "../h100-sxm", "/etc/passwd", "mine", "[h100-sxm]"])
def test_only_what_ships_is_extended(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: mine\nextends: {name}\n")
    with pytest.raises(InputError, match="extends: unknown shipped machine"):
        load_machine(path)


def files(folder: Path, **documents: str) -> str:
    for name, text in documents.items():
        (folder / f"{name}.yaml").write_text(f"name: {name}\n{text}\n")
    return str(folder / f"{next(iter(documents))}.yaml")


def test_a_file_extends_one_of_your_own_in_multiples(tmp_path: Path) -> None:
    path = files(
        tmp_path,
        faster="extends: wider.yaml\nclock: 1.25x\npower: {cap: 1.1x}",
        wider="extends: h100-sxm\ncores: 1.5x\nmemory: {HBM3: {bandwidth: 2x}}",
    )
    mine, base = load_machine(path), machine("h100-sxm")
    assert mine.cores == 1.5 * base.cores and mine.clock == pytest.approx(1.25 * base.clock)
    assert mine.bandwidth("HBM3") == pytest.approx(2 * base.bandwidth("HBM3"))
    assert mine.power.cap == pytest.approx(1.1 * (base.power.cap or 0.0))
    assert (mine.name, mine.engines) == ("faster", base.engines)


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ({"one": "extends: one.yaml"}, r"in a circle: one\.yaml -> one\.yaml"),
        ({"one": "extends: two.yaml", "two": "extends: one.yaml"}, r"circle: one\.yaml -> two\.yaml -> one\.yaml"),
        ({f"m{i}": f"extends: m{i + 1}.yaml" for i in range(12)}, "8 files extend one another: want at most 8"),
        ({"one": "extends: ../other.yaml"}, "want a file in the folder of this one, or below it"),
        ({"one": "extends: /etc/hosts.yaml"}, "want a file in the folder of this one, or below it"),
        ({"one": "extends: none.yaml"}, r"none\.yaml"),
        (
            {"one": "extends: h100-sxm\ntransistors: 2x"},
            r"transistors = 2x: the extended machine states no",
        ),
        ({"one": "extends: h100-sxm\nengines: {vector: 2x}"}, r"engines\.vector = 2x: the extended machine states no"),
        ({"one": "clock: 1.2x"}, r"1\.2x"),
    ],
)
def test_circles_depth_and_strange_places_are_refused(tmp_path: Path, documents: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_machine(files(tmp_path, **documents))
