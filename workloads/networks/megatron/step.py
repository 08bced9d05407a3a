"""One device's share of a training iteration of a GPT under data, tensor, sequence and pipeline parallelism.

The layers are Megatron's: fused attention softmax, fused bias and GELU, fused bias, dropout and residual, vocabulary
cut over the tensor-parallel group, mixed precision with gradients and optimizer in float32. The operations are those of
one device of the pipeline, each as often as it runs in an iteration, so every number of the run is a symbol:
`tensor_parallel`, `pipeline_parallel`, `data_parallel`, `microbatch` (sequences at a time), `batch` (sequences an
iteration, all devices together), `interleave` (model chunks a device), `recompute` (1 none, 2 selective: the
attention's core, 3 full), `sequence_parallel` and `overlap_gradients` (1 off, 2 on), `shard` (what replicas share
out: 1 nothing, 2 optimizer states, 3 gradients too, 4 parameters too).

Sources: Shoeybi et al., arXiv 1909.08053; Narayanan et al., SC 2021, arXiv 2104.04473 (pipeline, interleaving);
Korthikanti et al., arXiv 2205.05198 (sequence parallelism, recomputation, activation memory; sizes in its Table 3).

The operations of one device of many that train a GPT, as Megatron writes its layers.

Sources: Shoeybi et al., arXiv 1909.08053; Korthikanti et al., arXiv 2205.05198; Rajbhandari et al., arXiv 1910.02054.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.expressions import expression_text, sp
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.graph.workload_kind import WORK
from slipstick.workloads.networks.megatron.layout import (
    GRADIENTS,
    ON,
    OPTIMIZER,
    PARAMETERS,
    SELECTIVE,
    UNSHARDED,
    WORDS,
    MegatronLayout,
    sharded,
)
from slipstick.workloads.transforms.parallel import expanded

LOSS_READS, LOSS_WRITES = 17, 13
"""Half-precision elements that the loss reads and writes for each logit: it works in float32, pass by pass."""


@dataclass
class DeviceOperations:
    """Operations of one device; `lane` says which part of the schedule each belongs to."""

    layout: MegatronLayout
    operations: list[Op] = field(default_factory=list)

    def add(
        self, name: str, kind: str, dims: dict[str, Any], lane: str, times: Amount, dtype: str = "float16", **facts: Any
    ) -> None:
        """One operation, `times` a step; its dims count elements."""
        self.operations.append(operation(name, kind, dims, dtype, {"lane": lane, **facts}, times=times))

    def product(self, name: str, lane: str, times: Amount, m: Amount, n: Amount, k: Amount, batch: Amount = 1) -> None:
        """A matrix product (m, k) x (k, n), `batch` of them, `times` a step."""
        self.add(name, "gemm", {"batch": batch, "m": m, "n": n, "k": k}, lane, times)

    def elementwise(
        self,
        name: str,
        lane: str,
        times: Amount,
        elements: Amount,
        reads: float,
        writes: float,
        function: str = "add",
        dtype: str = "float16",
    ) -> None:
        """An operation that reads `reads` and writes `writes` elements for each of its elements; the dtype says bytes
        an element.
        """
        dims = {"elements": elements, "reads": reads * elements, "writes": writes * elements}
        self.add(name, "elementwise", dims, lane, times, dtype, function=function)

    def collective(self, name: str, lane: str, times: Amount, function: str, elements: Amount) -> None:
        """A collective over the tensor-parallel group, of so many elements a device, `times` a step."""
        dims = {"elements": elements, "participants": self.layout.tensor}
        self.add(name, "collective", dims, lane, times, function=function)

    def layer_forward(self) -> None:
        """Forward of all own layers, and what of it is done again before the backward pass."""
        for phase, all_times, core_times in (
            ("forward", self.layout.runs, self.layout.runs),
            ("recompute", self.layout.runs * self.layout.full, self.layout.runs * self.layout.core_again),
        ):
            self._layer_forward(f"layer.{phase}", all_times, core_times)

    def _layer_forward(self, at: str, times: Amount, core_times: Amount) -> None:
        h, t, lane = self.layout.width, self.layout.tensor, "layer"
        for name in ("attention", "mlp"):
            self.norm(f"{at}.{name}.norm", lane, times)
            self.collective(
                f"{at}.{name}.all_gather", "tensor", times * self.layout.sequence, "all_gather", self.layout.hidden
            )
            self.collective(
                f"{at}.{name}.all_reduce",
                "tensor",
                times * (1 - self.layout.sequence),
                "all_reduce",
                self.layout.hidden,
            )
            scattered = times * self.layout.sequence
            self.collective(f"{at}.{name}.reduce_scatter", "tensor", scattered, "reduce_scatter", self.layout.hidden)
            self.elementwise(f"{at}.{name}.bias_dropout_add", lane, times, self.layout.local, 2, 1.5, "native_dropout")
        self.product(f"{at}.query_key_value", lane, times, 3 * h / t, self.layout.tokens, h)
        self.elementwise(f"{at}.query_key_value.bias", lane, times, 3 * self.layout.hidden / t, 1, 1)
        size, pairs = h // self.layout.heads, self.layout.micro * self.layout.heads / t
        self.product(f"{at}.scores", lane, core_times, self.layout.seq_len, self.layout.seq_len, size, pairs)
        rows = {"rows": self.layout.scores / self.layout.seq_len, "columns": self.layout.seq_len}
        self.add(f"{at}.softmax", "softmax", rows, lane, core_times, function="softmax")
        self.elementwise(f"{at}.softmax.dropout", lane, core_times, self.layout.scores, 1, 1.5, "native_dropout")
        self.product(f"{at}.mix", lane, core_times, size, self.layout.seq_len, self.layout.seq_len, pairs)
        self.move(f"{at}.mix.merge", lane, times, self.layout.hidden / t)
        self.product(f"{at}.projection", lane, times, h, self.layout.tokens, h / t)
        self.product(f"{at}.up", lane, times, 4 * h / t, self.layout.tokens, h)
        self.elementwise(f"{at}.bias_gelu", lane, times, 4 * self.layout.hidden / t, 1, 1, "gelu")
        self.product(f"{at}.down", lane, times, h, self.layout.tokens, 4 * h / t)

    def layer_backward(self) -> None:
        """Backward of all own layers; collectives beside gradients of weights or inputs have lanes of their own."""
        h, t, lane, at, times = self.layout.width, self.layout.tensor, "layer", "layer.backward", self.layout.runs
        plain, split = times * (1 - self.layout.sequence), times * self.layout.sequence
        for name, m in (("query_key_value", 3 * h / t), ("up", 4 * h / t)):
            # What all devices of the group hold the input of: columns of the weights are cut.
            self.product(f"{at}.{name}.input", "input_gradient", times, h, self.layout.tokens, m)
            self.product(f"{at}.{name}.weight", "weight_gradient", times, m, h, self.layout.tokens)
            self.collective(f"{at}.{name}.all_gather", "beside_input", split, "all_gather", self.layout.hidden)
            self.collective(f"{at}.{name}.all_reduce", "beside_weight", plain, "all_reduce", self.layout.hidden)
            self.collective(f"{at}.{name}.reduce_scatter", "beside_weight", split, "reduce_scatter", self.layout.hidden)
        for name, k in (("projection", h / t), ("down", 4 * h / t)):
            self.elementwise(f"{at}.{name}.dropout", lane, times, self.layout.local, 1.5, 1, "native_dropout_backward")
            self.reduce(f"{at}.{name}.bias", lane, times, self.layout.local, h)
            self.collective(f"{at}.{name}.all_gather", "tensor", split, "all_gather", self.layout.hidden)
            self.product(f"{at}.{name}.input", lane, times, k, self.layout.tokens, h)
            self.product(f"{at}.{name}.weight", lane, times, h, k, self.layout.tokens)
            self.norm(f"{at}.{name}.norm", lane, times, "backward")
            self.elementwise(f"{at}.{name}.residual", lane, times, self.layout.local, 2, 1)
        self.elementwise(f"{at}.gelu", lane, times, 4 * self.layout.hidden / t, 2, 1, "gelu_backward")
        self.reduce(f"{at}.up.bias", lane, times, 4 * self.layout.hidden / t, 4 * h / t)
        size, pairs, s = h // self.layout.heads, self.layout.micro * self.layout.heads / t, self.layout.seq_len
        self.move(f"{at}.mix.merge", lane, times, self.layout.hidden / t)
        self.product(f"{at}.mix.scores", lane, times, s, s, size, pairs)
        self.product(f"{at}.mix.values", lane, times, size, s, s, pairs)
        self.elementwise(f"{at}.softmax.dropout", lane, times, self.layout.scores, 1.5, 1, "native_dropout_backward")
        rows = {"rows": self.layout.scores / s, "columns": s}
        self.add(f"{at}.softmax", "softmax", rows, lane, times, function="softmax", **{"pass": "backward"})
        for part in ("queries", "keys"):
            self.product(f"{at}.scores.{part}", lane, times, size, s, s, pairs)
        self.move(f"{at}.query_key_value.join", lane, times, 3 * self.layout.hidden / t)
        self.reduce(f"{at}.query_key_value.bias", lane, times, 3 * self.layout.hidden / t, 3 * h / t)

    def ends(self) -> None:
        """What the first and the last stage do besides: words looked up, words scored."""
        h, t, rounds = self.layout.width, self.layout.tensor, self.layout.rounds
        words = sp.Integer(self.layout.vocabulary) / t
        for phase in ("forward", "backward"):
            facts = {"function": "scatter"} if phase == "backward" else {}
            dims = {"rows": self.layout.tokens, "width": h}
            self.add(f"embedding.{phase}", "gather", dims, "embedding", rounds, **facts)
            self.elementwise(
                f"embedding.{phase}.dropout", "embedding", rounds, self.layout.local, 2, 1.5, "native_dropout"
            )
            self.norm(f"head.{phase}.norm", "head", rounds, phase)
            self.collective(
                f"head.{phase}.all_gather", "head", rounds * self.layout.sequence, "all_gather", self.layout.hidden
            )
        self.collective("embedding.all_reduce", "embedding", rounds, "all_reduce", self.layout.hidden)
        summed = rounds * (1 - self.layout.sequence)
        self.collective("head.backward.all_reduce", "head", summed, "all_reduce", self.layout.hidden)
        scattered = rounds * self.layout.sequence
        self.collective("head.backward.reduce_scatter", "head", scattered, "reduce_scatter", self.layout.hidden)
        self.product("head.words", "head", rounds, words, self.layout.tokens, h)
        self.product("head.words.input", "head", rounds, h, self.layout.tokens, words)
        self.product("head.words.weight", "head", rounds, words, h, self.layout.tokens)
        self.elementwise("head.loss", "head", rounds, words * self.layout.tokens, LOSS_READS, LOSS_WRITES, "exp")

    def between_devices(self) -> None:
        """Activations between stages, gradients between replicas, and those of the words that both ends share."""
        t, apart = self.layout.tensor, self.layout.tensor * self.layout.replicas
        pair = sp.Min(2, self.layout.stages)
        several = sp.Min(1, self.layout.stages - 1)
        crossings = 2 * self.layout.rounds * self.layout.chunks * several
        far = {"participants": pair, "stride": apart, "sharing": t}
        # Each device sends its part; without sequence parallelism the receivers gather the whole.
        part = {"elements": self.layout.hidden / t, **far}
        self.add("stage.send", "collective", part, "transfer", crossings, function="send_recv")
        whole = crossings * (1 - self.layout.sequence)
        self.collective("stage.all_gather", "transfer", whole, "all_gather", self.layout.hidden)
        words = {"elements": self.layout.vocabulary * self.layout.width / t, **far}
        self.add("embedding.tied", "collective", words, "tied", several, "float32", function="all_reduce")
        self.between_replicas()

    def between_replicas(self) -> None:
        """Gradients summed and weights gathered, by what replicas share out (Rajbhandari et al., section 7).

        Optimizer states: gradients are scattered once, new weights gathered once. Gradients too: they are scattered
        after every microbatch. Parameters too: weights are gathered before the forward and before the backward pass
        of every microbatch, and none after the update.
        """
        states, gradients, weights = (sharded(self.layout.shard, level) for level in (OPTIMIZER, GRADIENTS, PARAMETERS))
        t, rounds = self.layout.tensor, self.layout.rounds
        dims = {"elements": self.layout.parameters, "participants": self.layout.replicas, "stride": t, "sharing": t}
        for name, lane, times, function in (
            ("gradients.all_reduce", "data", 1 - states, "all_reduce"),
            ("gradients.reduce_scatter", "data", states - gradients, "reduce_scatter"),
            ("gradients.each.reduce_scatter", "data_each", gradients * rounds, "reduce_scatter"),
            ("weights.all_gather", "gathered", states - weights, "all_gather"),
            ("weights.each.all_gather", "weights_each", 2 * weights * rounds, "all_gather"),
        ):
            dtype = "float32" if name.startswith("gradients") else "float16"
            self.add(name, "collective", dims, lane, times, dtype, function=function)

    def update(self) -> None:
        """Gradients unscaled, their norm taken and clipped, Adam, weights rounded, gradients cleared."""
        others = self.layout.replicas - 1
        count = self.layout.parameters / (1 + others * sharded(self.layout.shard, OPTIMIZER))
        kept = self.layout.parameters / (1 + others * sharded(self.layout.shard, GRADIENTS))
        self.elementwise("update.clear", "update", 1, kept, 0, 1, "mul", "float32")
        for name, reads, writes in (("unscale", 1, 1), ("clip", 1, 1), ("round", 1, 0.5)):
            self.elementwise(f"update.{name}", "update", 1, count, reads, writes, "mul", "float32")
        self.add("update.norm", "reduction", {"elements": count, "outputs": 1}, "update", 1, "float32")
        self.add("update.adam", "optimizer", {"elements": count}, "update", 1, "float32", function="adam")

    def norm(self, name: str, lane: str, times: Amount, phase: str = "forward") -> None:
        """A layer norm of the elements of the sequence that a device holds, `times` a step."""
        facts = {"pass": "backward"} if phase == "backward" else {}
        dims = {"elements": self.layout.local, "groups": self.layout.local / self.layout.width}
        self.add(name, "norm", dims, lane, times, function="layer", **facts)

    def move(self, name: str, lane: str, times: Amount, elements: Amount) -> None:
        """A copy of so many elements, `times` a step."""
        self.add(name, "move", {"reads": elements, "writes": elements}, lane, times, function="copy")

    def reduce(self, name: str, lane: str, times: Amount, elements: Amount, outputs: Amount) -> None:
        """A sum over tokens."""
        self.add(name, "reduction", {"elements": elements, "outputs": outputs}, lane, times, function="sum")


SIZES = {
    "megatron-22b": {"layers": 48, "width": 6144, "heads": 64},
    "megatron-175b": {"layers": 96, "width": 12288, "heads": 96},
    "megatron-530b": {"layers": 105, "width": 20480, "heads": 128},
    "megatron-1t": {"layers": 128, "width": 25600, "heads": 160},
    "megatron-gpt2-xl": {"layers": 48, "width": 1600, "heads": 25, "vocabulary": 50_257, "seq_len": 1024},
    "megatron-bert-large": {"layers": 24, "width": 1024, "heads": 16, "vocabulary": 30_522, "seq_len": 512},
}
"""Korthikanti et al., Table 3; GPT-2 (Radford et al., 2019) and BERT (Devlin et al., 2019) as Megatron trains them."""
LAYOUTS = {
    "megatron-22b": {"tensor_parallel": 8, "pipeline_parallel": 1, "batch": 4, "microbatch": 4, "interleave": 1},
    "megatron-175b": {"tensor_parallel": 8, "pipeline_parallel": 8, "batch": 64, "microbatch": 1, "interleave": 3},
    "megatron-530b": {"tensor_parallel": 8, "pipeline_parallel": 35, "batch": 280, "microbatch": 1, "interleave": 3},
    "megatron-1t": {"tensor_parallel": 8, "pipeline_parallel": 64, "batch": 512, "microbatch": 1, "interleave": 1},
}
"""How the paper trains them; defaults of the run."""


def megatron(size: str) -> Workload:
    """A size of the paper with its layout as defaults, selective recomputation and sequence parallelism.

    Raises InputError where there is no such size.
    """
    if size not in SIZES:
        raise InputError(f"unknown Megatron size {size!r} (known: {', '.join(SIZES)})")
    return parallel_gpt(size, **SIZES[size], defaults=LAYOUTS.get(size))


def parallel_gpt(
    name: str,
    layers: int,
    width: int,
    heads: int,
    vocabulary: int = 51_200,
    seq_len: int = 2048,
    defaults: dict[str, int] | None = None,
) -> Workload:
    """A GPT of any size as one device of many trains it.

    Raises InputError where the heads do not divide the width.
    """
    if width % heads:
        raise InputError(f"{name}: {heads} heads do not divide a width of {width}")
    layout = MegatronLayout(layers, width, heads, vocabulary, seq_len)
    writer = DeviceOperations(layout)
    writer.layer_forward()
    writer.layer_backward()
    writer.ends()
    writer.between_devices()
    writer.update()
    one = {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1, "batch": 1, "microbatch": 1}
    one |= {"interleave": 1, "recompute": SELECTIVE, "sequence_parallel": ON, "overlap_gradients": ON}
    one |= {"shard": UNSHARDED}
    facts: dict[str, Attribute] = {
        "network": "gpt",
        WORK: "pipeline parallel",
        "layers": layers,
        "heads": heads,
        "seq_len": seq_len,
        "device_memory": expression_text(layout.memory),
        "devices": expression_text(layout.tensor * layout.stages * layout.replicas),
    }
    facts |= {f"words.{name}": words for name, words in WORDS.items()}
    facts |= {"parameters": layers * (12 * width**2 + 13 * width) + (vocabulary + seq_len) * width}
    return Workload(
        name,
        expanded(writer.operations),
        _phases(writer.operations),
        FrozenDict({**one, **(defaults or {})}),
        FrozenDict(facts),
    )


def _phases(operations: list[Op]) -> tuple[tuple[str, str], ...]:
    """What holds for every microbatch: forward, then backward, then the sum of gradients, then the update."""
    begins = "layer.backward.down.dropout"
    summed = [op.name for op in operations if op.attributes["lane"] in ("data", "data_each")]
    edges = [(begins, name) for name in summed]
    for op in operations:
        if op.name == begins or op.name in summed:
            continue
        if op.attributes["lane"] == "update":
            edges += [(name, op.name) for name in summed]
        elif op.attributes["lane"] == "gathered":
            edges.append(("update.round", op.name))
        elif ".backward" in op.name:
            edges += [(begins, op.name)] if op.name.startswith("layer.") else []
            edges += [(op.name, name) for name in summed]
        elif op.attributes["lane"] in ("tied", "transfer") or op.name.startswith("head."):
            edges.append((op.name, "update.unscale"))
        else:
            edges.append((op.name, begins))
    return tuple(edges)
