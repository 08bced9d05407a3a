"""python -m tools.machine_fields: writes the table of all fields of a machine file into docs/machine-files.md."""

from __future__ import annotations

from pathlib import Path

from slipstick.hwmodels.machine_fields import machine_fields

PAGE = Path(__file__).parents[1] / "docs" / "machine-files.md"
BEGIN, END = "<!-- made by python -m tools.machine_fields -->", "<!-- end -->"


def page_with_fields(page: str) -> str:
    """A page of Markdown with the table of today between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{fields_table()}\n\n{END}{rest.partition(END)[2]}"


def fields_table() -> str:
    """The fields as a table in Markdown."""
    lines = ["| field | want | default | meaning |", "|---|---|---|---|"]
    for field in machine_fields():
        wanted = f"{field.wanted} in {field.unit}" if field.unit else field.wanted
        lines.append(f"| `{field.path}` | {wanted} | {field.default} | {field.meaning.replace('|', ' or ')} |")
    return "\n".join(lines)


def main() -> None:
    """Write the table of today."""
    PAGE.write_text(page_with_fields(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
