"""The operations of one device of many that train a GPT, as Megatron writes its layers.

Sources: Shoeybi et al., arXiv 1909.08053; Korthikanti et al., arXiv 2205.05198; Rajbhandari et al., arXiv 1910.02054.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.networks.megatron.megatron_layout import GRADIENTS, OPTIMIZER, PARAMETERS, Layout, sharded

LOSS_READS, LOSS_WRITES = 17, 13
"""Half-precision elements that the loss reads and writes for each logit: it works in float32, pass by pass."""


@dataclass
class DeviceOperations:
    """Operations of one device; `lane` says which part of the schedule each belongs to."""

    on: Layout
    operations: list[Op] = field(default_factory=list)

    def add(
        self, name: str, kind: str, dims: dict[str, Any], lane: str, times: Amount, dtype: str = "float16", **facts: Any
    ) -> None:
        """One operation."""
        self.operations.append(operation(name, kind, dims, dtype, {"lane": lane, **facts}, times=times))

    def product(self, name: str, lane: str, times: Amount, m: Amount, n: Amount, k: Amount, batch: Amount = 1) -> None:
        """A matrix product."""
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
        """`reads` and `writes` elements for each element."""
        dims = {"elements": elements, "reads": reads * elements, "writes": writes * elements}
        self.add(name, "elementwise", dims, lane, times, dtype, function=function)

    def collective(self, name: str, lane: str, times: Amount, function: str, elements: Amount) -> None:
        """Over the tensor-parallel group."""
        dims = {"elements": elements, "participants": self.on.tensor}
        self.add(name, "collective", dims, lane, times, function=function)

    def layer_forward(self) -> None:
        """Forward of all own layers, and what of it is done again before the backward pass."""
        for phase, all_times, core_times in (
            ("forward", self.on.runs, self.on.runs),
            ("recompute", self.on.runs * self.on.full, self.on.runs * self.on.core_again),
        ):
            self._layer_forward(f"layer.{phase}", all_times, core_times)

    def _layer_forward(self, at: str, times: Amount, core_times: Amount) -> None:
        h, t, lane = self.on.width, self.on.tensor, "layer"
        for name in ("attention", "mlp"):
            self.norm(f"{at}.{name}.norm", lane, times)
            self.collective(f"{at}.{name}.all_gather", "tensor", times * self.on.sequence, "all_gather", self.on.hidden)
            self.collective(
                f"{at}.{name}.all_reduce", "tensor", times * (1 - self.on.sequence), "all_reduce", self.on.hidden
            )
            scattered = times * self.on.sequence
            self.collective(f"{at}.{name}.reduce_scatter", "tensor", scattered, "reduce_scatter", self.on.hidden)
            self.elementwise(f"{at}.{name}.bias_dropout_add", lane, times, self.on.local, 2, 1.5, "native_dropout")
        self.product(f"{at}.query_key_value", lane, times, 3 * h / t, self.on.tokens, h)
        self.elementwise(f"{at}.query_key_value.bias", lane, times, 3 * self.on.hidden / t, 1, 1)
        size, pairs = h // self.on.heads, self.on.micro * self.on.heads / t
        self.product(f"{at}.scores", lane, core_times, self.on.seq_len, self.on.seq_len, size, pairs)
        rows = {"rows": self.on.scores / self.on.seq_len, "columns": self.on.seq_len}
        self.add(f"{at}.softmax", "softmax", rows, lane, core_times, function="softmax")
        self.elementwise(f"{at}.softmax.dropout", lane, core_times, self.on.scores, 1, 1.5, "native_dropout")
        self.product(f"{at}.mix", lane, core_times, size, self.on.seq_len, self.on.seq_len, pairs)
        self.move(f"{at}.mix.merge", lane, times, self.on.hidden / t)
        self.product(f"{at}.projection", lane, times, h, self.on.tokens, h / t)
        self.product(f"{at}.up", lane, times, 4 * h / t, self.on.tokens, h)
        self.elementwise(f"{at}.bias_gelu", lane, times, 4 * self.on.hidden / t, 1, 1, "gelu")
        self.product(f"{at}.down", lane, times, h, self.on.tokens, 4 * h / t)

    def layer_backward(self) -> None:
        """Backward of all own layers; collectives beside gradients of weights or inputs have lanes of their own."""
        h, t, lane, at, times = self.on.width, self.on.tensor, "layer", "layer.backward", self.on.runs
        plain, split = times * (1 - self.on.sequence), times * self.on.sequence
        for name, m in (("query_key_value", 3 * h / t), ("up", 4 * h / t)):
            # What all devices of the group hold the input of: columns of the weights are cut.
            self.product(f"{at}.{name}.input", "input_gradient", times, h, self.on.tokens, m)
            self.product(f"{at}.{name}.weight", "weight_gradient", times, m, h, self.on.tokens)
            self.collective(f"{at}.{name}.all_gather", "beside_input", split, "all_gather", self.on.hidden)
            self.collective(f"{at}.{name}.all_reduce", "beside_weight", plain, "all_reduce", self.on.hidden)
            self.collective(f"{at}.{name}.reduce_scatter", "beside_weight", split, "reduce_scatter", self.on.hidden)
        for name, k in (("projection", h / t), ("down", 4 * h / t)):
            self.elementwise(f"{at}.{name}.dropout", lane, times, self.on.local, 1.5, 1, "native_dropout_backward")
            self.reduce(f"{at}.{name}.bias", lane, times, self.on.local, h)
            self.collective(f"{at}.{name}.all_gather", "tensor", split, "all_gather", self.on.hidden)
            self.product(f"{at}.{name}.input", lane, times, k, self.on.tokens, h)
            self.product(f"{at}.{name}.weight", lane, times, h, k, self.on.tokens)
            self.norm(f"{at}.{name}.norm", lane, times, "backward")
            self.elementwise(f"{at}.{name}.residual", lane, times, self.on.local, 2, 1)
        self.elementwise(f"{at}.gelu", lane, times, 4 * self.on.hidden / t, 2, 1, "gelu_backward")
        self.reduce(f"{at}.up.bias", lane, times, 4 * self.on.hidden / t, 4 * h / t)
        size, pairs, s = h // self.on.heads, self.on.micro * self.on.heads / t, self.on.seq_len
        self.move(f"{at}.mix.merge", lane, times, self.on.hidden / t)
        self.product(f"{at}.mix.scores", lane, times, s, s, size, pairs)
        self.product(f"{at}.mix.values", lane, times, size, s, s, pairs)
        self.elementwise(f"{at}.softmax.dropout", lane, times, self.on.scores, 1.5, 1, "native_dropout_backward")
        rows = {"rows": self.on.scores / s, "columns": s}
        self.add(f"{at}.softmax", "softmax", rows, lane, times, function="softmax", **{"pass": "backward"})
        for part in ("queries", "keys"):
            self.product(f"{at}.scores.{part}", lane, times, size, s, s, pairs)
        self.move(f"{at}.query_key_value.join", lane, times, 3 * self.on.hidden / t)
        self.reduce(f"{at}.query_key_value.bias", lane, times, 3 * self.on.hidden / t, 3 * h / t)

    def ends(self) -> None:
        """What the first and the last stage do besides: words looked up, words scored."""
        h, t, rounds = self.on.width, self.on.tensor, self.on.rounds
        words = sp.Integer(self.on.vocabulary) / t
        for phase in ("forward", "backward"):
            facts = {"function": "scatter"} if phase == "backward" else {}
            dims = {"rows": self.on.tokens, "width": h}
            self.add(f"embedding.{phase}", "gather", dims, "embedding", rounds, **facts)
            self.elementwise(f"embedding.{phase}.dropout", "embedding", rounds, self.on.local, 2, 1.5, "native_dropout")
            self.norm(f"head.{phase}.norm", "head", rounds, phase)
            self.collective(f"head.{phase}.all_gather", "head", rounds * self.on.sequence, "all_gather", self.on.hidden)
        self.collective("embedding.all_reduce", "embedding", rounds, "all_reduce", self.on.hidden)
        summed = rounds * (1 - self.on.sequence)
        self.collective("head.backward.all_reduce", "head", summed, "all_reduce", self.on.hidden)
        scattered = rounds * self.on.sequence
        self.collective("head.backward.reduce_scatter", "head", scattered, "reduce_scatter", self.on.hidden)
        self.product("head.words", "head", rounds, words, self.on.tokens, h)
        self.product("head.words.input", "head", rounds, h, self.on.tokens, words)
        self.product("head.words.weight", "head", rounds, words, h, self.on.tokens)
        self.elementwise("head.loss", "head", rounds, words * self.on.tokens, LOSS_READS, LOSS_WRITES, "exp")

    def between_devices(self) -> None:
        """Activations between stages, gradients between replicas, and those of the words that both ends share."""
        t, apart = self.on.tensor, self.on.tensor * self.on.replicas
        pair = sp.Min(2, self.on.stages)
        several = sp.Min(1, self.on.stages - 1)
        crossings = 2 * self.on.rounds * self.on.chunks * several
        far = {"participants": pair, "stride": apart, "sharing": t}
        # Each device sends its part; without sequence parallelism the receivers gather the whole.
        part = {"elements": self.on.hidden / t, **far}
        self.add("stage.send", "collective", part, "transfer", crossings, function="send_recv")
        whole = crossings * (1 - self.on.sequence)
        self.collective("stage.all_gather", "transfer", whole, "all_gather", self.on.hidden)
        words = {"elements": self.on.vocabulary * self.on.width / t, **far}
        self.add("embedding.tied", "collective", words, "tied", several, "float32", function="all_reduce")
        self.between_replicas()

    def between_replicas(self) -> None:
        """Gradients summed and weights gathered, by what replicas share out (Rajbhandari et al., section 7).

        Optimizer states: gradients are scattered once, new weights gathered once. Gradients too: they are scattered
        after every microbatch. Parameters too: weights are gathered before the forward and before the backward pass
        of every microbatch, and none after the update.
        """
        states, gradients, weights = (sharded(self.on.shard, level) for level in (OPTIMIZER, GRADIENTS, PARAMETERS))
        t, rounds = self.on.tensor, self.on.rounds
        dims = {"elements": self.on.parameters, "participants": self.on.replicas, "stride": t, "sharing": t}
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
        others = self.on.replicas - 1
        count = self.on.parameters / (1 + others * sharded(self.on.shard, OPTIMIZER))
        kept = self.on.parameters / (1 + others * sharded(self.on.shard, GRADIENTS))
        self.elementwise("update.clear", "update", 1, kept, 0, 1, "mul", "float32")
        for name, reads, writes in (("unscale", 1, 1), ("clip", 1, 1), ("round", 1, 0.5)):
            self.elementwise(f"update.{name}", "update", 1, count, reads, writes, "mul", "float32")
        self.add("update.norm", "reduction", {"elements": count, "outputs": 1}, "update", 1, "float32")
        self.add("update.adam", "optimizer", {"elements": count}, "update", 1, "float32", function="adam")

    def norm(self, name: str, lane: str, times: Amount, phase: str = "forward") -> None:
        """A layer norm of the part of the sequence that a device holds."""
        facts = {"pass": "backward"} if phase == "backward" else {}
        dims = {"elements": self.on.local, "groups": self.on.local / self.on.width}
        self.add(name, "norm", dims, lane, times, function="layer", **facts)

    def move(self, name: str, lane: str, times: Amount, elements: Amount) -> None:
        """A copy."""
        self.add(name, "move", {"reads": elements, "writes": elements}, lane, times, function="copy")

    def reduce(self, name: str, lane: str, times: Amount, elements: Amount, outputs: Amount) -> None:
        """A sum over tokens."""
        self.add(name, "reduction", {"elements": elements, "outputs": outputs}, lane, times, function="sum")
