"""Imported networks that ship as files: node-link JSON as `Workload.save` writes it, packed by xz."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstick.common.opener import read_bytes
from slipstick.common.readers import parse_json

PACKED = ".json.xz"
"""How their names end; xz takes two thirds of a gzip."""


def graphs_folder() -> Path:
    """Where they lie."""
    return Path(__file__).parent / "graphs"


def graph_names() -> list[str]:
    """Their names, sorted."""
    return sorted(path.name.removesuffix(PACKED) for path in graphs_folder().glob(f"*{PACKED}"))


def graph_document(name: str) -> Any:
    """The document of one."""
    import lzma

    path = graphs_folder() / f"{name}{PACKED}"
    return parse_json(lzma.decompress(read_bytes(path)).decode(), path)
