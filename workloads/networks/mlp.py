"""Multilayer perceptrons.

Source of the family: Wang, Wei, Brooks, "Benchmarking TPU, GPU, and CPU Platforms for Deep Learning", 2019 (ParaDnn).
"""

from __future__ import annotations

from typing import Literal

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape


def mlp(
    purpose: Literal["training", "inference"] = "training",
    layers: int = 4,
    width: int = 1024,
    inputs: int = 2000,
    outputs: int = 1000,
    optimizer: str = "sgd",
    dtype: str = "float32",
) -> Workload:
    """Hidden layers of equal width with ReLU, then a classifier: layers + 1 matrices. Symbol: `batch`.

    Raises InputError where a size is below 1.
    """
    for name, size in (("layers", layers), ("width", width), ("inputs", inputs), ("outputs", outputs)):
        if size < 1:
            raise InputError(f"mlp: {name} = {size}: want at least 1")
    tape = NetworkTape(f"mlp-{layers}x{width}", dtype)
    x = tape.input(symbol("batch"), inputs)
    for index in range(layers):
        x = tape.elementwise(f"hidden{index}.relu", "relu", tape.dense(f"hidden{index}", x, width))
    scores = tape.dense("classifier", x, outputs)
    return tape.classified(scores, purpose, optimizer, {"batch": 1}, batch=1024)
