"""How far two kernel libraries differ on one device: ``python -m ...validation.gpu.library_spread`` (10 s).

The same calls on the same device, timed under two engines whose attention is another library's: SGLang 0.5.10
(FlashAttention 3 on Hopper, FlashAttention 2 on Ada, TensorRT-LLM's on Blackwell) and vLLM 0.22.0 (its FlashAttention,
FlashInfer and Triton on Blackwell). An answer that was fitted to one of them is off by the whole difference
where the other runs. `LIBRARY_SPREAD` of `estimators/tuned/tuned_devices.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.evidence.validation.gpu.gpu_data import ATTENTION_DIMS, GEMM_DIMS, aiconfigurator

if TYPE_CHECKING:
    from slipstick.estimators.core.lambdified import FloatArray

STACKS = ("sglang 0.5.10", "vllm 0.22.0")
TABLES = {"gemm": ("gemm",), "attention": ("generation_attention", "context_attention")}
OUTLIER = 1.5
"""Log ratios beyond are cut, as where the scatter of a device is estimated (`tuned_devices.LARGEST`)."""
INSIDE = 1.2816
"""Half of an 80 % band of a normal law, in standard deviations."""


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


def main() -> None:
    """Print the spread of every kind of kernel, and what a device's rows do in the spread of the others."""
    for kind in TABLES:
        logs = differences(kind)
        print(f"{kind}: {spread(logs):.2f}")
        for (table, device), each in logs.items():
            others = {key: one for key, one in logs.items() if key[1] != device}
            inside = np.mean(np.abs(each) <= INSIDE * spread(others))
            root = np.sqrt(np.mean(each**2))
            print(f"  {table}, {device}: {len(each)} calls, {root:.2f}; {inside:.2f} in the band of the other devices")


if __name__ == "__main__":
    main()
