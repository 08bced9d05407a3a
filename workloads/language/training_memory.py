"""Memory of one device in training: weights, gradients, optimizer states, activations; by stage.

Sources: Rajbhandari et al., "ZeRO", SC 2020, arXiv 1910.02054, section 3 and figure 1 (states); Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models", arXiv 2205.05198, section 4 (activations).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import TrainingLayout

WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2.0, 4.0, 12.0
"""Of a parameter: half-precision weight, float32 gradient, float32 weight and two moments of Adam."""


@dataclass(frozen=True)
class TrainerKeeps:
    """What a trainer keeps on a device.

    `split`: whether tensor ranks share out sequences between products (sequence parallel); None: nobody said.
    `gradient`: bytes of a parameter's.
    """

    split: bool | None = True
    gradient: float = GRADIENT_BYTES


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of one device of one stage.

    `gathered`: of the weights: those of two layers that are whole where weights are shared out.
    `again`: of the activations: those of a layer that is computed again.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    gathered: float = 0.0
    again: float = 0.0

    @property
    def total(self) -> float:
        """All parts together, in bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    def parts(self) -> Mapping[str, float]:
        """Bytes by part."""
        return {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations,
            "logits": self.logits,
        }


def state_parts(
    parameters: float, replicas: int, shard: int, gradient: float = GRADIENT_BYTES
) -> tuple[float, float, float]:
    """Bytes of weights, gradients and optimizer states that one of `replicas` holds at a ZeRO stage.

    Examples
    --------
    7.5 billion parameters on 64 devices (Rajbhandari et al., figure 1, half-precision gradients):

    >>> [round(sum(state_parts(7.5e9, 64, stage, gradient=2.0)) / 1e9, 1) for stage in (0, 1, 2, 3)]
    [120.0, 31.4, 16.6, 1.9]
    """
    return (
        parameters * WEIGHT_BYTES / (replicas if shard >= 3 else 1),
        parameters * gradient / (replicas if shard >= 2 else 1),
        parameters * OPTIMIZER_BYTES / (replicas if shard >= 1 else 1),
    )


def layer_numbers(model: LanguageModel) -> float:
    """Width of what one token leaves behind in one layer for its backward pass, the attention's scores apart.

    Inputs of norms, of products and of the activation function; of experts those that a token visits (and its copy in
    their order). Half-precision bytes are twice that.
    """
    if model.latent:
        m = model.latent
        queries = model.heads * (m.plain + m.rotary)
        heads = 2 * queries + 2 * model.heads * m.value + m.query_rank + m.rank
    else:
        heads = 2 * model.heads * model.head_dim + 2 * model.kv_heads * model.head_dim
    dense = model.width + model.matrices * model.feed_forward
    feed = float(dense)
    if model.experts:
        e = model.experts
        routed = e.per_token * (2 * model.width + model.matrices * e.feed_forward)
        experts = model.width + routed + model.matrices * e.shared_feed_forward
        feed = (model.expert_layers * experts + model.plain_layers * dense) / model.layers
    return 2.0 * model.width + model.width + heads + feed


def layer_activation_bytes(
    model: LanguageModel, sequence: int, layout: TrainingLayout | None = None, dropout: int = 0
) -> float:
    """Bytes that one microbatch leaves in one layer of one device.

    `sequence`: tokens of a sequence.
    `layout`: none is one device, one sequence, scores kept.
    `dropout`: 1 where the two dropouts of a layer and that of the attention keep masks (as GPT-3 did), else 0.

    Examples
    --------
    GPT-3 (Korthikanti et al., equation 1: s b h (34 + 5 a s / h)):

    >>> gpt3 = LanguageModel("gpt-3", 96, 12288, 96, 96, 128, 49152, 51200, matrices=2)
    >>> round(layer_activation_bytes(gpt3, 2048, dropout=1) / 1e9, 3)
    2.869
    """
    at = layout or TrainingLayout(recompute="none")
    ranks = at.tensor * at.context
    tokens = sequence * at.micro / ranks
    if at.recompute == "full":
        return 2.0 * model.width * tokens
    kept = tokens * (2.0 * layer_numbers(model) + 2.0 * dropout * model.width)
    if at.recompute == "none":
        kept += tokens * (2 + 3 * dropout) * model.heads * sequence * model.attention_layers / model.layers
    return kept


def parameters_of(model: LanguageModel, layers: float, ends: float) -> tuple[float, float]:
    """Parameters of so many layers and so many embeddings (or heads): those of experts last, the others first."""
    routed = model.expert_layers * (model.experts.count if model.experts else 0) * model.expert_weights
    embeddings = model.head_weights * (1 if model.tied else 2)
    dense = model.parameters - routed - embeddings
    share = layers / model.layers
    return dense * share + ends * model.head_weights, routed * share


def undivided_bytes(model: LanguageModel, sequence: int, layout: TrainingLayout) -> tuple[float, float]:
    """What tensor ranks hold more where each keeps sequences whole between products.

    Bytes that a microbatch leaves in a layer, and those of a layer that is computed again.

    Inputs of norms and of both blocks, eight bytes a token and channel (Korthikanti et al., equation 2, without the
    masks of dropout); of layers that are computed again their inputs alone.
    """
    more = sequence * layout.micro / layout.context * (1 - 1 / layout.tensor) * model.width
    return (2.0 * more, 8.0 * more) if layout.recompute == "full" else (8.0 * more, 0.0)


def stage_memories(
    model: LanguageModel,
    layout: TrainingLayout,
    batch: int,
    sequence: int,
    stages: Sequence[int],
    keeps: TrainerKeeps = TrainerKeeps(),
) -> tuple[TrainingMemory, ...]:
    """Memory of one device of each of several stages, 0 the first; split where nobody said.

    A stage of 1F1B holds the activations of as many microbatches as stages come after it, and its own; interleaved,
    the first holds (p - 1) / (p v) of the model's more (Korthikanti et al., section 4.2.3). Weights that ZeRO 3 shares
    out are whole for two layers at a time.
    Raises InputError where model, batch or sequence do not divide so.
    """
    layout.check(model, batch, sequence)
    for stage in stages:
        if not 0 <= stage < layout.pipeline:
            raise InputError(f"stage {stage}: want 0 to {layout.pipeline - 1}")
    more = undivided_bytes(model, sequence, layout) if keeps.split is False else (0.0, 0.0)
    kept = layer_activation_bytes(model, sequence, layout) + more[0], more[1]
    rounds = layout.microbatches(batch)
    return tuple(_memory(model, layout, sequence, rounds, kept, stage, keeps.gradient) for stage in stages)


def _memory(
    model: LanguageModel,
    layout: TrainingLayout,
    sequence: int,
    rounds: int,
    kept: tuple[float, float],
    stage: int,
    gradient: float,
) -> TrainingMemory:
    """One stage, with the step's microbatches and the bytes that one of them leaves in a layer, and in one that is
    computed again beside its own."""
    p, v = layout.pipeline, layout.chunks
    first, middle, last = layout.stage_layers(model.layers)
    layers = first if stage == 0 else last if stage == p - 1 else middle
    ends = (stage == 0) + (stage == p - 1 and (not model.tied or p > 1))
    plain, routed = parameters_of(model, layers, ends)
    replicas = layout.data * layout.context
    states = state_parts(plain / layout.tensor, replicas, layout.shard, gradient)
    experts = state_parts(routed / layout.expert, layout.stage // layout.expert, layout.shard, gradient)
    weights, gradients, optimizer = (a + b for a, b in zip(states, experts, strict=True))
    gathered = 0.0
    if layout.shard == 3:
        one, in_experts = parameters_of(model, 1, 0)
        gathered = 2 * WEIGHT_BYTES * (one / layout.tensor + in_experts / layout.expert)
    in_flight = float(min(p - stage, rounds))
    if v > 1:
        in_flight = min(p - stage + (p - 1) / v, rounds * 1.0)
    tokens = sequence * layout.micro / (layout.context * layout.tensor)
    again = kept[1] + (2.0 * layer_numbers(model) * tokens if layout.recompute == "full" else 0.0)
    logits = tokens * model.vocabulary * 6.0 if stage == p - 1 else 0.0  # half and single precision
    activations = kept[0] * layers * in_flight + again
    return TrainingMemory(weights + gathered, gradients, optimizer, activations, logits, gathered, again)
