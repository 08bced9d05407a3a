"""DCGAN as the Cloud TPU program trains it: generator and discriminator together on images of 32 or 28 pixels.

Source: Radford et al., "Unsupervised Representation Learning with Deep Convolutional Generative Adversarial Networks",
ICLR 2016; layers as in github.com/tensorflow/tpu, models/experimental/dcgan (commit 7dc921f).
"""

from __future__ import annotations

from typing import Literal

from slipstick.common.expressions import symbol
from slipstick.common.readers import unknown_name
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape, Value

IMAGES = {"cifar10": (32, 3), "mnist": (28, 1)}
NOISE = 64


def dcgan(data: Literal["cifar10", "mnist"] = "cifar10", dtype: str = "float32") -> Workload:
    """One joint training step: real and made images through the discriminator, gradients to both. Symbol: `batch`.

    The update of the discriminator is counted for the real and for the made images.
    Raises InputError where the data set is unknown.
    """
    if data not in IMAGES:
        raise unknown_name("data set of DCGAN", data, list(IMAGES))
    side, colours = IMAGES[data]
    batch = symbol("batch")
    tape = NetworkTape(f"dcgan-{data}", dtype)
    made = _generator(tape, batch, side, colours)
    judged = [_discriminator(tape, "made", made, side)]
    judged.append(_discriminator(tape, "real", tape.input(batch, colours, side, side), side))
    tape.elementwise("loss", "add", *judged)
    return tape.training("adam", batch=1024)


def _generator(tape: NetworkTape, batch: Amount, side: int, colours: int) -> Value:
    small = side // 8 if colours == 3 else side // 4
    channels = 256 if colours == 3 else 128
    x = tape.input(batch, NOISE)
    for index, width in enumerate(([] if colours == 3 else [1024]) + [channels * small**2]):
        x = tape.norm(f"generator.norm{index}", tape.dense(f"generator.dense{index}", x, width), "batch")
        x = tape.elementwise(f"generator.relu{index}", "relu", x)
    x = tape.view("generator.reshape", x, batch, channels, small, small)
    layers = [(128, 5), (64, 4)] if colours == 3 else [(64, 4)]
    for index, (width, kernel) in enumerate(layers):
        x = tape.transposed_convolution(f"generator.spread{index}", x, width, kernel, 2)
        x = tape.norm(f"generator.spread{index}.norm", x, "batch")
        x = tape.elementwise(f"generator.spread{index}.relu", "relu", x)
    return tape.elementwise("generator.tanh", "tanh", tape.transposed_convolution("generator.image", x, colours, 4, 2))


def _discriminator(tape: NetworkTape, which: str, x: Value, side: int) -> Value:
    widths, kernel = ((64, 128, 256), 5) if side == 32 else ((64, 128), 4)
    name = f"discriminator.{which}"
    for index, width in enumerate(widths):
        x = tape.convolution(f"{name}.fold{index}", x, width, (kernel, kernel), 2, (kernel - 1) // 2)
        x = tape.norm(f"{name}.fold{index}.norm", x, "batch") if index else x
        x = tape.elementwise(f"{name}.fold{index}.relu", "leaky_relu", x)
    flat = x.shape[1] * x.shape[2] * x.shape[3]
    x = tape.view(f"{name}.reshape", x, x.shape[0], flat)
    if side == 28:
        x = tape.norm(f"{name}.dense.norm", tape.dense(f"{name}.dense", x, 1024), "batch")
        x = tape.elementwise(f"{name}.dense.relu", "leaky_relu", x)
    return tape.dense(f"{name}.judge", x, 1)
