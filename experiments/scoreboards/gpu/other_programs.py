"""Products that other programs timed than those that the shipped calibration was fitted to, by the default answer.

InferSim's FP8 products on an H800 are kernels alone, without what quantizes activations; LLMServingSim's decoder in
bfloat16 ran on a GeForce RTX 4090, of whose kind no 16-bit product is in the calibration. Neither was fitted to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.frames import csv_frame
from slipstick.common.records import FrozenDict
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import LOGARITHMIC, Data, Scored
from slipstick.experiments.scoring.unseen_answers import answers
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.op import Op
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WORK
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
TUNED, MOST_TUNED = "gpu/aiter/gemm.csv.gz", 250
"""The table of AMD's tuner, and about how many of its rows of a device and type are asked."""
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
        yield from _scored(name, machine("h800-sxm"), dtype, alone)
    whole = machine("rtx-4090").using({"runtime.weights_between": PARAMETERS * 2})
    yield from _scored("BF16 gemm, RTX 4090", whole, "bfloat16", _decoder(data.judged(DECODER)))


def tuned(data: Data) -> Iterator[Scored]:
    """Products that AMD's tuner timed on Instinct: the best kernel of a shape, warm, by type; layers are the groups.

    Left out: rows marked suspicious, batches, the 80 units of a partition, and types that the law has no fit of.
    """
    frame = csv_frame(data.judged(TUNED))
    frame = frame[frame["suspicious"].isna() & (frame["batches"] == 1)]
    for units, name in ((304, "mi300x"), (256, "mi355x")):
        for dtype, kept in (("bfloat16", "bf16"), ("float8_block", "fp8")):
            mine = frame[(frame["compute_units"] == units) & (frame["weight_dtype"] == kept)]
            mine = mine.sort_values(["n", "k", "m"]).iloc[:: max(1, len(mine) // MOST_TUNED)]
            part = mine.rename(columns={"m": "n", "n": "m", "time_s": "time"})
            layers = [f"{n} x {k}" for n, k in zip(mine["n"], mine["k"], strict=True)]
            yield from _scored(f"{kept} products tuned, {name}", machine(name), dtype, part, layers)


def _decoder(path: Path) -> pd.DataFrame:
    import pandas as pd

    frame = csv_frame(path)
    parts = []
    for layer, (features, inputs) in LAYERS.items():
        part = frame[frame["layer"] == layer].sort_values("tokens").iloc[::EVERY]
        parts.append(pd.DataFrame({"m": features, "n": part["tokens"], "k": inputs, "time": part["time_s"]}))
    return pd.concat(parts, ignore_index=True)


def _scored(case: str, at: Machine, dtype: str, frame: pd.DataFrame, groups: Sequence[str] = ()) -> Iterator[Scored]:
    sizes = zip(frame["m"], frame["n"], frame["k"], strict=True)
    made = [gemm("product", float(m), float(n), float(k), dtype=dtype) for m, n, k in sizes]
    yield from scored_operations(case, at, made, frame["time"], groups)


def scored_operations(
    case: str, at: Machine, made: Sequence[Op], seconds: pd.Series[float], groups: Sequence[str] = ()
) -> Iterator[Scored]:
    """Default answers for single operations beside measured seconds; the long ones apart. `groups`: of each, if any."""
    measured = np.asarray(seconds, dtype=np.float64)
    answered = answers([(Workload(one.kind, (one,), metadata=FrozenDict({WORK: "kernel"})), at) for one in made])
    ours, low, high = answered.seconds, answered.low, answered.high
    for name, rows in ((case, measured > 0), (f"{case}, from 50 us", measured >= LONG)):
        if rows.any():
            yield Scored(
                name, HELD_OUT, measured[rows], ours[rows], LOGARITHMIC,
                baselines={RULE: answered.rule[rows]}, low=low[rows], high=high[rows],
                groups=[groups[i] for i in np.flatnonzero(rows).tolist()] if groups else at.name,
                reason=f"bias in log time {np.median(np.log(ours[rows] / measured[rows])):+.2f}",
            )  # fmt: skip
