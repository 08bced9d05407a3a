"""One device's share of a training iteration of a GPT under data, tensor, sequence and pipeline parallelism.

The layers are Megatron's: fused attention softmax, fused bias and GELU, fused bias, dropout and residual, vocabulary
cut over the tensor-parallel group, mixed precision with gradients and optimizer in float32. The operations are those of
one device of the pipeline, each as often as it runs in an iteration, so every number of the run is a symbol:
`tensor_parallel`, `pipeline_parallel`, `data_parallel`, `microbatch` (sequences at a time), `batch` (sequences an
iteration, all devices together), `interleave` (model chunks a device), `recompute` (1 none, 2 selective: the
attention's core, 3 full), `sequence_parallel` and `overlap_gradients` (1 off, 2 on).

Sources: Shoeybi et al., arXiv 1909.08053; Narayanan et al., SC 2021, arXiv 2104.04473 (pipeline, interleaving);
Korthikanti et al., arXiv 2205.05198 (sequence parallelism, recomputation, activation memory; sizes in its Table 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from hwmodels.expressions import expression_text, symbol
from hwmodels.files import InputError
from hwmodels.records import Table
from workloads.cost import Amount
from workloads.kinds import operation
from workloads.parallel import expanded
from workloads.workload import Attribute, Op, Workload

OFF, ON = 1, 2
NONE, SELECTIVE, FULL = 1, 2, 3
STATE_BYTES = 18
"""Of a parameter: half-precision weight, float32 gradient, weight and two moments."""
LOSS_READS, LOSS_WRITES = 17, 13
"""Half-precision elements that the loss reads and writes for each logit: it works in float32, pass by pass."""
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

    Raises
    ------
    InputError
        Where there is no such size.
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

    Raises
    ------
    InputError
        Where the heads do not divide the width.
    """
    if width % heads:
        raise InputError(f"{name}: {heads} heads do not divide a width of {width}")
    writer = _Writer(layers, width, heads, vocabulary, seq_len)
    writer.layer_forward()
    writer.layer_backward()
    writer.ends()
    writer.between_devices()
    writer.update()
    one = {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1, "batch": 1, "microbatch": 1}
    one |= {"interleave": 1, "recompute": SELECTIVE, "sequence_parallel": ON, "overlap_gradients": ON}
    facts: dict[str, Attribute] = {
        "network": "gpt",
        "layers": layers,
        "device_memory": expression_text(writer.memory()),
    }
    facts |= {"words.recompute": ("none", "selective", "full")}
    facts |= {f"words.{name}": ("off", "on") for name in ("sequence_parallel", "overlap_gradients")}
    facts |= {"parameters": layers * (12 * width**2 + 13 * width) + (vocabulary + seq_len) * width}
    return Workload(
        name, expanded(writer.operations), _phases(writer.operations), Table({**one, **(defaults or {})}), Table(facts)
    )


def _phases(operations: list[Op]) -> tuple[tuple[str, str], ...]:
    """What holds for every microbatch: forward, then backward, then the sum of gradients, then the update."""
    begins, summed = "layer.backward.down.dropout", "gradients.all_reduce"
    edges = []
    for op in operations:
        if op.name in (begins, summed):
            continue
        if op.attributes["lane"] == "update":
            edges.append((summed, op.name))
        elif ".backward" in op.name:
            edges += [(begins, op.name), (op.name, summed)] if op.name.startswith("layer.") else [(op.name, summed)]
        elif op.attributes["lane"] in ("tied", "transfer") or op.name.startswith("head."):
            edges.append((op.name, "update.unscale"))
        else:
            edges.append((op.name, begins))
    return (*edges, (begins, summed))


@dataclass
class _Writer:
    """Operations of one device; `lane` says which part of the schedule each belongs to."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    seq_len: int
    operations: list[Op] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = ("tensor_parallel", "pipeline_parallel", "data_parallel", "microbatch", "batch", "interleave")
        self.tensor, self.stages, self.replicas, self.micro, self.batch, self.chunks = (symbol(n) for n in names)
        self.sequence = symbol("sequence_parallel") - OFF
        level = symbol("recompute")
        self.full = (level - NONE) * (level - SELECTIVE) / 2
        self.core_again = (level - NONE) * (4 - level) / 2
        self.rounds = sp.ceiling(self.batch / (self.replicas * self.micro))
        self.own_layers = sp.ceiling(sp.Integer(self.layers) / self.stages)
        self.tokens = self.seq_len * self.micro
        self.hidden = self.tokens * self.width
        self.local = self.hidden / (1 + self.sequence * (self.tensor - 1))
        self.scores = self.micro * self.heads * self.seq_len**2 / self.tensor
        self.runs = self.own_layers * self.rounds

    def add(
        self, name: str, kind: str, dims: dict[str, Any], lane: str, times: Amount, dtype: str = "float16", **facts: Any
    ) -> None:
        """One operation."""
        self.operations.append(operation(name, kind, dims, dtype, {"lane": lane, **facts}, times=times))

    def product(self, name: str, lane: str, times: Amount, m: Amount, n: Amount, k: Amount, batch: Amount = 1) -> None:
        """A matrix product."""
        self.add(name, "gemm", {"batch": batch, "m": m, "n": n, "k": k}, lane, times)

    def elementwise(
        self, name: str, lane: str, times: Amount, elements: Amount, reads: float, writes: float, function: str = "add"
    ) -> None:
        """`reads` and `writes` elements for each element."""
        dims = {"elements": elements, "reads": reads * elements, "writes": writes * elements}
        self.add(name, "elementwise", dims, lane, times, function=function)

    def collective(self, name: str, lane: str, times: Amount, function: str, elements: Amount) -> None:
        """Over the tensor-parallel group."""
        dims = {"elements": elements, "participants": self.tensor}
        self.add(name, "collective", dims, lane, times, function=function)

    def layer_forward(self) -> None:
        """Forward of all own layers, and what of it is done again before the backward pass."""
        for phase, all_times, core_times in (
            ("forward", self.runs, self.runs),
            ("recompute", self.runs * self.full, self.runs * self.core_again),
        ):
            self._layer_forward(f"layer.{phase}", all_times, core_times)

    def _layer_forward(self, at: str, times: Amount, core_times: Amount) -> None:
        h, t, lane = self.width, self.tensor, "layer"
        for name in ("attention", "mlp"):
            self.norm(f"{at}.{name}.norm", lane, times)
            self.collective(f"{at}.{name}.all_gather", "tensor", times * self.sequence, "all_gather", self.hidden)
            self.collective(f"{at}.{name}.all_reduce", "tensor", times * (1 - self.sequence), "all_reduce", self.hidden)
            scattered = times * self.sequence
            self.collective(f"{at}.{name}.reduce_scatter", "tensor", scattered, "reduce_scatter", self.hidden)
            self.elementwise(f"{at}.{name}.bias_dropout_add", lane, times, self.local, 2, 1.5, "native_dropout")
        self.product(f"{at}.query_key_value", lane, times, 3 * h / t, self.tokens, h)
        self.elementwise(f"{at}.query_key_value.bias", lane, times, 3 * self.hidden / t, 1, 1)
        size, pairs = h // self.heads, self.micro * self.heads / t
        self.product(f"{at}.scores", lane, core_times, self.seq_len, self.seq_len, size, pairs)
        rows = {"rows": self.scores / self.seq_len, "columns": self.seq_len}
        self.add(f"{at}.softmax", "softmax", rows, lane, core_times, function="softmax")
        self.elementwise(f"{at}.softmax.dropout", lane, core_times, self.scores, 1, 1.5, "native_dropout")
        self.product(f"{at}.mix", lane, core_times, size, self.seq_len, self.seq_len, pairs)
        self.move(f"{at}.mix.merge", lane, times, self.hidden / t)
        self.product(f"{at}.projection", lane, times, h, self.tokens, h / t)
        self.product(f"{at}.up", lane, times, 4 * h / t, self.tokens, h)
        self.elementwise(f"{at}.bias_gelu", lane, times, 4 * self.hidden / t, 1, 1, "gelu")
        self.product(f"{at}.down", lane, times, h, self.tokens, 4 * h / t)

    def layer_backward(self) -> None:
        """Backward of all own layers; collectives beside gradients of weights or inputs have lanes of their own."""
        h, t, lane, at, times = self.width, self.tensor, "layer", "layer.backward", self.runs
        plain, split = times * (1 - self.sequence), times * self.sequence
        for name, m in (("query_key_value", 3 * h / t), ("up", 4 * h / t)):
            # What all devices of the group hold the input of: columns of the weights are cut.
            self.product(f"{at}.{name}.input", "input_gradient", times, h, self.tokens, m)
            self.product(f"{at}.{name}.weight", "weight_gradient", times, m, h, self.tokens)
            self.collective(f"{at}.{name}.all_gather", "beside_input", split, "all_gather", self.hidden)
            self.collective(f"{at}.{name}.all_reduce", "beside_weight", plain, "all_reduce", self.hidden)
            self.collective(f"{at}.{name}.reduce_scatter", "beside_weight", split, "reduce_scatter", self.hidden)
        for name, k in (("projection", h / t), ("down", 4 * h / t)):
            self.elementwise(f"{at}.{name}.dropout", lane, times, self.local, 1.5, 1, "native_dropout_backward")
            self.reduce(f"{at}.{name}.bias", lane, times, self.local, h)
            self.collective(f"{at}.{name}.all_gather", "tensor", split, "all_gather", self.hidden)
            self.product(f"{at}.{name}.input", lane, times, k, self.tokens, h)
            self.product(f"{at}.{name}.weight", lane, times, h, k, self.tokens)
            self.norm(f"{at}.{name}.norm", lane, times, "backward")
            self.elementwise(f"{at}.{name}.residual", lane, times, self.local, 2, 1)
        self.elementwise(f"{at}.gelu", lane, times, 4 * self.hidden / t, 2, 1, "gelu_backward")
        self.reduce(f"{at}.up.bias", lane, times, 4 * self.hidden / t, 4 * h / t)
        size, pairs, s = h // self.heads, self.micro * self.heads / t, self.seq_len
        self.move(f"{at}.mix.merge", lane, times, self.hidden / t)
        self.product(f"{at}.mix.scores", lane, times, s, s, size, pairs)
        self.product(f"{at}.mix.values", lane, times, size, s, s, pairs)
        self.elementwise(f"{at}.softmax.dropout", lane, times, self.scores, 1.5, 1, "native_dropout_backward")
        rows = {"rows": self.scores / s, "columns": s}
        self.add(f"{at}.softmax", "softmax", rows, lane, times, function="softmax", **{"pass": "backward"})
        for part in ("queries", "keys"):
            self.product(f"{at}.scores.{part}", lane, times, size, s, s, pairs)
        self.move(f"{at}.query_key_value.join", lane, times, 3 * self.hidden / t)
        self.reduce(f"{at}.query_key_value.bias", lane, times, 3 * self.hidden / t, 3 * h / t)

    def ends(self) -> None:
        """What the first and the last stage do besides: words looked up, words scored."""
        h, t, rounds = self.width, self.tensor, self.rounds
        words = sp.Integer(self.vocabulary) / t
        for phase in ("forward", "backward"):
            facts = {"function": "scatter"} if phase == "backward" else {}
            dims = {"rows": self.tokens, "width": h}
            self.add(f"embedding.{phase}", "gather", dims, "embedding", rounds, **facts)
            self.elementwise(f"embedding.{phase}.dropout", "embedding", rounds, self.local, 2, 1.5, "native_dropout")
            self.norm(f"head.{phase}.norm", "head", rounds, phase)
            self.collective(f"head.{phase}.all_gather", "head", rounds * self.sequence, "all_gather", self.hidden)
        self.collective("embedding.all_reduce", "embedding", rounds, "all_reduce", self.hidden)
        summed = rounds * (1 - self.sequence)
        self.collective("head.backward.all_reduce", "head", summed, "all_reduce", self.hidden)
        scattered = rounds * self.sequence
        self.collective("head.backward.reduce_scatter", "head", scattered, "reduce_scatter", self.hidden)
        self.product("head.words", "head", rounds, words, self.tokens, h)
        self.product("head.words.input", "head", rounds, h, self.tokens, words)
        self.product("head.words.weight", "head", rounds, words, h, self.tokens)
        self.elementwise("head.loss", "head", rounds, words * self.tokens, LOSS_READS, LOSS_WRITES, "exp")

    def between_devices(self) -> None:
        """Activations between stages, gradients between replicas, and those of the words that both ends share."""
        t, apart = self.tensor, self.tensor * self.replicas
        pair = sp.Min(2, self.stages)
        several = sp.Min(1, self.stages - 1)
        crossings = 2 * self.rounds * self.chunks * several
        far = {"participants": pair, "stride": apart, "sharing": t}
        # Each device sends its part; without sequence parallelism the receivers gather the whole.
        part = {"elements": self.hidden / t, **far}
        self.add("stage.send", "collective", part, "transfer", crossings, function="send_recv")
        whole = crossings * (1 - self.sequence)
        self.collective("stage.all_gather", "transfer", whole, "all_gather", self.hidden)
        words = {"elements": self.vocabulary * self.width / t, **far}
        self.add("embedding.tied", "collective", words, "tied", several, "float32", function="all_reduce")
        others = {"participants": self.replicas, "stride": t, "sharing": t}
        gradients = {"elements": self.parameters(), **others}
        self.add("gradients.all_reduce", "collective", gradients, "data", 1, "float32", function="all_reduce")

    def update(self) -> None:
        """Gradients unscaled, their norm taken and clipped, Adam, weights rounded, gradients cleared."""
        count = self.parameters()
        for name, reads, writes in (("unscale", 1, 1), ("clip", 1, 1), ("round", 1, 0.5), ("clear", 0, 1)):
            dims = {"elements": count, "reads": reads * count, "writes": writes * count}
            self.add(f"update.{name}", "elementwise", dims, "update", 1, "float32", function="mul")
        self.add("update.norm", "reduction", {"elements": count, "outputs": 1}, "update", 1, "float32")
        self.add("update.adam", "optimizer", {"elements": count}, "update", 1, "float32", function="adam")

    def norm(self, name: str, lane: str, times: Amount, phase: str = "forward") -> None:
        """A layer norm of the part of the sequence that a device holds."""
        facts = {"pass": "backward"} if phase == "backward" else {}
        dims = {"elements": self.local, "groups": self.local / self.width}
        self.add(name, "norm", dims, lane, times, function="layer", **facts)

    def move(self, name: str, lane: str, times: Amount, elements: Amount) -> None:
        """A copy."""
        self.add(name, "move", {"reads": elements, "writes": elements}, lane, times, function="copy")

    def reduce(self, name: str, lane: str, times: Amount, elements: Amount, outputs: Amount) -> None:
        """A sum over tokens."""
        self.add(name, "reduction", {"elements": elements, "outputs": outputs}, lane, times, function="sum")

    def parameters(self) -> sp.Expr:
        """Of one device: its layers, and its part of the words' table (both ends have one)."""
        h, t = self.width, self.tensor
        layer = (12 * h**2 + 7 * h) / t + 6 * h
        return self.own_layers * layer + sp.Integer(self.vocabulary * h) / t

    def memory(self) -> sp.Expr:
        """Bytes of the first stage: state, and activations as Korthikanti et al. count them (their eqs. 1-6)."""
        h, t, s = self.width, self.tensor, self.seq_len
        split = 1 + self.sequence * (t - 1)
        attention = 5 * self.heads * s / (sp.Integer(h) * t)
        kept = self.hidden * (10 / split + sp.Integer(24) / t + attention * (1 - self.core_again))
        layer = self.full * 2 * self.hidden + (1 - self.full) * kept
        working = self.full * self.hidden * (10 / split + sp.Integer(24) / t + attention)
        # The first stage keeps as many microbatches as there are stages, interleaved a little more.
        inflight = sp.Min(self.stages, self.rounds) * (
            1 + sp.Min(1, self.chunks - 1) * (self.stages - 1) / (self.stages * self.chunks)
        )
        return STATE_BYTES * self.parameters() + self.own_layers * inflight * layer + working
