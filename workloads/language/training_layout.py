"""How the training of a language model lies on many devices, and what of the model falls on one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slipstick.common.errors import InputError
from slipstick.workloads.language.language_model import LanguageModel

Recompute = Literal["none", "selective", "full"]
RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True)
class TrainingLayout:
    """Degrees of parallelism of one training step.

    Devices are numbered tensor first, then context, data, pipeline, so that tensor ranks are nearest to each other.

    `tensor`: ranks that share each product of a layer; between products the sequence is split over them (sequence
        parallel).
    `context`: ranks that share the tokens of a sequence in every layer.
    `data`: ranks that do the same for other sequences.
    `pipeline`, `chunks`: stages, scheduled one forward, one backward (1F1B); parts of the model that each stage holds
        (interleaved).
    `expert`: ranks, of those of tensor x context x data, over which the experts are dealt out; each holds whole
        experts.
    `micro`: sequences of one microbatch.
    `shard`: what data ranks share out: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too (ZeRO stages; 3:
        FSDP).
    `recompute`: what the backward pass computes again: "none" (scores are kept), "selective" (the attention's core, as
        flash attention does), "full" (each layer).
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    chunks: int = 1
    micro: int = 1
    shard: int = 1
    recompute: Recompute = "selective"

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "data", "context", "expert", "chunks", "micro"):
            if getattr(self, name) < 1:
                raise InputError(f"training layout: {name} = {getattr(self, name)}: want at least 1")
        if self.shard not in (0, 1, 2, 3):
            raise InputError(f"training layout: ZeRO stage {self.shard}: want 0, 1, 2 or 3")
        if self.recompute not in RECOMPUTE:
            raise InputError(f"training layout: recompute {self.recompute!r}: want one of {', '.join(RECOMPUTE)}")
        if self.chunks > 1 and self.pipeline == 1:
            raise InputError(f"training layout: {self.chunks} chunks of one stage: want several stages to interleave")
        if self.stage % self.expert:
            raise InputError(
                f"training layout: {self.expert} expert ranks: want a divisor of the {self.stage} ranks of a stage"
            )

    @property
    def stage(self) -> int:
        """Devices of one stage."""
        return self.tensor * self.context * self.data

    @property
    def devices(self) -> int:
        """Devices of all."""
        return self.stage * self.pipeline

    def microbatches(self, batch: int) -> int:
        """Microbatches of a step of `batch` sequences.

        Raises InputError where the batch does not divide.
        """
        part = self.data * self.micro
        if batch < 1 or batch % part:
            raise InputError(f"batch of {batch} sequences: want a multiple of data x micro = {part}")
        return batch // part

    def check(self, model: LanguageModel, batch: int, sequence: int) -> None:
        """Check that a model, its batch (sequences) and their length (tokens) divide so.

        Raises InputError where heads, layers, experts, tokens or microbatches do not divide.
        """
        if model.heads % self.tensor:
            raise InputError(f"{model.name}: {model.heads} heads on {self.tensor} tensor ranks: want a divisor")
        if self.pipeline * self.chunks > model.layers:
            raise InputError(
                f"{model.name}: {self.pipeline} stages x {self.chunks} chunks: want at most its {model.layers} layers"
            )
        if model.experts is None and self.expert > 1:
            raise InputError(f"{model.name} has no experts: {self.expert} expert ranks: want 1")
        if model.experts and model.experts.count % self.expert:
            raise InputError(f"{model.name}: {model.experts.count} experts on {self.expert} ranks: want a divisor")
        self.stage_layers(model.layers)
        ranks = self.tensor * self.context * (2 if self.context > 1 else 1)  # each rank has an early and a late piece
        if sequence < 1 or sequence % ranks:
            raise InputError(f"sequence of {sequence} tokens: want a multiple of {ranks} (tensor and context ranks)")
        rounds = self.microbatches(batch)
        if self.chunks > 1 and rounds % self.pipeline:
            raise InputError(
                f"{rounds} microbatches, interleaved: want a multiple of the {self.pipeline} stages (Narayanan 2021)"
            )

    def stage_layers(self, layers: int) -> tuple[int, int, int]:
        """Layers of the first stage, of a middle one and of the last.

        Where they do not divide, the two ends have fewer (beside the embedding and the head), a chunk's at most.
        Raises InputError where the ends would have to give up more than that.
        """
        if self.pipeline == 1:
            return layers, layers, layers
        chunk = -(-layers // (self.pipeline * self.chunks))
        most = chunk * self.chunks
        missing = most * self.pipeline - layers
        if missing > 2 * chunk:
            raise InputError(
                f"{layers} layers on {self.pipeline} stages x {self.chunks} chunks of {chunk}: {missing} too few; want "
                f"a multiple, less {2 * chunk} at most (one chunk at either end)"
            )
        return most - missing // 2, most, most - -(-missing // 2)

    def text(self) -> str:
        """As people write it ("tp 8, pp 16 x 2, dp 64, micro 1, ZeRO 1")."""
        words = [f"tp {self.tensor}"]
        if self.pipeline > 1:
            words.append(f"pp {self.pipeline}" + (f" x {self.chunks}" if self.chunks > 1 else ""))
        for name, size in (("cp", self.context), ("ep", self.expert)):
            words += [f"{name} {size}"] if size > 1 else []
        words += [f"dp {self.data}", f"micro {self.micro}", f"ZeRO {self.shard}"]
        return ", ".join(words) + ("" if self.recompute == "selective" else f", recompute {self.recompute}")


def training_flop(model: LanguageModel, sequence: int) -> float:
    """Model flop of one token in forward and backward pass, 6 a weight and causal attention at half its square.

    `sequence`: tokens of a sequence.
    Raises InputError where the sequence has no token.

    Notes
    -----
    The embedding is looked up, not multiplied; what is computed again does not count (Chowdhery et al., "PaLM", arXiv
    2204.02311, appendix B, with causal attention counted once).

    Examples
    --------
    >>> from slipstick.workloads.language_catalog import language_model
    >>> round(training_flop(language_model("llama-3.1-70b"), 8192) / 1e9, 1)
    449.2
    """
    if sequence < 1:
        raise InputError(f"sequence of {sequence} tokens: want at least 1")
    return 6.0 * (model.multiplied + attention_numbers(model, sequence))


def attention_numbers(model: LanguageModel, sequence: int) -> float:
    """Multiply-adds of one token's scores and values in all layers, forward, causal."""
    return model.prompt_score_numbers() * model.attended(sequence / 2)
