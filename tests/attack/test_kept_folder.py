"""The folder of what is kept may be any that the user names: his own files stay, and nobody else's are believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipstick.common import disk_cache
from slipstick.common.disk_cache import FORMAT, HEADER, MOST_FILES, VARIABLE, cache_path, read_cached, write_cached

OWN = 300
"""Files of the user's, more than are kept."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    monkeypatch.setenv(VARIABLE, str(place))
    return place


def kept(name: str = "a") -> Path:
    path = cache_path("workloads", name)
    assert path is not None
    return path


def content_of(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["workloads", "formulas"])
def test_the_users_own_files_stay(name: str, root: Path) -> None:
    """A project with a folder `workloads` lost the oldest of its files."""
    (root / name).mkdir(parents=True)
    for number in range(OWN):
        (root / name / f"{number:032x}.json").write_text(f'{{"layers": {number}}}')
    before = content_of(root)
    path = cache_path("workloads" if name == "workloads" else "formulas", "a")
    assert path is not None and write_cached(path, [1]) and read_cached(path) == [1]
    after = content_of(root)
    assert len(before) == OWN and after.items() >= before.items()
    assert set(after) - set(before) == {str(path)} and path.is_relative_to(root / FORMAT)


def test_only_what_was_kept_goes(root: Path, tmp_path: Path) -> None:
    """In our own folder, too: other names, other beginnings, links and folders stay, and links are not followed."""
    assert write_cached(kept(), [0])
    place = kept().parent
    outside = tmp_path / "outside.json"
    outside.write_text(HEADER)
    for number in range(OWN):
        (place / f"mine-{number}.json").write_text(HEADER)
        (place / f"{number:032x}.json").write_text(f'{{"layers": {number}}}')
        os.utime(place / f"{number:032x}.json", (0, 0))
    link, folder = (place / f"{letter * 32}.json" for letter in "ab")
    link.symlink_to(outside)
    folder.mkdir()
    before = content_of(place)
    assert write_cached(kept("b"), [1])
    assert content_of(place).items() >= before.items() and link.is_symlink() and folder.is_dir()
    assert outside.read_text() == HEADER


def test_the_oldest_of_ours_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "MOST_FILES", 3)
    for number in range(6):
        assert write_cached(kept(str(number)), number)
        os.utime(kept(str(number)), (number + 1, number + 1))
    assert write_cached(kept("new"), 7) and MOST_FILES > 3
    assert [read_cached(kept(str(number))) for number in range(6)] == [None, None, None, None, 4, 5]
    assert read_cached(kept("new")) == 7


@pytest.mark.parametrize("level", [0, 1])
def test_a_link_in_place_of_a_folder_of_ours_is_not_followed(level: int, root: Path, tmp_path: Path) -> None:
    """A folder of somebody else's content, or of the user's own that would be written to."""
    assert write_cached(kept(), [1])
    ours, moved = (kept().parent, kept().parents[1])[level], tmp_path / "moved"
    ours.rename(moved)
    ours.symlink_to(moved, target_is_directory=True)
    before = content_of(moved)
    assert read_cached(kept()) is None and not write_cached(kept("b"), [2])
    assert content_of(moved) == before


def test_a_file_that_is_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    assert write_cached(kept(), [1])
    kept().rename(tmp_path / kept().name)
    kept().symlink_to(tmp_path / kept().name)
    assert read_cached(kept()) is None
    assert write_cached(kept(), [2]) and read_cached(kept()) == [2] and not kept().is_symlink()


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o701])
def test_folders_of_ours_are_closed(level: int, mode: int, root: Path) -> None:
    assert write_cached(kept(), [1])
    kept().parents[level].chmod(mode)
    assert read_cached(kept()) is None and not write_cached(kept("b"), [2])


def test_where_anybody_may_rename_nothing_is_kept(root: Path, tmp_path: Path) -> None:
    assert write_cached(kept(), [1])
    for folder in (root, tmp_path):
        before = folder.stat().st_mode
        folder.chmod(0o777)
        assert read_cached(kept()) is None and not write_cached(kept("b"), [2])
        folder.chmod(0o1777)  # as /tmp
        assert read_cached(kept()) == [1]
        folder.chmod(before)


def test_nothing_is_made_where_anybody_may_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open", target_is_directory=True)
    for place in ("open", "link"):
        monkeypatch.setenv(VARIABLE, str(tmp_path / place / "deep" / "cache"))
        assert not write_cached(kept(), [1]) and read_cached(kept()) is None
    assert list((tmp_path / "open").iterdir()) == []


def test_the_folder_that_is_named_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    root.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert write_cached(kept(), [1]) and read_cached(kept()) == [1]
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == [FORMAT]


def test_a_circle_of_links_keeps_nothing(root: Path) -> None:
    root.symlink_to(root)
    assert not write_cached(kept(), [1]) and read_cached(kept()) is None


def test_an_open_mask_makes_closed_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "one" / "two"))
    before = os.umask(0)
    try:
        assert write_cached(kept(), [1]) and read_cached(kept()) == [1]
    finally:
        os.umask(before)
    made = (tmp_path / "one", tmp_path / "one" / "two", kept().parents[1], kept().parent)
    assert [oct(folder.stat().st_mode & 0o777) for folder in made] == ["0o700"] * 4


def test_nothing_is_kept_once_that_is_turned_off(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cache_path("formulas", "made before")
    monkeypatch.setenv(VARIABLE, "off")
    assert path is not None and not write_cached(path, {"a": 1}) and not path.exists()
