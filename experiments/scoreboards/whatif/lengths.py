"""Attention over twice the length, on a GPU of a generation that no fit saw: as asked, and by the fit to other GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.base.ratio_band import RatioBand
from slipstick.estimators.gpu.transfer.kernel_class import times
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoreboards.whatif.asked_changes import Change, ratios
from slipstick.experiments.scoreboards.whatif.kernel_pairs import ASKED, SAMPLE, KernelRows, attention, one_row
from slipstick.experiments.scoreboards.whatif.ratios import Ratios
from slipstick.experiments.scoring.score import Data
from slipstick.experiments.scoring.unseen_answers import Fits, unseen
from slipstick.hwmodels.catalog import machine

if TYPE_CHECKING:
    import pandas as pd

TARGETS = {"h200-sxm": ("h100-sxm",), "a100-sxm-80gb": ()}
"""Machines, and those of their chip; no fit may have seen them, nor others of their generation."""
DRAWS, SEED = 50, 20_240_301


def longer(data: Data) -> list[Ratios]:
    """Prompts of twice the tokens, and caches of twice the tokens."""
    classes = list(attention(data.judged_folder))
    return [one for kernels in classes for name, alike in TARGETS.items() for one in _asked(kernels, name, alike)]


def _asked(kernels: KernelRows, name: str, alike: tuple[str, ...]) -> list[Ratios]:
    """Ratios of a machine's rows that have a row of twice the length, as a user puts them."""
    prompt = "context" in kernels.name
    both = _pairs(kernels.frame[kernels.frame["machine"] == name], prompt=prompt)
    both = both.sample(min(ASKED, len(both)), random_state=0)
    board = OperationBoard(kernels.frame, kernels.kind, kernels.dtype)
    gpu = board.machine(name)
    fits = Fits(unseen([gpu, *map(machine, alike)], []))
    dims = ("queries", "keys") if prompt else ("keys",)
    pairs = []
    for at, ratio in enumerate((both["time_long"] / both["time"]).to_numpy(dtype=float)):
        short = float(both["keys"].iloc[at])
        work = one_row(board.rows(name, both.iloc[[at]]))
        pairs.append(Change(work, gpu, {f"workload.{dim}": 2 * short for dim in dims}, float(ratio), fits))
    differs = ", ".join(f"workload.{dim}" for dim in dims) + " x 2"
    note = f"{gpu.name} and its generation are in no fit"
    return ratios(f"{kernels.name}, twice the length, {name}", gpu.name, differs, pairs, note)


def doubled(kernels: KernelRows, name: str, left_out: tuple[str, ...], law: RatioBand) -> Ratios | None:
    """Ratios of a machine's rows that have a row of twice the length; None where there are none.

    `left_out`: names of the machines that no fit may have seen.
    `law`: of the band.
    """
    rows = kernels.frame[kernels.frame["machine"] == name]
    both = _pairs(rows, prompt="context" in kernels.name)
    if both.empty:
        return None
    both = both.sample(min(SAMPLE, len(both)), random_state=0)
    board = OperationBoard(kernels.frame, kernels.kind, kernels.dtype)
    short = board.rows(name, both)
    long = board.rows(name, both.assign(queries=both["queries_long"], keys=both["keys_long"]))
    variants = tuple(f"{one}, {library}" for one in left_out for library in gpu_kernels().libraries)
    forecast = gpu_kernels().forecast(board.machine(name), (*left_out, *variants), ())
    label, known = short.name, forecast.belief
    names = [parameter for owner, parameter in known.names if owner == label]
    places = [i for i, (owner, _) in enumerate(known.names) if owner == label]

    def logs(values: dict[str, float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.asarray(np.log(times([long], values) / times([short], values)))

    middle = logs(known.values(label))
    normal = np.random.default_rng(SEED).standard_normal((DRAWS, known.roots.shape[1]))
    drawn = np.exp((known.mean + normal @ known.roots.T)[:, places])
    spread = np.std([logs(dict(zip(names, map(float, row), strict=True))) for row in drawn], axis=0, ddof=1)
    scatter = forecast.rule(label).scatter
    today, then = (np.asarray(scatter.of(times([form], known.values(label)))) for form in (short, long))
    half = law.half(middle, 0.0, spread, then, today, scatter.common, scatter.common)
    measured = (both["time_long"] / both["time"]).to_numpy(float)
    return Ratios(kernels.name, ", ".join(left_out), "workload.keys x 2", measured, np.exp(middle), half, 0.0)


def _pairs(rows: pd.DataFrame, *, prompt: bool) -> pd.DataFrame:
    """Rows beside those of twice the keys (of prompts: and twice the queries), all else equal."""
    alike = ["batch", "heads", "kv_heads", "head_dim", "value_dim"]
    plain = rows[rows["keys"] == rows["queries"]] if prompt else rows
    columns = ["queries", "keys", "time", *alike]
    double = plain[columns].rename(columns={name: f"{name}_long" for name in columns[:3]})
    first = plain.assign(keys_long=2 * plain["keys"])
    if prompt:
        first = first.assign(queries_long=2 * first["queries"])
        return first.merge(double, on=[*alike, "keys_long", "queries_long"])
    first = first.assign(queries_long=first["queries"])
    return first.merge(double, on=[*alike, "keys_long", "queries_long"])
