"""The nine runs of TPUPoint's Table I as workloads: network, data type, feed, and the numbers of the run.

Source: Wudenhe and Tseng, "TPUPoint", ISPASS 2021, Table I; what it leaves out is that of the programs' defaults in
github.com/tensorflow/tpu (commit 7dc921f) and github.com/google-research/bert: checkpoints every 1,000 steps (BERT) or
ten minutes, DCGAN trains and generates in turns of 1,000 steps, ResNet-50 trains and evaluates in turns of 1,251.

DCGAN as the Cloud TPU program trains it: generator and discriminator together on images of 32 or 28 pixels.

Source: Radford et al., "Unsupervised Representation Learning with Deep Convolutional Generative Adversarial Networks",
ICLR 2016; layers as in github.com/tensorflow/tpu, models/experimental/dcgan (commit 7dc921f).

QANet as the Cloud TPU program trains it: its word vectors come from the host.

Source: Yu et al., "QANet", ICLR 2018; sizes as in github.com/tensorflow/tpu, models/experimental/qanet (commit 8251163,
the last that has it): width 128, four heads, kernels of 7, an embedding block for text and question, four model blocks.

RetinaNet on ResNet-50: a pyramid of 256 channels, two towers of four convolutions, nine anchors a place.

Sources: Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017; sizes as in github.com/tensorflow/tpu,
models/official/retinanet (commit 7dc921f): images of 640 pixels, 90 classes, levels 3 to 7, a batch norm a level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Literal

from slipstick.common.expressions import symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.tape import NetworkTape, Value
from slipstick.workloads.networks import resnet, transformer
from slipstick.workloads.networks.resnet import stages
from slipstick.workloads.networks.tpu_programs import feeds
from slipstick.workloads.runs.feed import Feed, for_run, with_feed
from slipstick.workloads.transforms.dtype import in_dtype

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


WIDTH, HEADS, KERNEL, VECTOR = 128, 4, 7, 300


def qanet(dtype: str = "float32") -> Workload:
    """One training step. Symbols: `batch`, `seq_len` (of text and of question, both padded to it)."""
    batch, length = symbol("batch"), symbol("seq_len")
    tape = NetworkTape("qanet", dtype)
    text, question = (_block(tape, name, tape.input(batch, length, VECTOR), 4) for name in ("text", "question"))
    square = (batch, length, length)
    scores = tape.batched_product("match.scores", text, question, length, WIDTH, length, square)
    of_text = tape.batched_product(
        "match.text", tape.softmax("match.softmax", scores), question, length, length, WIDTH, text.shape
    )
    other = tape.softmax("match.softmax_question", scores)
    of_question = tape.batched_product("match.question", other, text, length, length, WIDTH, text.shape)
    products = [tape.elementwise(f"match.mul{i}", "mul", text, each) for i, each in enumerate((of_text, of_question))]
    x = tape.concatenate("match.all", text, of_text, *products)
    made = []
    for index in range(4):
        x = _block(tape, f"model{index}", x, 2)
        made.append(x)
    ends = [
        tape.dense(f"answer.{name}", tape.concatenate(f"answer.{name}.both", made[1], made[i]), 1)
        for name, i in (("begin", 2), ("end", 3))
    ]
    tape.loss("loss", tape.view("answer.reshape", tape.elementwise("answer.add", "add", *ends), batch, length))
    return tape.training("adam", batch=32, seq_len=256)


def _block(tape: NetworkTape, name: str, x: Value, convolutions: int) -> Value:
    """Separable convolutions, self-attention and feed forward, each behind a norm and beside a shortcut."""
    batch, length, width = x.shape
    if width != WIDTH:
        x = tape.dense(f"{name}.project", x, WIDTH)
    for index in range(convolutions):
        part = f"{name}.convolution{index}"
        y = tape.norm(f"{part}.norm", x, "layer")
        y = tape.view(f"{part}.image", y, batch, WIDTH, length, 1)
        y = tape.convolution(f"{part}.each", y, WIDTH, (KERNEL, 1), 1, (KERNEL // 2, 0), WIDTH, bias=False)
        y = tape.convolution(f"{part}.across", y, WIDTH, (1, 1))
        y = tape.elementwise(f"{part}.relu", "relu", tape.view(f"{part}.sequence", y, batch, length, WIDTH))
        x = tape.elementwise(f"{part}.add", "add", y, x)
    y = _attention(tape, f"{name}.attention", tape.norm(f"{name}.attention.norm", x, "layer"), batch, length)
    x = tape.elementwise(f"{name}.attention.add", "add", y, x)
    y = tape.norm(f"{name}.feed_forward.norm", x, "layer")
    y = tape.elementwise(f"{name}.feed_forward.relu", "relu", tape.dense(f"{name}.feed_forward.up", y, 2 * WIDTH))
    x = tape.elementwise(f"{name}.feed_forward.add", "add", tape.dense(f"{name}.feed_forward.down", y, WIDTH), x)
    return tape.norm(f"{name}.norm", x, "layer")


def _attention(tape: NetworkTape, name: str, x: Value, batch: Amount, length: Amount) -> Value:
    size, square = WIDTH // HEADS, (batch * HEADS, length, length)
    query, key, value = (
        tape.view(
            f"{name}.{part}.heads", tape.dense(f"{name}.{part}", x, WIDTH, bias=False), batch * HEADS, length, size
        )
        for part in ("query", "key", "value")
    )
    scores = tape.batched_product(f"{name}.scores", query, key, length, size, length, square)
    weights = tape.softmax(f"{name}.softmax", tape.elementwise(f"{name}.mask", "add", scores))
    mixed = tape.batched_product(f"{name}.mix", weights, value, length, length, size, (batch * HEADS, length, size))
    return tape.dense(f"{name}.output", tape.view(f"{name}.merge", mixed, batch, length, WIDTH), WIDTH, bias=False)


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


EXAMPLES = {"mrpc": 3_668, "squad": 87_599, "cola": 8_551, "mnli": 392_702}
"""Training examples (GLUE; SQuAD 1.1)."""
EPOCHS, BERT_BATCH = 3, 32
SAVED_EVERY = 1_000


@dataclass(frozen=True)
class TpuProgram:
    """A run of Table I: how its network is built, its global batch, what feeds it, and the numbers of the run."""

    build: Callable[[], Workload]
    batch: int
    feed: Feed
    run: FrozenDict[float]
    sizes: FrozenDict[float] = FrozenDict()
    dtype: str | None = None

    def workload(self, name: str) -> Workload:
        """The run as a workload of that name; its batch is open, with the run's as default."""
        plain = self.build()
        plain = in_dtype(plain, self.dtype) if self.dtype else plain
        defaults = FrozenDict({**plain.defaults, **self.sizes, "batch": float(self.batch)})
        return for_run(with_feed(replace(plain, name=name, defaults=defaults), self.feed), **self.run)


def _bert(data: str) -> TpuProgram:
    steps = int(EXAMPLES[data] / BERT_BATCH * EPOCHS)
    build = partial(transformer.bert, head="spans" if data == "squad" else "classes")
    run = FrozenDict[float](steps=steps, sessions=1, checkpoints=1 + steps // SAVED_EVERY)
    return TpuProgram(build, BERT_BATCH, feeds.TOKENS, run, FrozenDict(seq_len=128.0))


def _dcgan(data: str, feed: Feed) -> TpuProgram:
    run = FrozenDict[float](steps=10_000, sessions=10, evaluations=10, evaluation_steps=1, checkpoints=10)
    return TpuProgram(partial(dcgan, "mnist" if data == "mnist" else "cifar10"), 1024, feed, run)


_RESNET = FrozenDict[float](
    steps=112_590, sessions=90, evaluations=90, evaluation_steps=ceil(50_000 / 1024), checkpoints=90
)

PROGRAMS = {
    **{f"tpupoint-bert-{data}": _bert(data) for data in EXAMPLES},
    "tpupoint-dcgan-cifar10": _dcgan("cifar10", feeds.CIFAR10),
    "tpupoint-dcgan-mnist": _dcgan("mnist", feeds.MNIST),
    "tpupoint-qanet-squad": TpuProgram(
        qanet, 32, feeds.VECTORS, FrozenDict(steps=100_000, sessions=5, checkpoints=5), FrozenDict(seq_len=256.0)
    ),
    "tpupoint-retinanet-coco": TpuProgram(
        retinanet, 64, feeds.COCO, FrozenDict(steps=28_125, sessions=1, checkpoints=18), dtype="bfloat16"
    ),
    "tpupoint-resnet50-imagenet": TpuProgram(
        partial(resnet.resnet, 50), 1024, feeds.IMAGENET, _RESNET, dtype="bfloat16"
    ),
}
"""By their names in the catalogue."""


def program(name: str) -> Workload:
    """A run of Table I by its name in the catalogue."""
    return PROGRAMS[name].workload(name)
