"""python -m tools.graphs FOLDER: imports the models on which imports are tried, as the graphs that ship were made."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.experiments.measure.bricks.model_population import population
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_writer import to_json
from slipstick.workloads.importers.torch.importer import import_torch
from slipstick.workloads.shipped_graphs import PACKED


def save_graphs(folder: Path) -> None:
    """Import every model that the folder lacks and write it there."""
    for entry in population():
        path = folder / f"{entry.name}{PACKED}"
        if path.exists():
            continue
        try:
            write_graph(import_torch(entry.build(), entry.inputs, entry.name, hints=entry.hints), path)
        except InputError as error:
            print(f"{entry.name}: {error}", file=sys.stderr)


def write_graph(workload: Workload, path: Path) -> None:
    """Write a network as it ships."""
    content = json.dumps(to_json(workload), separators=(",", ":")).encode()
    path.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    save_graphs(Path(sys.argv[1]))
