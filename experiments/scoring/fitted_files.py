"""Fitted numbers that ship in formats of their own, for `slipstick validate --refit`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstick.common.readers import read_json
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, kept, write_if_changed


def rounded(value: Any) -> Any:
    """A JSON value whose fractions have six digits: a file compares five."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


@dataclass(frozen=True, eq=False)
class ShippedFiles:
    """Documents that are fitted to the same rows.

    Parameters
    ----------
    documents
        The JSON of each file.
    used
        How many rows were fitted.
    outer
        Scores of left-out groups.
    indent
        Spaces a level of the JSON; None writes one line.
    beside
        What else was fitted to these rows, in the learner's format.
    """

    documents: Mapping[Path, Mapping[str, Any]]
    used: int
    outer: tuple[OuterScore, ...] = ()
    indent: int | None = 1
    beside: FittedFile | None = None

    @property
    def title(self) -> str:
        """The names of the files."""
        return ", ".join([*(path.name for path in self.documents), *([self.beside.title] if self.beside else [])])

    def save(self) -> bool:
        """Write the files that do not say the same to five digits; whether one was written.

        A number that stays within its fifth digit stays as it is, so that no other answer moves with those that do.
        """
        written = self.beside.save() if self.beside else False
        for path, document in self.documents.items():
            one = kept(read_json(path), document) if path.exists() else document
            written |= write_if_changed(path, json.dumps(one, indent=self.indent, allow_nan=False) + "\n")
        return written
