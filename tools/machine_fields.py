"""python -m tools.machine_fields: the tables of docs/machine-files.md: all fields, and those that no answer reads."""

from __future__ import annotations

from pathlib import Path

from slipstick.experiments.question.unused_inputs import readers_of_fields
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_fields import machine_fields

PAGE = Path(__file__).parents[1] / "docs" / "machine-files.md"
KINDS = ("h100-sxm", "xeon-platinum-8480", "xeon-phi-7120p", "tpu-v5e", "gaudi3")
"""A machine of each kind."""


def page_with_fields(page: str) -> str:
    """A page of Markdown with the table of today between its marks."""
    return _between(page, "fields", fields_table())


def page_with_unread(page: str) -> str:
    """The same with the table of fields that no default answer reads."""
    return _between(page, "unread", unread_table())


def _between(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name}: written by python -m tools.machine_fields -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


def fields_table() -> str:
    """The fields as a table in Markdown."""
    lines = ["| field | want | default | meaning |", "|---|---|---|---|"]
    for field in machine_fields():
        wanted = f"{field.wanted} in {field.unit}" if field.unit else field.wanted
        lines.append(f"| `{field.path}` | {wanted} | {field.default} | {field.meaning.replace('|', ' or ')} |")
    return "\n".join(lines)


def unread_table() -> str:
    """What of a machine of each kind no default answer reads, as a table in Markdown (half a minute)."""
    lines = ["| machine | of its numbers, read by no default answer |", "|---|---|"]
    for name in KINDS:
        readers, _ = readers_of_fields(machine(name))
        unread = ", ".join(f"`{field}`" for field, read in readers.items() if not read)
        lines.append(f"| `{name}` | {unread} |")
    return "\n".join(lines)


def main() -> None:
    """Write the tables of today."""
    PAGE.write_text(page_with_unread(page_with_fields(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
