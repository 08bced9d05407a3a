"""The nine runs of TPUPoint's Table I as workloads: network, data type, feed, and the numbers of the run.

Source: Wudenhe and Tseng, "TPUPoint", ISPASS 2021, Table I; what it leaves out is that of the programs' defaults in
github.com/tensorflow/tpu (commit 7dc921f) and github.com/google-research/bert: checkpoints every 1,000 steps (BERT) or
ten minutes, DCGAN trains and generates in turns of 1,000 steps, ResNet-50 trains and evaluates in turns of 1,251.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from slipstick.common.records import Table
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.networks import resnet, transformer
from slipstick.workloads.networks.tpu_programs import dcgan, feeds, qanet, retinanet
from slipstick.workloads.runs.feed import Feed, fed, for_run
from slipstick.workloads.transforms.dtype import in_dtype

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
    run: Table[float]
    sizes: Table[float] = Table()
    dtype: str | None = None

    def workload(self, name: str) -> Workload:
        """The run as a workload of that name; its batch is open, with the run's as default."""
        plain = self.build()
        plain = in_dtype(plain, self.dtype) if self.dtype else plain
        defaults = Table({**plain.defaults, **self.sizes, "batch": float(self.batch)})
        return for_run(fed(replace(plain, name=name, defaults=defaults), self.feed), **self.run)


def _bert(data: str) -> TpuProgram:
    steps = int(EXAMPLES[data] / BERT_BATCH * EPOCHS)
    build = partial(transformer.bert, head="spans" if data == "squad" else "classes")
    run = Table[float](steps=steps, sessions=1, checkpoints=1 + steps // SAVED_EVERY)
    return TpuProgram(build, BERT_BATCH, feeds.TOKENS, run, Table(seq_len=128.0))


def _dcgan(data: str, feed: Feed) -> TpuProgram:
    run = Table[float](steps=10_000, sessions=10, evaluations=10, evaluation_steps=1, checkpoints=10)
    return TpuProgram(partial(dcgan.dcgan, "mnist" if data == "mnist" else "cifar10"), 1024, feed, run)


_RESNET = Table[float](steps=112_590, sessions=90, evaluations=90, evaluation_steps=ceil(50_000 / 1024), checkpoints=90)

PROGRAMS = {
    **{f"tpupoint-bert-{data}": _bert(data) for data in EXAMPLES},
    "tpupoint-dcgan-cifar10": _dcgan("cifar10", feeds.CIFAR10),
    "tpupoint-dcgan-mnist": _dcgan("mnist", feeds.MNIST),
    "tpupoint-qanet-squad": TpuProgram(
        qanet.qanet, 32, feeds.VECTORS, Table(steps=100_000, sessions=5, checkpoints=5), Table(seq_len=256.0)
    ),
    "tpupoint-retinanet-coco": TpuProgram(
        retinanet.retinanet, 64, feeds.COCO, Table(steps=28_125, sessions=1, checkpoints=18), dtype="bfloat16"
    ),
    "tpupoint-resnet50-imagenet": TpuProgram(
        partial(resnet.resnet, 50), 1024, feeds.IMAGENET, _RESNET, dtype="bfloat16"
    ),
}
"""By their names in the catalogue."""


def program(name: str) -> Workload:
    """A run of Table I by its name in the catalogue."""
    return PROGRAMS[name].workload(name)
