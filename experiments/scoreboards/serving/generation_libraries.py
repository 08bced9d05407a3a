"""What kernels take on generations of NVIDIA over Hopper: ``python -m ...scoreboards.serving.generation_libraries``.

The ratios of `estimators/engine_steps/vendor_efficiency.py`, of calls that one version of one engine timed on
several boards.
No row of a served model is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.scoreboards.experts.expert_data import SHAPES, frames
from slipstick.experiments.scoreboards.gpu.gpu_data import ATTENTION_DIMS, GEMM_DIMS, aiconfigurator
from slipstick.hwmodels.catalog import machine

if TYPE_CHECKING:
    import pandas as pd

HOPPER = ("h100-sxm", "h200-sxm")
GENERATIONS = {
    "nvidia-ampere": ("a100-sxm-80gb",),
    "nvidia-ada": ("l40s",),
    "nvidia-blackwell": ("b200-sxm", "b300-sxm", "gb200", "gb300"),
}
STACK = "sglang 0.5.10"
TYPES = ("bfloat16", "float8")
"""Of products, and of the cache that attention reads."""
SHORTEST = 0.01
"""The share of calls that are so small that no bytes explain them."""
LEAST_CALLS = 100
FROM_MEMORY = 150e6
"""Bytes of a product that no last cache keeps from one call to the next."""
EXPERT_DIMS = (*SHAPES["experts"], "num_tokens", "moe_tp_size", "moe_ep_size", "distribution")


def ratios(generation: str) -> Mapping[str, Mapping[str, float]]:
    """Times of a generation over Hopper's at the same share of the data sheet, by what they are of and by evidence.

    Raises
    ------
    InputError
        Where there are no public measurements.
    """
    folder = needed_folder()
    names = GENERATIONS[generation]
    products = aiconfigurator(folder, "gemm")
    products = products[products["stack"] == STACK]
    shares = {dtype: _rates(products[products["dtype"] == dtype], dtype) for dtype in TYPES}
    streamed = _streams(products[products["dtype"] == "bfloat16"])
    return {
        "fixed": _launches(folder, products, names),
        "computing": {dtype: _mean([share[h] for h in HOPPER]) / _mean([share[n] for n in names])
                      for dtype, share in shares.items() if set(names) <= set(share)},
        "reading": {"products": _mean([streamed[h] for h in HOPPER]) / _mean([streamed[n] for n in names])},
    }  # fmt: skip


def _mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _launches(folder: Path, products: pd.DataFrame, names: tuple[str, ...]) -> dict[str, float]:
    """The shortest of the calls that both ran, by kind of kernel."""
    made: dict[str, list[float]] = {}
    for kind, rows, dims in _kinds(folder, products):
        one = [
            float(both["time_x"].quantile(SHORTEST) / both["time_y"].quantile(SHORTEST))
            for name in names
            for other in HOPPER
            if len(both := rows[rows["machine"] == name].merge(rows[rows["machine"] == other], on=list(dims)))
            >= LEAST_CALLS
        ]
        if one:
            made.setdefault(kind, []).append(_mean(one))
    return {kind: _mean(each) for kind, each in made.items()}


def _kinds(folder: Path, products: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, tuple[str, ...]]]:
    """Calls by kind of kernel, one type of numbers each, and what makes two calls the same."""
    attention = aiconfigurator(folder, "generation_attention")
    attention = attention[attention["stack"] == STACK]
    for dtype in TYPES:
        yield "products", products[products["dtype"] == dtype], GEMM_DIMS
        yield "decode attention", attention[attention["kv_dtype"] == dtype], (*ATTENTION_DIMS, "window")
    for case, rows in frames(folder).items():
        if case.kind == "experts" and case.library.startswith("sglang"):
            yield "experts", rows[rows["stack"] == STACK.split()[0]], EXPERT_DIMS


def _rates(rows: pd.DataFrame, dtype: str) -> dict[str, float]:
    """The largest share of the peak that a machine reaches."""
    best = (2.0 * rows["m"] * rows["n"] * rows["k"] / rows["time"]).groupby(rows["machine"]).max()
    return {name: rate / machine(name).peak("matrix", dtype) for name, rate in _named(best)}


def _streams(rows: pd.DataFrame) -> dict[str, float]:
    """The largest share of the data sheet's bandwidth that a product reaches."""
    moved = 2.0 * (rows["m"] * rows["k"] + rows["n"] * rows["k"] + rows["m"] * rows["n"])
    rate = (moved / rows["time"])[moved > FROM_MEMORY]
    best = rate.groupby(rows["machine"]).max()
    return {name: top / machine(name).bandwidth(machine(name).main_memory) for name, top in _named(best)}


def _named(best: pd.Series[float]) -> Iterator[tuple[str, float]]:
    return ((str(name), float(value)) for name, value in best.items())


def main() -> None:
    """Print every ratio."""
    for generation in GENERATIONS:
        for name, each in ratios(generation).items():
            listed = ", ".join(f"{of} {value:.2f}" for of, value in each.items())
            print(f"{generation} {name}: {_mean(list(each.values())):.2f} ({listed})")


if __name__ == "__main__":
    main()
