"""A training step of a language model as a workload: what a batch of sequences computes, whatever trains it where.

The operations are those of one step on one device that holds all: every sequence forward, and backward with twice the
work (gradients of inputs and of weights). How many devices share it is the run's matter. Symbols: `batch`, `seq_len`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

from slipstick.common.expressions import symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, content_digest
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Attribute, Workload
from slipstick.workloads.graph.workload_kind import WORK
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.language_step import language_step, on_one_device
from slipstick.workloads.language.training_layout import RECOMPUTE

SIZES = FrozenDict(batch=64.0, seq_len=8192.0)
"""Sequences of a step and tokens of one, where none are given."""
PRECISIONS = ("bf16", "fp8", "mxfp8", "nvfp4")
"""Types of the layers' products; the attention's core and the head stay in bfloat16."""
SPELLINGS = {"bfloat16": "bf16", "float8": "fp8", "fp8_e4m3": "fp8", "fp4": "nvfp4", "float4": "nvfp4"}
SHARED_OUT = ("none", "optimizer", "gradients", "parameters")
"""What data ranks share out, in words (ZeRO stages 0 to 3)."""


@dataclass(frozen=True, repr=False)
class Training(Workload):
    """A step of training a language model.

    `model`: shapes of the language model.
    `sizes`: `batch` and `seq_len`, of those that were bound.
    """

    model: LanguageModel = field(kw_only=True)
    sizes: FrozenDict[float] = field(default=FrozenDict(), kw_only=True)

    @property
    def precision(self) -> str:
        """Of the layers' products, one of `PRECISIONS`."""
        return str(self.metadata["training"])

    @cached_property
    def identity(self) -> str:
        """Digest of what is trained: the operations of a step, and the model."""
        return content_digest([super().identity, self.model])

    def bind_known(self, values: Mapping[str, Amount]) -> Self:
        """As `Workload.bind_known`; the sizes are kept, since a layout divides them."""
        known = {name: float(value) for name, value in values.items() if name in SIZES and name in self.symbols}
        return super().bind_known(values)._with(sizes=FrozenDict({**self.sizes, **known}))

    def trained_in(self, dtype: str) -> Training:
        """The same with the layers' products in another type ("bf16", "fp8", "mxfp8", "nvfp4").

        Raises InputError where training has no such type.
        """
        made = training_of(self.model, dtype)
        return replace(made.bind_known(self.sizes), name=self.name)


def training_of(model: LanguageModel, precision: str = "bf16") -> Training:
    """A step of training `model`, a workload whose operations are those of a whole batch.

    `precision`: of the layers' products, one of `PRECISIONS`.
    Raises InputError where training has no such type.

    Examples
    --------
    >>> from slipstick.workloads.language_catalog import language_model
    >>> step = training_of(language_model("llama-3.1-8b")).bind(batch=1, seq_len=8192)
    >>> round(step.cost.flop / 8192 / 1e9, 1)  # about six flop a weight and token, and the attention
    51.5
    """
    kind = SPELLINGS.get(precision.lower(), precision.lower())
    if kind not in PRECISIONS:
        raise unknown_name("data type of training", precision, PRECISIONS)
    batch, length = symbol("batch"), symbol("seq_len")
    read = {"decodes": 0, "context": 1, "past": 0, "prompt": length, "chunk": length, "finished": length}
    forward = on_one_device(language_step(model, kind)).bind_known(read)
    kept = [op for op in forward if not op.name.endswith(".decode")]
    operations = tuple(
        replace(op, name=f"{phase}.{op.name}", times=op.times * batch * again)
        for phase, again, ordered in (("forward", 1, kept), ("backward", 2, kept[::-1]))
        for op in ordered
    )
    edges = tuple(pairwise(op.name for op in operations))
    facts: FrozenDict[Attribute] = FrozenDict(
        {
            "parameters": float(model.parameters),
            "network": model.name,
            "stands_for": model.stands_for,
            WORK: "training",
            "training": kind,
            "words.recompute": RECOMPUTE,
            "words.shard": SHARED_OUT,
        }
    )
    return Training(model.name, operations, edges, SIZES, facts, model=model)
