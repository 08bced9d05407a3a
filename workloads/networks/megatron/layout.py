"""How a GPT is laid out on many devices: what follows for one of them from the numbers of a run.

Sources: Narayanan et al., SC 2021, arXiv 2104.04473 (pipeline, interleaving); Korthikanti et al., arXiv 2205.05198
(sequence parallelism, recomputation, activation memory); Rajbhandari et al., SC 2020, arXiv 1910.02054 (ZeRO: what
replicas may share out among themselves).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from slipstick.common.expressions import sp, symbol
from slipstick.workloads.graph.cost import Amount

OFF, ON = 1, 2
NONE, SELECTIVE, FULL = 1, 2, 3
UNSHARDED, OPTIMIZER, GRADIENTS, PARAMETERS = 1, 2, 3, 4
WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2, 4, 12
"""Of a parameter: half-precision weight, float32 gradient, float32 weight and two moments."""
STATE_BYTES = WEIGHT_BYTES + GRADIENT_BYTES + OPTIMIZER_BYTES
GATHERED = 2
"""Layers whose weights are whole at a time where parameters are shared out: the one that runs and the next."""
WORDS = {
    "recompute": ("none", "selective", "full"),
    "sequence_parallel": ("off", "on"),
    "overlap_gradients": ("off", "on"),
    "shard": ("none", "optimizer", "gradients", "parameters"),
}
"""Values 1, 2, ... of numbers of the run, in words."""


def state_bytes(parameters: Amount, replicas: Amount, shard: Amount, gradient_bytes: float = GRADIENT_BYTES) -> sp.Expr:
    """Bytes of weights, gradients and optimizer states of one replica of several (Rajbhandari et al., section 3.1).

    `shard`: what replicas share out: 1 nothing, 2 optimizer states (ZeRO 1), 3 gradients too (ZeRO 2), 4 weights too
        (ZeRO 3, FSDP).
    """
    part = parameters / (1 + (replicas - 1) * sharded(shard, OPTIMIZER)) * OPTIMIZER_BYTES
    part += parameters / (1 + (replicas - 1) * sharded(shard, GRADIENTS)) * gradient_bytes
    return part + parameters / (1 + (replicas - 1) * sharded(shard, PARAMETERS)) * WEIGHT_BYTES


def sharded(shard: Amount, level: int) -> sp.Expr:
    """1 where replicas share out `level`, else 0."""
    return sp.Min(1, sp.Max(0, shard - level + 1))


def _number(name: str) -> Any:
    """A field that is a number of the run; its symbol is made with the layout, since sympy takes its time."""
    return field(default_factory=partial(symbol, name), init=False)


@dataclass(frozen=True)
class MegatronLayout:
    """Sizes of one device, as expressions of the run's numbers.

    `tensor`: devices that cut each layer.
    `stages`, `chunks`: devices in a row, each with a part of the layers, and parts of the network that a device holds.
    `replicas`, `shard`: devices that do the same for other sequences, and what they share out.
    `micro`: sequences at a time.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    seq_len: int
    tensor: sp.Symbol = _number("tensor_parallel")
    stages: sp.Symbol = _number("pipeline_parallel")
    replicas: sp.Symbol = _number("data_parallel")
    chunks: sp.Symbol = _number("interleave")
    micro: sp.Symbol = _number("microbatch")
    shard: sp.Symbol = _number("shard")

    @cached_property
    def sequence(self) -> sp.Expr:
        """1 with sequence parallelism, else 0."""
        return symbol("sequence_parallel") - OFF

    @cached_property
    def full(self) -> sp.Expr:
        """1 where every layer is computed again, else 0."""
        level = symbol("recompute")
        return (level - NONE) * (level - SELECTIVE) / 2

    @cached_property
    def core_again(self) -> sp.Expr:
        """1 where the attention's core is computed again, else 0."""
        level = symbol("recompute")
        return (level - NONE) * (4 - level) / 2

    @cached_property
    def rounds(self) -> sp.Expr:
        """Microbatches of an iteration."""
        return sp.ceiling(symbol("batch") / (self.replicas * self.micro))

    @cached_property
    def own_layers(self) -> sp.Expr:
        """Layers of the stage that has most."""
        return sp.ceiling(sp.Integer(self.layers) / self.stages)

    @cached_property
    def runs(self) -> sp.Expr:
        """How often a layer runs in an iteration."""
        return self.own_layers * self.rounds

    @cached_property
    def tokens(self) -> sp.Expr:
        """Of a microbatch."""
        return self.seq_len * self.micro

    @cached_property
    def hidden(self) -> sp.Expr:
        """Elements of the activations between layers."""
        return self.tokens * self.width

    @cached_property
    def local(self) -> sp.Expr:
        """What a device holds of them outside of what is cut anyhow."""
        return self.hidden / (1 + self.sequence * (self.tensor - 1))

    @cached_property
    def scores(self) -> sp.Expr:
        """Elements of the attention's scores."""
        return self.micro * self.heads * self.seq_len**2 / self.tensor

    @cached_property
    def layer_parameters(self) -> sp.Expr:
        """Of one layer on one device."""
        return (12 * self.width**2 + 7 * self.width) / self.tensor + 6 * self.width

    @cached_property
    def parameters(self) -> sp.Expr:
        """Of one device: its layers, and its part of the words' table (both ends have one)."""
        return self.own_layers * self.layer_parameters + sp.Integer(self.vocabulary * self.width) / self.tensor

    @cached_property
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
        gathered = sharded(self.shard, PARAMETERS) * GATHERED * WEIGHT_BYTES * self.layer_parameters
        state = state_bytes(self.parameters, self.replicas, self.shard)
        return state + gathered + self.own_layers * inflight * layer + working
