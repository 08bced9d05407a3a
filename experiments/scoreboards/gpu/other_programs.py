"""Products that other programs timed than those that the shipped calibration was fitted to, by the default answer.

InferSim's FP8 products on an H800 are kernels alone, without what quantizes activations; LLMServingSim's decoder in
bfloat16 ran on a GeForce RTX 4090, of whose kind no 16-bit product is in the calibration. Neither was fitted to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.frames import csv_frame
from slipstick.common.records import FrozenDict
from slipstick.estimators.fitting.prediction_bands import folds
from slipstick.estimators.gpu.transfer.device_fits import filled, fit_devices
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.gpu.transfer.pooling_constants import GRAPH_LAUNCH
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import LOGARITHMIC, Data, Scored
from slipstick.experiments.scoring.unseen_answers import Answers, Fits, answers, answers_left_out, kernel, unseen
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.op import Op
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import gemm

if TYPE_CHECKING:
    import pandas as pd

ALONE = "gpu/infersim/operators.csv.gz"
DECODER = "serving/profile_dense.csv.gz"
HELD_OUT = "the program, and the board but for its chip"
LAYERS: Mapping[str, tuple[int, int]] = {
    "qkv_proj": (6144, 4096),
    "o_proj": (4096, 4096),
    "gate_up_proj": (28672, 4096),
    "down_proj": (4096, 14336),
}
"""Features out and in of Llama 3.1 8B's products (its config.json)."""
PARAMETERS = 8.03e9
"""Of that model, which are read between two uses of one of its weights."""
TUNED, TUNER, MOST_TUNED, FOLDS = "gpu/aiter/gemm.csv.gz", "aiter", 250, 5
"""The table of AMD's tuner and its library; about how many rows of a device and type are scored, in how many folds."""
TUNED_ON = {304: "mi300x", 256: "mi355x"}
TUNED_AS = {"bf16": "bfloat16", "row": "float8", "block of 128": "float8_block"}
"""Devices by their compute units, and types by how weights are scaled."""
EVERY = 4
"""Of the decoder's token counts, so many apart are scored: neighbours are alike."""
LONG = 50e-6
"""Seconds from which a row counts as a large product."""


def rows(data: Data) -> Iterator[Scored]:
    """Every product that InferSim timed, and the decoder's; the long ones apart."""
    import pandas as pd

    frame = csv_frame(data.judged(ALONE))
    frame = frame[(frame["operation"] == "gemm") & (frame["time_s"] > 0)]
    alone = pd.DataFrame({"m": frame["n"], "n": frame["m"], "k": frame["k"], "time": frame["time_s"]})
    for dtype, name in (("float8_block", "FP8 in blocks alone, H800"), ("float8", "the same as FP8 a tensor")):
        answered = answers(_questions(alone, machine("h800-sxm"), dtype))
        yield from _scores(name, HELD_OUT, alone["time"], answered, "h800-sxm")
    whole = machine("rtx-4090").using({"runtime.weights_between": PARAMETERS * 2})
    decoder = _decoder(data.judged(DECODER))
    answered = answers(_questions(decoder, whole, "bfloat16"))
    yield from _scores("BF16 gemm, RTX 4090", HELD_OUT, decoder["time"], answered, whole.name)


def tuned(data: Data) -> Iterator[Scored]:
    """Products that AMD's tuner timed on Instinct: the best kernel of a shape, by device and type.

    Each device is asked from fits without its generation, and from its own rows of other layers (pairs of features).
    """
    judged = tuned_products(data.judged(TUNED))
    public = data.table(tuned_products(data.known(TUNED)), judged, [str(name) for name in judged])
    for (name, dtype), mine in judged.groupby(["machine", "dtype"]):
        at, case = machine(str(name)), f"{dtype} products tuned, {name}"
        mine = mine.sort_values(["m", "k", "n"]).iloc[:: max(1, len(mine) // MOST_TUNED)]
        queries, layers = _questions(mine, at, str(dtype)), list(mine["layer"])
        without = answers(queries, Fits(unseen([at], [])))
        yield from _scores(case, "its generation", mine["time"], without, layers)
        of_device = public[(public["machine"] == name) & (public["dtype"] == dtype)]
        rows = list(zip(queries, layers, strict=True))
        turns = folds(layers, at_most=FOLDS)
        known = answers_left_out(rows, turns, itemgetter(0), partial(_fits_to_layers, of_device))
        yield from _scores(case, "its layer", mine["time"], known, layers)


def tuned_products(path: Path) -> pd.DataFrame:
    """Rows of the tuner's table: machine, dtype, m, n, k, time [s], layer.

    Left out: rows marked suspicious, batches, the 80 units of a partition, and types that the law has no fit of.
    """
    import pandas as pd

    frame = csv_frame(path)
    frame = frame[frame["suspicious"].isna() & (frame["batches"] == 1) & frame["weight_dtype"].isin(["bf16", "fp8"])]
    dtypes = frame["scaling"].fillna(frame["weight_dtype"]).map(TUNED_AS)
    sizes = {"m": frame["n"], "n": frame["m"], "k": frame["k"], "time": frame["time_s"]}
    layers = frame["n"].astype(str) + " x " + frame["k"].astype(str)
    made = {"machine": frame["compute_units"].map(TUNED_ON), "dtype": dtypes, **sizes, "layer": layers}
    return pd.DataFrame(made).dropna()


def tuned_times(frame: pd.DataFrame) -> list[OperationTimes]:
    """Rows of `tuned_products` as times of kernels under the tuner's library, their launch hidden."""
    result = []
    for (name, dtype), part in frame.groupby(["machine", "dtype"]):
        runtime = {"mode": "graph_replay", "launch_overhead": GRAPH_LAUNCH, "library": TUNER}
        at = machine(str(name)).using({f"runtime.{field}": value for field, value in runtime.items()})
        dims = {"batch": np.ones(len(part))} | {dim: part[dim].to_numpy(float) for dim in ("m", "n", "k")}
        result.append(OperationTimes.of(at, "gemm", str(dtype), dims, part["time"].to_numpy(float)))
    return result


def _fits_to_layers(of_device: pd.DataFrame, known: Sequence[tuple[Any, str]], _: Sequence[Machine]) -> Fits:
    """The kernels that ship, with a device's own fit made from its rows of the known layers alone."""
    kept = of_device["layer"].isin({layer for _, layer in known})
    ships, made = gpu_kernels(), fit_devices(tuned_times(of_device[kept]))
    anew = {one.name: one.fits for one in made.classes}
    classes = []
    for one in ships.classes:
        others = (fit for fit in one.fits if fit.machine not in made.machines or one.name not in anew)
        classes.append(replace(one, fits=filled((*others, *anew.get(one.name, ())), one.priors)))
    return Fits(replace(ships, classes=tuple(classes), machines=FrozenDict({**ships.machines, **made.machines})))


def _decoder(path: Path) -> pd.DataFrame:
    import pandas as pd

    frame = csv_frame(path)
    parts = []
    for layer, (features, inputs) in LAYERS.items():
        part = frame[frame["layer"] == layer].sort_values("tokens").iloc[::EVERY]
        parts.append(pd.DataFrame({"m": features, "n": part["tokens"], "k": inputs, "time": part["time_s"]}))
    return pd.concat(parts, ignore_index=True)


def _questions(frame: pd.DataFrame, at: Machine, dtype: str) -> list[tuple[Workload, Machine]]:
    sizes = zip(frame["m"], frame["n"], frame["k"], strict=True)
    return [(kernel(gemm("product", float(m), float(n), float(k), dtype=dtype)), at) for m, n, k in sizes]


def scored_operations(case: str, at: Machine, made: Sequence[Op], seconds: pd.Series[float]) -> Iterator[Scored]:
    """Default answers for single operations beside measured seconds; the long ones apart."""
    yield from _scores(case, HELD_OUT, seconds, answers([(kernel(one), at) for one in made]), at.name)


def _scores(
    case: str, held_out: str, seconds: pd.Series[float], answered: Answers, groups: Sequence[str]
) -> Iterator[Scored]:
    """`groups`: of each row, or the name of all."""
    measured, ours = np.asarray(seconds, dtype=np.float64), answered.seconds
    for name, rows in ((case, measured > 0), (f"{case}, from 50 us", measured >= LONG)):
        if rows.any():
            yield Scored(
                name, held_out, measured[rows], ours[rows], LOGARITHMIC,
                baselines={RULE: answered.rule[rows]}, low=answered.low[rows], high=answered.high[rows],
                groups=groups if isinstance(groups, str) else [groups[i] for i in np.flatnonzero(rows).tolist()],
                reason=f"bias in log time {np.median(np.log(ours[rows] / measured[rows])):+.2f}",
            )  # fmt: skip
