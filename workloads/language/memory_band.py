"""What a device holds in training beyond its formulas, as a band; and whether that fits.

The parts of `TrainingMemory` follow from formulas. The band about them is a judgement, not a fit; its ends:

- low: gradients in half precision (`training_memory` counts four bytes) and half of the activations: Transformer Engine
  keeps the FP8 copies of a product's inputs, Megatron computes single modules again (`--recompute-modules`). Chosen
  with 77 published layouts of Megatron-Bridge seen, which all ran: without it 34 of them would not fit. Where weights
  are shared out (FSDP), states are half precision in all (eight bytes a parameter: MaxText's `weight_dtype: bfloat16`,
  PyTorch's pure bfloat16), no copy of the weights lies beside them, and one layer is whole. Where layers are computed
  again, their inputs may lie on the host (MaxText's `decoder_layer_input: offload`, PyTorch's `save_on_cpu`);
- high: the parts, and the most of what no formula has.

Sources of the high end: CUDA context and loaded kernels, 1 to 2 GB (Hugging Face Transformers, "Model training
anatomy"); NCCL's buffers, NCCL_BUFFSIZE of 4 MiB for each channel and direction of a communicator (NCCL user guide,
environment variables), 32 channels assumed; cuBLAS workspaces, 32 MiB on Hopper (cuBLAS API reference,
cublasSetWorkspace), four streams assumed; fragments of PyTorch's caching allocator, 15 % on the mean of eight language
models and up to 33 % (Guo et al., "GMLake", ASPLOS 2024, arXiv 2401.08156), here of what is allocated anew each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstick.workloads.language.training_layout import TrainingLayout
from slipstick.workloads.language.training_memory import GRADIENT_BYTES, WEIGHT_BYTES, TrainingMemory

SPARED = 0.5
"""Share of the activations that a stack need not keep."""
CONTEXT = 2e9
"""Bytes of the CUDA context and loaded kernels at most."""
COMMUNICATOR = 32 * 2 * 4 * 2.0**20
"""Bytes of one NCCL communicator at most: channels, directions, NCCL_BUFFSIZE."""
WORKSPACES = 4 * 32 * 2.0**20
"""Bytes of cuBLAS workspaces at most."""
GIB_OVER_GB = 2.0**30 / 1e9
"""What a data sheet's GB of memory may be more than 10^9 bytes."""
FRAGMENTS = 0.15
"""Share of activations and logits that the allocator holds and cannot use, at most."""


@dataclass(frozen=True)
class StageMemory:
    """Memory of one device of one stage with its band, in bytes.

    `stage`: 0 the first.
    `counted`: what formulas give.
    `least`: bytes at least, by what software can spare.
    `beyond`: the most of each part that no formula has.
    """

    stage: int
    counted: TrainingMemory
    beyond: Mapping[str, float]
    least: float

    @property
    def low(self) -> float:
        """Bytes at least: gradients in half precision, half of the activations; less where weights are shared out."""
        return self.least

    @property
    def high(self) -> float:
        """Bytes at most: what formulas count and all parts beyond them."""
        return self.counted.total + sum(self.beyond.values())

    def fits(self, capacity: float) -> str:
        """`fits`, `may not fit` or `does not fit`, in a capacity of so many bytes by the data sheet.

        Vendors mean GiB where they write GB: what lies between the two does not surely not fit.
        """
        if self.high <= capacity:
            return "fits"
        return "may not fit" if self.low <= capacity * GIB_OVER_GB else "does not fit"


def with_band(memory: TrainingMemory, layout: TrainingLayout, stage: int = 0) -> StageMemory:
    """The band about the memory of a stage.

    Examples
    --------
    >>> one = with_band(TrainingMemory(2e9, 4e9, 12e9, 10e9, 0.0), TrainingLayout())
    >>> [round(size / 1e9, 1) for size in (one.low, one.counted.total, one.high)], one.fits(30e9)
    ([21.0, 28.0, 31.6], 'may not fit')
    """
    degrees = (layout.tensor, layout.pipeline, layout.data, layout.context, layout.expert)
    beyond = {
        "CUDA context": CONTEXT,
        "communication buffers": COMMUNICATOR * sum(degree > 1 for degree in degrees),
        "workspaces": WORKSPACES,
        "fragments": FRAGMENTS * (memory.activations + memory.logits),
    }
    return StageMemory(stage, memory, beyond, _least(memory, layout))


def _least(memory: TrainingMemory, layout: TrainingLayout) -> float:
    """Bytes that software needs at least for what was counted: see the module."""
    half = WEIGHT_BYTES / GRADIENT_BYTES
    activations = memory.again if layout.recompute == "full" and memory.again else (1 - SPARED) * memory.activations
    passing = activations + memory.logits
    if layout.shard == 3:
        return memory.gathered / 2 + half * (memory.gradients + memory.optimizer) + passing
    return memory.weights + half * memory.gradients + memory.optimizer + passing
