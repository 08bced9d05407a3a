"""Where the public measurements lie: `SLIPSTICK_DATA`, else ../shared/data beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

from slipstick.common.errors import InputError


def data_folder() -> Path | None:
    """The folder of public measurements, or None where there is none."""
    named = os.environ.get("SLIPSTICK_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return folder if folder.is_dir() else None


def needed_folder() -> Path:
    """The folder of public measurements.

    Raises InputError where there is none.
    """
    folder = data_folder()
    if folder is None:
        raise InputError("no public measurements here (set SLIPSTICK_DATA; `slipstick data list` says where)")
    return folder


def training_file(relative: str) -> Path | None:
    """A file to fit on; None where it is not there."""
    folder = data_folder()
    path = folder / relative if folder else None
    return path if path and path.exists() else None


def scored_file(relative: str, scored: Path | None) -> Path | None:
    """A file to score: below `scored` where one is given, else the training file; None where it is not there."""
    if scored is None:
        return training_file(relative)
    path = scored / relative
    return path if path.exists() else None


def why_missing(relative: str, scored: Path | None = None) -> str:
    """The reason for a skipped row."""
    if scored is not None:
        return f"{relative} is not in {scored}"
    return f"{relative}: no public measurements here (set SLIPSTICK_DATA; `slipstick data list` says where to get them)"
