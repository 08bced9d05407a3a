"""Fitted numbers as files `fitted/NAME.json`: laws, the rows they were fitted to, and how groups left out were met.

A file holds no date and no machine: the same rows and the same law give the same numbers, to five digits.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.opener import read_bytes
from slipstick.common.readers import read_json, require_mapping
from slipstick.common.writer import write_text
from slipstick.estimators.fitting import scores
from slipstick.estimators.fitting.fitted_model import LawFit

FORMAT = "slipstick-fitted-1"
FITTED = Path(__file__).resolve().parent.parent / "fitted"
"""The folder of the files that ship."""
FIVE_DIGITS = 1e-5


@dataclass(frozen=True)
class OuterScore:
    """How rows were met whose groups were left out of the fit.

    Parameters
    ----------
    held_out, kind
        What was left out, and of which rows the figures are.
    rows, groups
        Their numbers.
    median, ninetieth
        Of |predicted / measured - 1|.
    coverage, width
        Of the 80 % band: share of rows inside, and the median of high over low.
    over_inner
        Mean |log error| over that of the groups left out within the folds, by which all was chosen; None where these
        were not scored.
    """

    held_out: str
    kind: str
    rows: int
    groups: int
    median: float
    ninetieth: float
    coverage: float
    width: float
    over_inner: float | None = None

    @classmethod
    def of(
        cls,
        held_out: str,
        kind: str,
        groups: int,
        seconds: FloatArray,
        measured: FloatArray,
        half: FloatArray,
        inner: float | None = None,
    ) -> OuterScore:
        """From predictions beside measurements, and half-widths of log time, each of shape (rows,).

        `inner` is the mean |log error| within the folds (`LeftOutRows.inner`).
        """
        errors = scores.relative_quantile(0.5, seconds, measured), scores.relative_quantile(0.9, seconds, measured)
        covered = float(np.mean(scores.log_errors(seconds, measured) <= half))
        over = None if inner is None else float(np.mean(scores.log_errors(seconds, measured))) / inner
        return cls(held_out, kind, len(measured), groups, *errors, covered, float(np.exp(2 * np.median(half))), over)


@dataclass(frozen=True, eq=False)
class FittedFile:
    """Laws fitted to the same rows.

    Parameters
    ----------
    name
        By which `slipstick validate --refit` knows it.
    rows
        Files of rows, with a digest of each.
    used
        How many rows were fitted.
    fits
        By the names of the laws.
    outer
        Scores of left-out groups.
    note
        What the reader of the file should know, in a sentence or two.
    """

    name: str
    rows: Mapping[str, str]
    used: int
    fits: Mapping[str, LawFit]
    outer: tuple[OuterScore, ...] = ()
    note: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What a refit calls the file."""
        return f"fitted/{self.name}.json"

    def fit(self, law: str) -> LawFit:
        """The fit of a law.

        Raises
        ------
        InputError
            Where there is none.
        """
        if law not in self.fits:
            raise InputError(f"fitted/{self.name}.json: no fit of {law} (has: {', '.join(self.fits)})")
        return self.fits[law]

    def text(self) -> str:
        """The file as JSON; equal fits give equal text."""
        document = {
            "format": FORMAT,
            "name": self.name,
            "note": self.note,
            "rows": dict(sorted(self.rows.items())),
            "used": self.used,
            "outer": [
                {k: round(v, 4) if isinstance(v, float) else v for k, v in vars(s).items() if v is not None}
                for s in self.outer
            ],
            "fits": {name: one.to_dict() for name, one in self.fits.items()},
            "facts": dict(self.facts),
        }
        return _lines(document) + "\n"

    def save(self, folder: Path | None = None) -> bool:
        """Write the file, unless what is there says the same to five digits; whether it was written.

        The sixth digit is that of sums whose order the threads and the processor of a refit choose.
        """
        return write_if_changed((folder or FITTED) / f"{self.name}.json", self.text())


def write_if_changed(path: Path, text: str) -> bool:
    """Write a JSON document, unless the file holds the same to five digits; whether it was written."""
    if path.exists() and _alike(read_json(path), json.loads(text)):
        return False
    write_text(path, text)
    return True


def load_fitted(name: str, folder: Path | None = None) -> FittedFile:
    """A file of fitted numbers.

    Raises
    ------
    InputError
        Where it is missing or is no such file.
    """
    path = (folder or FITTED) / f"{name}.json"
    document = require_mapping(read_json(path), path, "the document")
    if document.get("format") != FORMAT:
        raise InputError(f"{path}: format: {document.get('format')!r}, want {FORMAT!r}")
    try:
        return FittedFile(
            str(document["name"]),
            {str(k): str(v) for k, v in document["rows"].items()},
            int(document["used"]),
            {str(law): LawFit.from_dict(one) for law, one in document["fits"].items()},
            tuple(OuterScore(**one) for one in document["outer"]),
            str(document["note"]),
            document["facts"],
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(f"{path}: no file of fitted numbers ({error})") from None


def digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file (unpacked, where it is compressed), its first sixteen hexadecimal digits."""
    return hashlib.sha256(read_bytes(path)).hexdigest()[:16]


def _alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, fractions to a unit of their fifth digit."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        if one and all(isinstance(value, float) for value in (*one, *other)):  # a row: differences of its large numbers
            large = max(map(abs, (*one, *other)))
            return len(one) == len(other) and np.allclose(one, other, FIVE_DIGITS, FIVE_DIGITS * large)
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=FIVE_DIGITS)
    return bool(one == other)


def kept(old: Any, new: Any) -> Any:
    """A JSON value whose fractions stay as they were where they agree to a unit of the fifth digit."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: kept(old.get(name), value) for name, value in new.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [kept(*pair) for pair in zip(old, new, strict=True)]
    return old if isinstance(old, float) and isinstance(new, float) and _alike(old, new) else new


def _lines(document: Mapping[str, Any]) -> str:
    """JSON with one line a leaf of the first levels: long rows of numbers stay on one line."""

    def shown(value: Any, depth: int) -> str:
        pad = " " * (depth + 1)
        if isinstance(value, Mapping) and value and depth < 4:
            inner = ",\n".join(f"{pad}{json.dumps(str(k))}: {shown(v, depth + 1)}" for k, v in value.items())
            return "{\n" + inner + "\n" + " " * depth + "}"
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            return "[\n" + ",\n".join(pad + json.dumps(v) for v in value) + "\n" + " " * depth + "]"
        return json.dumps(value)

    return shown(document, 0)
