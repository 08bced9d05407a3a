"""Rows of the public table of image networks: what was run, how long it took, and two numbers of each network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import FormulaLaw, LawRows, ParameterPrior
from slipstick.experiments.scoreboards.programs.vision_law import Setting

if TYPE_CHECKING:
    import pandas as pd

FILE = "vision/timm.csv.gz"
SETTING = ["device", "task", "mode", "layout", "dtype"]
AMOUNTS = ("macs", "activations")
KEY = [*SETTING, "torch", "model", "image", "batch"]


def read_rows(path: Path) -> pd.DataFrame:
    """Rows without marked ones, sizes as whole numbers, seconds above zero.

    Raises InputError where the file lacks a column or holds no usable row.
    """
    frame = csv_frame(path)
    missing = sorted({*KEY, "family", "step_s", "macs", "activations"} - set(frame.columns))
    if missing:
        raise InputError(f"{path}: columns {', '.join(missing)} are missing")
    words = frame["suspicious"] if "suspicious" in frame else frame["model"].map(lambda _: "")
    plain = words.isna() | (words.astype(str).str.strip() == "")
    numbers = frame["step_s"].gt(0) & frame["image"].gt(0) & frame["batch"].gt(0)
    kept = frame[numbers & plain].astype({"image": int, "batch": int, "torch": str})
    if kept.empty:
        raise InputError(f"{path}: no row with step_s, image and batch above 0")
    return kept.reset_index(drop=True)


def setting_of(row: pd.Series) -> Setting:
    """The setting of a row."""
    task, mode, layout, dtype = (str(row[name]) for name in ("task", "mode", "layout", "dtype"))
    return Setting(task, mode, layout, dtype, str(row["torch"]).partition(".")[0])


def two_numbers(known: pd.DataFrame, wanted: pd.DataFrame) -> FloatArray:
    """Seconds by multiply-adds and activations, a rate each, fitted to known rows: the baseline; shape (wanted,).

    Not a number where a row lacks them.
    """
    there = known[known["macs"].gt(0) & known["activations"].gt(0)]
    if there.empty:
        return np.full(len(wanted), np.nan)
    amounts, seconds = _amounts(there), there["step_s"].to_numpy(dtype=float)
    start = (seconds.sum() / amounts.sum(axis=0) / 2).tolist()  # half of the mean time each, within a thousand times
    priors = (
        ParameterPrior(name, "s", f"of one of the {name}", value, 2.0, value / 1e3, value * 1e3)
        for name, value in zip(AMOUNTS, start, strict=True)
    )
    law = FormulaLaw("two-numbers", tuple(priors), lambda n, c: np.asarray(sum(n[name] * c[name] for name in AMOUNTS)))
    each = [str(row) for row in range(len(seconds))]
    made = fit(law, LawRows(dict(zip(AMOUNTS, amounts.T, strict=True)), {}, each, seconds, ["timm"] * len(seconds)))
    return made.seconds(law, dict(zip(AMOUNTS, _amounts(wanted).T, strict=True)), {})


def _amounts(frame: pd.DataFrame) -> FloatArray:
    """Multiply-adds and activations of a whole batch, shape (rows, 2)."""
    each: FloatArray = frame[list(AMOUNTS)].to_numpy(dtype=float)
    return np.asarray(each * frame[["batch"]].to_numpy(dtype=float))
