"""RetinaNet on ResNet-50: a pyramid of 256 channels, two towers of four convolutions, nine anchors a place.

Sources: Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017; sizes as in github.com/tensorflow/tpu,
models/official/retinanet (commit 7dc921f): images of 640 pixels, 90 classes, levels 3 to 7, a batch norm a level.
"""

from __future__ import annotations

from slipstick.common.expressions import symbol
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape, Value
from slipstick.workloads.networks.resnet import stages

CHANNELS, ANCHORS = 256, 9


def retinanet(image: int = 640, classes: int = 90, dtype: str = "float32") -> Workload:
    """One training step. Symbol: `batch`."""
    tape = NetworkTape("retinanet", dtype)
    features = stages(tape, tape.input(symbol("batch"), 3, image, image), 50)
    levels = _pyramid(tape, features[1:])
    outputs = []
    for tower, width in (("classes", ANCHORS * classes), ("boxes", ANCHORS * 4)):
        for level, x in enumerate(levels):
            outputs.append(_tower(tape, tower, level, x, width))
    tape.elementwise("loss", "focal", *outputs)
    return tape.training("momentum", batch=64)


def _pyramid(tape: NetworkTape, features: list[Value]) -> list[Value]:
    """Levels 3 to 5 from the top down, each the sum of its feature and the coarser level; 6 and 7 by strides."""
    sides = [tape.convolution(f"side{i}", x, CHANNELS, (1, 1)) for i, x in enumerate(features)]
    merged = [sides[-1]]
    for i, side in reversed(list(enumerate(sides[:-1]))):
        merged.insert(0, tape.elementwise(f"merge{i}", "add", side, merged[0]))
    levels = [tape.convolution(f"level{i}", x, CHANNELS, (3, 3), 1, 1) for i, x in enumerate(merged)]
    for i in (3, 4):
        levels.append(tape.convolution(f"level{i}", features[-1] if i == 3 else levels[-1], CHANNELS, (3, 3), 2, 1))
    return levels


def _tower(tape: NetworkTape, tower: str, level: int, x: Value, width: int) -> Value:
    """Four convolutions and the output; weights are shared among the levels, so the first alone has them."""
    for index in range(4):
        name = f"{tower}{level}.{index}"
        x = tape.convolution(name, x, CHANNELS, (3, 3), 1, 1)
        if level:
            tape.parameters.pop(name)
        x = tape.elementwise(f"{name}.relu", "relu", tape.norm(f"{name}.norm", x, "batch"))
    name = f"{tower}{level}.output"
    x = tape.convolution(name, x, width, (3, 3), 1, 1)
    if level:
        tape.parameters.pop(name)
    return x
