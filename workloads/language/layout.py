"""How a language model lies on several devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from slipstick.common.errors import InputError
from slipstick.workloads.language.language_model import LanguageModel


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism of one replica, and how many replicas there are.

    `tensor`: ranks that share each product of attention, dense feed-forward and the head.
    `pipeline`: stages that share the layers.
    `data`: groups of ranks with attention (and its cache) of their own in front of the same experts.
    `expert`: ranks over which the experts are dealt out; those that are left share each expert's width.
    `replicas`: copies of all this behind a router.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    replicas: int = 1

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "data", "expert", "replicas"):
            if getattr(self, name) < 1:
                raise InputError(f"layout: {name} = {getattr(self, name)}: want at least 1")
        if self.group % self.expert:
            raise InputError(f"layout: {self.expert} expert ranks: want a divisor of tensor x data = {self.group}")

    @property
    def group(self) -> int:
        """Ranks that serve one layer together."""
        return self.tensor * self.data

    @property
    def expert_tensor(self) -> int:
        """Ranks that share the width of one expert."""
        return self.group // self.expert

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return self.group * self.pipeline * self.replicas

    def check(self, model: LanguageModel) -> None:
        """Check that a model can be laid out so.

        Raises InputError where heads, layers or experts do not divide among the ranks.
        """
        if model.heads % self.tensor:
            raise InputError(f"{model.name}: {model.heads} heads on {self.tensor} tensor ranks: want a divisor")
        if self.pipeline > model.layers:
            raise InputError(f"{model.name}: {self.pipeline} stages: want at most its {model.layers} layers")
        if model.experts is None and (self.expert > 1 or self.data > 1):
            raise InputError(f"{model.name} has no experts: use replicas, not expert or data ranks")
        if model.experts and model.experts.count % self.expert:
            raise InputError(f"{model.name}: {model.experts.count} experts on {self.expert} ranks: want a divisor")

    def text(self) -> str:
        """As people write it ("tp 4, ep 4, 2 replicas")."""
        words = [f"tp {self.tensor}"]
        words += [
            f"{name} {size}"
            for name, size in (("pp", self.pipeline), ("dp", self.data), ("ep", self.expert))
            if size > 1
        ]
        return ", ".join(words) + (f", {self.replicas} replicas" if self.replicas > 1 else "")


def padded(model: LanguageModel, ranks: int) -> LanguageModel:
    """The model with heads added until each of so many tensor ranks has as many, as compilers of arrays lay it out.

    The added heads are zeros that are stored and computed: XLA pads sharded dimensions (Xu et al., "GSPMD",
    arXiv 2105.04663, section 4.1), NeuronX Distributed pads attention heads. Where each head has its own keys, those
    are added too.

    Examples
    --------
    >>> from slipstick.workloads.language_catalog import language_model
    >>> model = padded(language_model("llama-2-13b"), 16)
    >>> model.heads, model.kv_heads, model.heads % 16
    (48, 48, 0)
    """
    if model.heads % ranks == 0 or ranks > model.heads:
        return model
    alone = model.kv_heads == model.heads
    step = lcm(ranks, 1 if alone else model.kv_heads)
    heads = -(-model.heads // step) * step
    return replace(model, heads=heads, kv_heads=heads if alone else model.kv_heads)
