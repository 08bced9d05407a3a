"""What AMD's libraries take over NVIDIA's, from kernels: ``python -m ...scoreboards.serving.vendor_libraries`` (10 s).

The ratios of `estimators/engine_steps/vendor_efficiency.py`, and what ranks over PCIe add to an all-reduce
(`step_device.PCIE_RANK_LATENCY`). No row of a served model is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from slipstick.common.frames import parquet_frame
from slipstick.common.readers import read_csv_rows, read_json
from slipstick.estimators.fitting.least_squares import fit_least_squares
from slipstick.estimators.interconnect.collective_libraries import NCCL, RCCL
from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.scoreboards.gpu.gpu_data import aiconfigurator
from slipstick.hwmodels.catalog import machine

PROGRAMS = ("falconsai_nsfw_image_detection", "qwen1.5_0.5b_chat")
"""Of TraceLens: one step of each was traced on an H100 and on an MI300X."""
MOST_FLOPS = {"bfloat16": 708e12, "float8": 1273e12}
"""Of an MI300X (AMD, "Measuring Max-Achievable FLOPs, Part 2", ROCm blogs, 28 February 2025, table 1)."""
TRIAD = 3885301e6
"""Bytes/s that an MI300X has to reach (AMD's acceptance test by BabelStream)."""
STREAMED = {"v100": "v100-sxm", "a100_80": "a100-sxm-80gb", "h100_pcie": "h100-pcie"}
TRACE_BYTES = 400_000_000
OVER_PCIE, NO_BYTES = "gpu/aiconfigurator/l40s/comm/sglang/0.5.10/custom_allreduce_perf.parquet", 1024
"""All-reduces of L40S, and their bytes up to which time does not grow with them: by 5 % at most."""


def ratios() -> Mapping[str, Mapping[str, float]]:
    """Times of AMD's over NVIDIA's by what they are of, and by evidence.

    Raises
    ------
    InputError
        Where there are no public measurements.
    """
    folder = needed_folder()
    return {"fixed": _launches(folder), "computing": _products(folder), "reading": _reads(folder)}


def pcie_rank_latency() -> tuple[float, float]:
    """What each rank beyond the second adds to an all-reduce of no bytes over PCIe, over one of two, and its standard
    error: least squares in log time.

    Raises
    ------
    InputError
        Where there are no public measurements.
    """
    rows = parquet_frame(needed_folder() / OVER_PCIE)
    rows = rows[(rows["backend"] == "sglang_graph") & (rows["message_size"] <= NO_BYTES)]
    more, logs = rows["num_gpus"].to_numpy(float) - 2, np.log(rows["latency"].to_numpy(float))
    made = fit_least_squares(
        lambda at: at[0] + np.log1p(at[1] * more) - logs, ("two ranks", "each beyond"), (logs.min(), 1.0)
    )
    return made.values[1], made.standard_errors[1]


def _launches(folder: Path) -> dict[str, float]:
    """The tenth percentile of the kernels of one program, and base latencies of collectives."""
    made = {}
    for program in PROGRAMS:
        amd, nvidia = (
            np.quantile(_kernels(folder / f"traces/tracelens/{chip}_{program}.json.gz"), 0.1)
            for chip in ("mi300x", "h100")
        )
        made[program] = float(amd / nvidia)
    return {**made, **{f"collectives by {name}": RCCL[name].base / NCCL[name].base for name in ("LL", "Simple")}}


def _kernels(path: Path) -> list[float]:
    """Microseconds of each."""
    return [float(e["dur"]) for e in read_json(path, TRACE_BYTES)["traceEvents"] if e.get("cat") == "kernel"]


def _products(folder: Path) -> dict[str, float]:
    """The largest share of the peak that H100 and H200 reach, over that of an MI300X."""
    rows, made = aiconfigurator(folder, "gemm"), {}
    rates = 2.0 * rows["m"] * rows["n"] * rows["k"] / rows["time"]
    for dtype, most in MOST_FLOPS.items():
        shares = [
            float(rates[(rows["machine"] == name) & (rows["dtype"] == dtype)].max())
            / machine(name).peak("matrix", dtype)
            for name in ("h100-sxm", "h200-sxm")
        ]
        made[dtype] = float(np.mean(shares)) * machine("mi300x").peak("matrix", dtype) / most
    return made


def _reads(folder: Path) -> dict[str, float]:
    """The share of the data sheet's bandwidth that triad reaches."""
    best: dict[str, float] = {}
    for _, row in read_csv_rows(folder / "portability/gpu_benches.csv.gz", limit_rows=100_000):
        if row["quantity"] == "triad" and row["device"] in STREAMED:
            best[row["device"]] = max(best.get(row["device"], 0.0), float(row["value"]))
    ours = TRIAD / machine("mi300x").bandwidth("HBM3")
    return {chip: rate / machine(STREAMED[chip]).bandwidth(machine(STREAMED[chip]).main_memory) / ours
            for chip, rate in sorted(best.items())}  # fmt: skip


def main() -> None:
    """Print every ratio."""
    for name, each in ratios().items():
        listed = ", ".join(f"{of} {value:.2f}" for of, value in each.items())
        print(f"{name}: {np.mean(list(each.values())):.2f} ({listed})")
    print("PCIe, a rank: {:.3f} (standard error {:.3f})".format(*pcie_rank_latency()))


if __name__ == "__main__":
    main()
