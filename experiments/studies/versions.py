"""Which versions of what decide an answer."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

DECIDING = ("slipstick/common", "hwmodels", "workloads", "estimators", "experiments/question", "experiments/studies")
"""Rooms whose code decides an answer, below the package."""


def installed_version(distribution: str) -> str:
    """The version of an installed distribution, or `not installed` where at most its source is on the path."""
    from importlib import metadata  # here: every command reads this module, few want a version

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


@cache
def formulas_digest() -> str:
    """Of all code that decides an answer: results of other formulas are those of another study."""
    home = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for room in DECIDING:
        for path in sorted((home / room).rglob("*.py")):
            digest.update(str(path.relative_to(home)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
