"""Writes the index of built-in workloads: ``python -m slipstick.workloads.outlines``."""

from __future__ import annotations

from slipstick.common.writer import write_json
from slipstick.workloads.catalog import built_names, built_outline, outlines_file


def main() -> None:
    """Build every workload once and write what the list of workloads shows of it."""
    write_json(outlines_file(), {name: built_outline(name) for name in built_names()}, indent=0)


if __name__ == "__main__":
    main()
