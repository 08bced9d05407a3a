"""How far two kernel libraries differ on one device (`slipstick validate --refit libraries`).

The same calls on the same device, timed under two engines whose attention is another library's: SGLang 0.5.10
(FlashAttention 3 on Hopper, FlashAttention 2 on Ada, TensorRT-LLM's on Blackwell) and vLLM 0.22.0 (its FlashAttention,
FlashInfer and Triton on Blackwell). An answer that was fitted to one of them is off by the whole difference
where the other runs. Products call cuBLAS under both, so that no name of an engine says which kernels run: a fit to one
of them stands for both, and is off by half of what they differ by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.estimate import quantile
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.scores import LEVEL
from slipstick.estimators.gpu.transfer.kernel_class import LIBRARIES
from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.scoreboards.gpu.gpu_data import ATTENTION_DIMS, GEMM_DIMS, aiconfigurator

HOME = "gpu/aiconfigurator"
STACKS = ("sglang 0.5.10", "vllm 0.22.0")
TABLES = {"gemm": ("gemm",), "attention": ("generation_attention", "context_attention")}
OUTLIER = 1.5
"""Log ratios beyond are cut, as where the scatter of a device is estimated (`pooling_constants.LARGEST`)."""
SHARES = {"gemm": 0.5, "attention": 1.0}
"""How much of the difference between two libraries an answer is off by; a judgement."""
NOTE = "Equal calls under SGLang 0.5.10 and vLLM 0.22.0 (aiconfigurator); half of it in products: both call cuBLAS."


def differences(kind: str) -> Mapping[tuple[str, str], FloatArray]:
    """Log ratios of the second library's times to the first's, by table and device; products in bfloat16.

    Raises
    ------
    InputError
        Where there are no public measurements.
    """
    folder = needed_folder()
    return {(table, device): logs for table in TABLES[kind] for device, logs in _by_device(folder, table)}


def _by_device(folder: Path, table: str) -> Iterator[tuple[str, FloatArray]]:
    rows = aiconfigurator(folder, table)
    rows = rows[rows["dtype"] == "bfloat16"]
    same = list(GEMM_DIMS) if table == "gemm" else [*ATTENTION_DIMS, "kv_dtype", "window"]
    for device, mine in rows.groupby("machine"):
        one, other = (mine[mine["stack"] == stack].groupby(same)["time"].median() for stack in STACKS)
        ratio = (other / one).dropna()
        if len(ratio):
            yield str(device), np.clip(np.log(ratio.to_numpy(float)), -OUTLIER, OUTLIER)


def spread(logs: Mapping[tuple[str, str], FloatArray]) -> float:
    """Root mean square of log ratios (of no unit), each table and device counting alike."""
    return float(np.sqrt(np.mean([np.mean(each**2) for each in logs.values()])))


def refit() -> FittedFile:
    """The spread of every kind of kernel; outer folds leave a device out.

    Raises InputError where there are no public measurements.
    """
    folder = needed_folder()
    facts, outer, used = {}, [], 0
    for kind in TABLES:
        logs = differences(kind)
        facts[kind] = float(f"{SHARES[kind] * spread(logs):.2g}")
        outer.append(_outer(kind, logs))
        used += sum(map(len, logs.values()))
    names = sorted(f"{table}_perf.parquet" for tables in TABLES.values() for table in tables)
    paths = sorted(path for name in names for path in (folder / HOME).glob(f"*/*/*/*/{name}"))
    known = [path for path in paths if " ".join(path.parts[-3:-1]) in STACKS]
    files = {path.relative_to(folder).as_posix(): digest(path) for path in known}
    return FittedFile(LIBRARIES, files, used, {}, tuple(outer), NOTE, facts)


def _outer(kind: str, logs: Mapping[tuple[str, str], FloatArray]) -> OuterScore:
    """How the band of the other devices holds the differences on each."""
    devices = sorted({device for _, device in logs})
    errors, halves = [], []
    for device in devices:
        mine = np.concatenate([each for key, each in logs.items() if key[1] == device])
        others = {key: each for key, each in logs.items() if key[1] != device}
        errors.append(mine)
        halves.append(np.full(len(mine), quantile(LEVEL, None) * spread(others)))
    every, half = np.concatenate(errors), np.concatenate(halves)
    return OuterScore.of("device unseen", kind, len(devices), np.exp(every), np.ones(len(every)), half)
