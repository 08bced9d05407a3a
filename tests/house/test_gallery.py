"""The gallery shows each command that made a picture, and each picture is there."""

from __future__ import annotations

from tools.gallery import ENTRIES, PAGE, PICTURES


def test_the_page_holds_every_command_and_picture() -> None:
    page = PAGE.read_text()
    for entry in ENTRIES:
        assert f"\n{entry.command}\n" in page and f"(gallery/{entry.name}.png)" in page and entry.title in page
    assert {path.stem for path in PICTURES.glob("*.png")} == {entry.name for entry in ENTRIES}
