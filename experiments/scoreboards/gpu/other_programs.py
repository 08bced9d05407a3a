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


def _decoder(path: Path) -> pd.DataFrame:
    import pandas as pd

    frame = csv_frame(path)
    parts = []
    for layer, (features, inputs) in LAYERS.items():
        part = frame[frame["layer"] == layer].sort_values("tokens").iloc[::EVERY]
        parts.append(pd.DataFrame({"m": features, "n": part["tokens"], "k": inputs, "time": part["time_s"]}))
    return pd.concat(parts, ignore_index=True)


def _scored(case: str, at: Machine, dtype: str, frame: pd.DataFrame) -> Iterator[Scored]:
    sizes = zip(frame["m"], frame["n"], frame["k"], strict=True)
    made = [gemm("product", float(m), float(n), float(k), dtype=dtype) for m, n, k in sizes]
    yield from scored_operations(case, at, made, frame["time"])


def scored_operations(case: str, at: Machine, made: Sequence[Op], seconds: pd.Series[float]) -> Iterator[Scored]:
    """Default answers for single operations beside measured seconds; the long ones apart."""
    measured = np.asarray(seconds, dtype=np.float64)
    answered = answers([(Workload(one.kind, (one,), metadata=FrozenDict({WORK: "kernel"})), at) for one in made])
    ours, low, high, plain = answered.seconds, answered.low, answered.high, answered.roofline
    for name, rows in ((case, measured > 0), (f"{case}, from 50 us", measured >= LONG)):
        if rows.any():
            yield Scored(
                name, HELD_OUT, measured[rows], ours[rows], LOGARITHMIC,
                baselines={"roofline": plain[rows]}, low=low[rows], high=high[rows], groups=at.name,
                reason=f"bias in log time {np.median(np.log(ours[rows] / measured[rows])):+.2f}",
            )  # fmt: skip
