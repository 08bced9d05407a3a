"""python -m tools.machine_fields: writes the table of all fields of a machine file into docs/machine-files.md."""

from __future__ import annotations

from pathlib import Path

from slipstick.hwmodels.machine_fields import page_with_fields

PAGE = Path(__file__).parents[1] / "docs" / "machine-files.md"


def main() -> None:
    """Write the table of today."""
    PAGE.write_text(page_with_fields(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
