"""Writes the indexes of what ships anew: of machines, and of workloads, which are all built for it.

python -m tools.indexes
"""

from __future__ import annotations

import json

from slipstick.common.writer import write_json, write_text
from slipstick.hwmodels.catalog.index import FILE, built, digest_of
from slipstick.workloads.catalog import IMPORTED, built_outline, outlines_file, workload_builders
from slipstick.workloads.shipped_graphs import graph_names


def built_names() -> list[str]:
    """Names of the workloads that ship, from the builders and graphs themselves."""
    return sorted(workload_builders()) + [f"{IMPORTED}{name}" for name in graph_names()]


def main() -> None:
    """Read every machine, build every workload, and write what lists show of them."""
    rows = {path.name: [digest_of(path), *built(path)] for path in sorted(FILE.parent.glob("*.yaml"))}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    write_text(FILE, f"{{\n{lines}\n}}\n")
    write_json(outlines_file(), {name: built_outline(name) for name in built_names()}, indent=0)


if __name__ == "__main__":
    main()
