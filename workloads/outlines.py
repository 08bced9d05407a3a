"""Writes the index of built-in workloads: ``python -m slipstick.workloads.outlines``."""

from __future__ import annotations

import json

from slipstick.common.writer import atomic_write
from slipstick.workloads.catalog import built_names, built_outline, outlines_file


def main() -> None:
    """Build every workload once and write what the list of workloads shows of it."""
    with atomic_write(outlines_file()) as stream:
        json.dump({name: built_outline(name) for name in built_names()}, stream, indent=0)
        stream.write("\n")


if __name__ == "__main__":
    main()
