"""Memory by stage of a layout beside what a device has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.memory_band import StageMemory, with_band
from slipstick.workloads.language.training_layout import TrainingLayout
from slipstick.workloads.language.training_memory import GRADIENT_BYTES, WEIGHT_BYTES, TrainerKeeps, stage_memories

FITS = ("fits", "may not fit", "does not fit")
"""Best first."""
KEEPS = {
    "megatron-deepspeed": TrainerKeeps(split=False, gradient=GRADIENT_BYTES + WEIGHT_BYTES),
    "": TrainerKeeps(split=None),
}
"""By trainer, "" for none that was named; others split sequences and keep gradients in single precision.
Megatron-DeepSpeed knows no sequence parallelism, and its BF16_Optimizer adds single-precision gradients to those of the
weights (deepspeed/runtime/bf16_optimizer.py)."""
WHOLE = "sequences that tensor ranks keep whole"


def stages(
    model: LanguageModel, layout: TrainingLayout, batch: int, sequence: int, software: str = "megatron"
) -> tuple[StageMemory, ...]:
    """Memory of the first, second and last stage under a trainer; those between hold less than the second.

    Where nobody named one, tensor ranks may keep sequences whole: at the high end.
    """
    ends = sorted({0, min(1, layout.pipeline - 1), layout.pipeline - 1})
    keeps = KEEPS.get(software, TrainerKeeps())
    counted = stage_memories(model, layout, batch, sequence, ends, keeps)
    made = tuple(with_band(memory, layout, stage) for memory, stage in zip(counted, ends, strict=True))
    if keeps.split is not None or layout.tensor == 1:
        return made
    whole = stage_memories(model, layout, batch, sequence, ends, replace(keeps, split=False))
    return tuple(
        replace(one, beyond={**one.beyond, WHOLE: more.activations - one.counted.activations})
        for one, more in zip(made, whole, strict=True)
    )


def fullest(by_stage: Sequence[StageMemory]) -> StageMemory:
    """The stage that may need most."""
    return max(by_stage, key=lambda stage: stage.high)


def fit_of(by_stage: Sequence[StageMemory], capacity: float) -> str:
    """How the worst of the stages fits in so many bytes."""
    return max((stage.fits(capacity) for stage in by_stage), key=FITS.index)


def spared(layout: TrainingLayout) -> str:
    """What software spares at the low end of the band, in words."""
    states = "all states in half precision" if layout.shard == 3 else "half-precision gradients"
    return f"{states}, {'inputs of layers on the host' if layout.recompute == 'full' else 'half of the activations'}"


def band_text(by_stage: Sequence[StageMemory], capacity: float, layout: TrainingLayout) -> list[str]:
    """Band of the fullest stage beside a capacity in bytes, and what it holds; the other stages. A list of lines."""
    most = fullest(by_stage)
    beyond = ", ".join(f"{name} {size / 1e9:.2g}" for name, size in most.beyond.items() if size > 0)
    lines = [
        f"{fit_of(by_stage, capacity)} in {capacity / 1e9:.4g} GB: {most.low / 1e9:.3g} GB ({spared(layout)}) "
        f"to {most.high / 1e9:.3g} GB; beyond the formulas at most {beyond}: a judgement"
    ]
    if len(by_stage) > 1:
        each = ", ".join(
            f"{stage.stage + 1}: {stage.counted.total / 1e9:.3g} ({stage.low / 1e9:.3g} .. {stage.high / 1e9:.3g})"
            for stage in by_stage
        )
        lines.append(f"memory by stage of {layout.pipeline} [GB]: {each}")
    return lines
