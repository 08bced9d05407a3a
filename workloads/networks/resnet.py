"""Residual networks. Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, Table 1."""

from __future__ import annotations

from typing import Literal

from slipstick.common.expressions import symbol
from slipstick.common.readers import unknown_name
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape, Value

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def resnet(
    depth: int = 50,
    purpose: Literal["training", "inference"] = "training",
    image: int = 224,
    classes: int = 1000,
    optimizer: str = "momentum",
    dtype: str = "float32",
) -> Workload:
    """ResNet of a depth, its stride in the 3 x 3 convolutions (version 1.5, as frameworks ship it). Symbol: `batch`.

    Raises InputError where the depth is none of 18, 34, 50, 101, 152.
    """
    if depth not in BLOCKS:
        raise unknown_name("depth of ResNet", depth, [str(known) for known in BLOCKS])
    tape = NetworkTape(f"resnet{depth}", dtype)
    x = stages(tape, tape.input(symbol("batch"), 3, image, image), depth, purpose)[-1]
    scores = tape.dense("classifier", tape.global_average("pool", x), classes)
    return tape.classified(scores, purpose, optimizer, {"batch": 1}, batch=64)


def stages(
    tape: NetworkTape, x: Value, depth: int, purpose: Literal["training", "inference"] = "training"
) -> list[Value]:
    """The stem and the four stages on images x; what each stage hands on, first to last."""
    statistics = "batch" if purpose == "training" else "running"

    def unit(name: str, x: Value, channels: int, kernel: int, stride: int, *, activate: bool) -> Value:
        x = tape.convolution(name, x, channels, (kernel, kernel), stride, kernel // 2, bias=False)
        x = tape.norm(f"{name}.norm", x, "batch", statistics)
        return tape.elementwise(f"{name}.relu", "relu", x) if activate else x

    names = []
    x = unit("stem", x, 64, 7, 2, activate=True)
    x = tape.pool("stem.pool", x, 3, 2, 1)
    bottleneck = depth >= 50
    for stage, blocks in enumerate(BLOCKS[depth]):
        channels = 64 * 2**stage
        for block in range(blocks):
            name, stride = f"stage{stage + 1}.{block}", 2 if stage and not block else 1
            outputs = 4 * channels if bottleneck else channels
            if bottleneck:
                y = unit(f"{name}.reduce", x, channels, 1, 1, activate=True)
                y = unit(f"{name}.middle", y, channels, 3, stride, activate=True)
                y = unit(f"{name}.expand", y, outputs, 1, 1, activate=False)
            else:
                y = unit(f"{name}.first", x, channels, 3, stride, activate=True)
                y = unit(f"{name}.second", y, outputs, 3, 1, activate=False)
            if stride != 1 or x.shape[1] != outputs:
                x = unit(f"{name}.shortcut", x, outputs, 1, stride, activate=False)
            x = tape.elementwise(f"{name}.relu", "relu", tape.elementwise(f"{name}.add", "add", y, x))
        names.append(x)
    return names
