"""TPUPoint's nine workloads (Table I) predicted: step time, idle and matrix share on v2 and v3, beside its averages.

The device's step is that of the calibrated TPU operations (fitted to fully connected networks on v2, here asked of
convolutions, of attention and of v3); the infeed link is the fitted one. What the paper does not give is assumed, and
said in `ASSUMED`. Elementwise work is fused with its neighbours; statistics of norms move bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import ceil

from slipstick.estimators.operation.tpu.tpu_step import TpuOperations
from slipstick.estimators.schedule.infeed import InfeedOverlap
from slipstick.experiments.evidence.papers.tpupoint.tpupoint_tables import TABLE_I
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.layers.single import convolution, gemm

CORES = 8
HOST_CORES = 16
"""Of the hosts (Section V): a 16-core Skylake."""
START = 60.0
"""Seconds of session start, compilation and checkpoints around a run, assumed."""
ASSUMED = (
    "assumed: networks as published (BERT-Base, length 128; QANet length 400), bfloat16 images, host work an example "
    "(5 ms of a core for a JPEG, 20 ms with boxes, 20 us for a record), 60 s of start around a run (30 to 120 s give "
    "mean idle shares of 25 to 41 % on v2, 38 to 51 % on v3)"
)


@dataclass(frozen=True)
class Program:
    """What a training step does: forward operations of one core's examples, parameters, and what the host hands in.

    `forward` takes examples a core; training does each product three times. `host` [s] of one core and `bytes` go
    over the infeed, an example; `passes` counts trained passes over the forward operations.
    """

    forward: Callable[[int], list[Op]]
    parameters: float
    host: float
    infeed: float
    passes: float = 3.0


@dataclass(frozen=True)
class Prediction:
    """Seconds of a step, of the device in it, of the host; shares of the step."""

    step: float
    device: float
    host: float
    matrix: float

    @property
    def idle(self) -> float:
        """Share of the step in which the device waits."""
        return 1 - self.device / self.step

    def over(self, steps: float) -> tuple[float, float]:
        """Idle and matrix share of a whole run of that many steps, its start included."""
        whole = START + steps * self.step
        return 1 - steps * self.device / whole, self.matrix * steps * self.step / whole


def predict(program: Program, batch: int, chip: str) -> Prediction:
    """A step of the whole batch on an eight-core TPU."""
    on, model, overlap = machine(f"tpu-{chip}-8"), TpuOperations(), InfeedOverlap()
    work = program.forward(ceil(batch / CORES))
    device = program.passes * sum(time * float(op.times) for time, op in zip(model.times(work, on), work, strict=True))
    learning = [
        operation(
            "sum",
            "collective",
            {"elements": program.parameters, "participants": CORES},
            "float32",
            {"function": "all_reduce"},
        ),
        operation("update", "optimizer", {"elements": program.parameters}, "float32", {"function": "adam"}),
    ]
    device += float(model.times(learning, on).sum())
    link = overlap.start + batch * program.infeed / model.feature_bandwidth
    step = max(device, link) + overlap.exposed * min(device, link)
    host = batch * program.host / HOST_CORES
    flop = program.passes * sum(float(op.cost.flop) * float(op.times) for op in work) * CORES
    step = max(step, host)
    return Prediction(step, min(device, step), host, flop / on.peak("matrix", "bfloat16") / step)


def _often(op: Op, times: int) -> Op:
    return replace(op, times=times)


def _conv(inputs: int, outputs: int, kernel: int, size: int, examples: int, times: int = 1, stride: int = 1) -> Op:
    """A square convolution of bfloat16 images whose output is `size` wide."""
    name = f"convolution {inputs} {outputs} {kernel} {size}"
    op = convolution(name, examples, inputs, outputs, (kernel, kernel), (size, size), stride, dtype="bfloat16")
    return _often(op, times)


def _encoder(examples: int, length: int, width: int, inner: int, heads: int, layers: int) -> list[Op]:
    """Layers of self-attention and feed-forward, as products."""
    tokens = examples * length
    return [
        _often(gemm("attention projections", width, tokens, width), 4 * layers),
        _often(gemm("attention scores", length, length, width // heads, batch=examples * heads), layers),
        _often(gemm("attention values", width // heads, length, length, batch=examples * heads), layers),
        _often(gemm("feed forward", inner, tokens, width), layers),
        _often(gemm("feed forward back", width, tokens, inner), layers),
    ]


def _bert(examples: int) -> list[Op]:
    return _encoder(examples, 128, 768, 3072, 12, 12)


def _residual(examples: int, image: int) -> list[Op]:
    """ResNet-50 (He et al., CVPR 2016, Table 1) and the traffic of its batch norms, read twice and written once."""
    found = [_conv(3, 64, 7, image // 2, examples, stride=2)]
    inputs, size = 64, max(1, image // 4)
    elements = 64 * (image // 2) ** 2
    for stage, blocks in enumerate((3, 4, 6, 3)):
        narrow, wide = 64 * 2**stage, 256 * 2**stage
        entering, size = size, size if stage == 0 else max(1, size // 2)  # the stride is in the 3 x 3
        found += [
            _conv(inputs, narrow, 1, entering, examples),
            _conv(wide, narrow, 1, size, examples, blocks - 1),
            _conv(narrow, narrow, 3, size, examples, blocks),
            _conv(narrow, wide, 1, size, examples, blocks),
            _conv(inputs, wide, 1, size, examples),
        ]
        elements += (blocks * (2 * narrow + wide) + wide) * size**2
        inputs = wide
    norms = operation(
        "norms", "norm", {"elements": examples * elements, "groups": 1}, "bfloat16", {"function": "batch"}
    )
    return [*found, norms]


def _retina(examples: int) -> list[Op]:
    """RetinaNet (Lin et al., ICCV 2017): ResNet-50, a pyramid of 256 channels, two towers of four, nine anchors."""
    pyramid = [_conv(256, 256, 3, size, examples) for size in (80, 40, 20)]
    pyramid += [_conv(inputs, 256, 1, size, examples) for inputs, size in ((512, 80), (1024, 40), (2048, 20))]
    heads = []
    for size in (80, 40, 20, 10, 5):
        heads += [_conv(256, 256, 3, size, examples, 8), _conv(256, 9 * 90, 3, size, examples)]
        heads.append(_conv(256, 9 * 4, 3, size, examples))
    return [*_residual(examples, 640), *pyramid, *heads]


def _dcgan(examples: int, image: int, colours: int) -> list[Op]:
    """Generator and discriminator of three strided convolutions (Radford et al., ICLR 2016); real and made images."""
    half, quarter, eighth = image // 2, image // 4, max(1, image // 8)
    one = [
        _conv(colours, 64, 5, half, examples, stride=2),
        _conv(64, 128, 5, quarter, examples, stride=2),
        _conv(128, 256, 5, eighth, examples, stride=2),
    ]
    return [_often(op, 3) for op in one]


def _qanet(examples: int) -> list[Op]:
    """QANet (Yu et al., ICLR 2018): width 128, eight heads; one embedding block, three stacks of seven blocks."""
    length, width = 400, 128
    blocks = _encoder(examples, length, width, width, 8, 22)
    convolutions = _often(gemm("separable convolution", width, examples * length, width), 4 + 2 * 21)
    return [*blocks, convolutions]


def _programs() -> dict[tuple[str, str], Program]:
    text = {"host": 20e-6, "infeed": 128 * 3 * 4}
    found = {("BERT", data): Program(_bert, 109.5e6, **text) for data in ("MRPC", "SQuAD", "CoLA", "MNLI")}
    found["DCGAN", "CIFAR10"] = Program(lambda n: _dcgan(n, 32, 3), 4e6, 20e-6, 32 * 32 * 3 * 4)
    found["DCGAN", "MNIST"] = Program(lambda n: _dcgan(n, 28, 1), 4e6, 20e-6, 28 * 28 * 4)
    found["QANet", "SQuAD"] = Program(_qanet, 1.3e6, 100e-6, 450 * 17 * 4)
    found["RetinaNet", "COCO"] = Program(_retina, 34e6, 20e-3, 640 * 640 * 3 * 2)
    found["ResNet-50", "ImageNet"] = Program(lambda n: _residual(n, 224), 25.6e6, 5e-3, 224 * 224 * 3 * 2)
    found["ResNet-50", "CIFAR10"] = Program(lambda n: _residual(n, 32), 25.6e6, 20e-6, 32 * 32 * 3 * 2)
    return found


@cache
def predictions(chip: str) -> dict[tuple[str, str], Prediction]:
    """The workloads of Table I, and ResNet-50 on CIFAR10, on a chip."""
    batches = {each.model: each.batch for each in TABLE_I}
    return {key: predict(program, batches[key[0]], chip) for key, program in _programs().items()}
