"""Every key whose name ends in a unit is declared as a column, so that people read it with its unit."""

from __future__ import annotations

import ast
import re

from slipstick.common.columns import KNOWN
from tools.imports import FILES, nodes

ENDING = re.compile(r"[A-Za-z0-9_]+_(B_per_s|flop_per_s|per_s|bytes|gb|s|J|W|B|Hz)")
ROOMS = ("cli", "report", "studies", "explain", "extrapolate", "replay", "serve", "methods")
"""Rooms of experiments that make the rows of answers."""


def test_keys_with_a_unit_are_columns() -> None:
    found: dict[str, str] = {}
    for path in FILES:
        parts = path.parts
        if "experiments" not in parts or parts[parts.index("experiments") + 1] not in ROOMS:
            continue
        for node in nodes(path):
            keys = node.keys if isinstance(node, ast.Dict) else []
            for key in keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and ENDING.fullmatch(key.value):
                    found.setdefault(key.value, str(path))
    upper = {column.high for column in KNOWN.values()}
    assert {key: file for key, file in found.items() if key not in {*KNOWN, *upper}} == {}
