"""Memory by stage of a layout beside what a device has."""

from __future__ import annotations

from collections.abc import Sequence

from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.memory_band import StageMemory, with_band
from slipstick.workloads.language.training_layout import TrainingLayout
from slipstick.workloads.language.training_memory import stage_memories

FITS = ("fits", "may not fit", "does not fit")
"""Best first."""


def stages(model: LanguageModel, layout: TrainingLayout, batch: int, sequence: int) -> tuple[StageMemory, ...]:
    """Memory of the first, second and last stage; those between hold less than the second."""
    ends = sorted({0, min(1, layout.pipeline - 1), layout.pipeline - 1})
    counted = stage_memories(model, layout, batch, sequence, ends)
    return tuple(with_band(memory, layout, stage) for memory, stage in zip(counted, ends, strict=True))


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
