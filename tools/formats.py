"""python -m tools.formats: writes the table of all formats into docs/files.md, from the registry."""

from __future__ import annotations

from pathlib import Path

from slipstick.workloads.importers.formats.registry import COMMANDS, FORMATS, Format

PAGE = Path(__file__).parents[1] / "docs" / "files.md"
HEAD = "| format | how people make it | goes on with | what is read | what is left out |\n|---|---|---|---|---|\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(one: Format) -> str:
    verbs = dict.fromkeys(
        command.removeprefix("slipstick ").partition(" {file}")[0] for command in COMMANDS[one.target]
    )
    plain = [
        verb if verb.partition(" ")[0] in ("workloads", "machines", "spmv", "plan") else verb.partition(" ")[0]
        for verb in verbs
    ]
    words = ", ".join(f"`{' '.join(verb.split()[:2])}`" for verb in dict.fromkeys(plain))
    cells = (_cell(one.name), _cell(one.made_by), words, _cell(one.holds), _cell(one.left_out) or "nothing")
    return f"| {' | '.join(cells)} |\n"


def page_with_formats(page: str) -> str:
    """The page with the table of today in place of its own.

    Raises ValueError where the page has no such table.
    """
    start = page.index(HEAD)
    end = page.index("\n\n", start) + 1
    return page[:start] + HEAD + "".join(map(_row, FORMATS)) + page[end:]


def main() -> None:
    """Write the table of today."""
    PAGE.write_text(page_with_formats(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
