"""VGG networks. Source: Simonyan and Zisserman, "Very Deep Convolutional Networks", ICLR 2015, Table 1."""

from __future__ import annotations

from typing import Literal

from slipstick.common.expressions import symbol
from slipstick.common.readers import unknown_name
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape

CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(
    depth: int = 16,
    purpose: Literal["training", "inference"] = "training",
    image: int = 224,
    classes: int = 1000,
    optimizer: str = "momentum",
    dtype: str = "float32",
) -> Workload:
    """VGG of a depth, without batch norm. Symbol: `batch`.

    Raises InputError where the depth is none of 11, 13, 16, 19.
    """
    if depth not in CONVOLUTIONS:
        raise unknown_name("depth of VGG", depth, [str(known) for known in CONVOLUTIONS])
    batch = symbol("batch")
    tape = NetworkTape(f"vgg{depth}", dtype)
    x = tape.input(batch, 3, image, image)
    for stage, (count, channels) in enumerate(zip(CONVOLUTIONS[depth], (64, 128, 256, 512, 512), strict=True), 1):
        for index in range(1, count + 1):
            name = f"convolution{stage}_{index}"
            x = tape.elementwise(f"{name}.relu", "relu", tape.convolution(name, x, channels, (3, 3), padding=1))
        x = tape.pool(f"pool{stage}", x, 2, 2)
    x = tape.view("flatten", x, batch, x.shape[1] * x.shape[2] * x.shape[3])
    for index in (1, 2):
        x = tape.elementwise(f"dense{index}.relu", "relu", tape.dense(f"dense{index}", x, 4096))
    scores = tape.dense("classifier", x, classes)
    return tape.classified(scores, purpose, optimizer, {"batch": 1}, batch=64)
