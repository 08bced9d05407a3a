"""What libraries reach beside those on Hopper, at the same numbers of the data sheet, from kernels timed alone.

No served model is in these ratios: they are what the law of a step expects of a maker or a generation before any of its
servers was measured, and its effects are fitted about them. Those that are not named are expected to reach what Hopper
does.

AMD under ROCm, on MI300X (``python -m slipstick.experiments.scoreboards.serving.vendor_libraries``):

- kernels of no bytes: the same two programs on an MI300X and an H100 (TraceLens): the tenth percentile of a kernel's
  time is 4.3 and 4.9 us where it is 2.2 us; RCCL's base latencies are 1.8 and 2.0 times NCCL's
  (`interconnect/collective_libraries.py`).
- products: 708 of 1,307 TFLOP/s in bfloat16 and 1,273 of 2,615 in float8 at most (AMD, "Measuring Max-Achievable FLOPs,
  Part 2", 28 February 2025) where H100 and H200 reach .79 and .70 of their peaks. That is of CDNA 3, whose cap lowers
  the clock: one half of an MI250X reaches as much of its peak as an H100 (.77 and .80, stas00/ml-engineering, b9e2972).
- memory: triad at 3,885 of 5,300 GB/s (AMD's acceptance test of an MI300X by BabelStream) where V100, A100 and H100
  reach .89 of their data sheets.

Generations of NVIDIA (``python -m slipstick.experiments.scoreboards.serving.generation_libraries``): the same
calls under SGLang 0.5.10 on A100, L40S and four Blackwell boards, over those on H100 and H200. Products of FP8 in
blocks are left out of the fixed times, since the law has a parameter of its own for what blocks add.

A GB10's memory controller: a pure read reaches .85 of what its LPDDR5X states, where those of HBM reach .89 of theirs.
Other machines with LPDDR reach .40 to .71, so that it is no ratio of the memory's kind.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VendorEfficiency:
    """Times over those on Hopper at the same share of the data sheet.

    Parameters
    ----------
    reading, computing
        Of bytes, and of products.
    fixed
        Of kernels and messages that no bytes explain.
    """

    reading: float = 1.0
    computing: float = 1.0
    fixed: float = 1.0


MAKERS = {
    "amd-cdna3": VendorEfficiency(reading=1.2, computing=1.45, fixed=2.0),
    "amd": VendorEfficiency(reading=1.2, fixed=2.0),
    "nvidia-ampere": VendorEfficiency(computing=0.85, fixed=1.4),
    "nvidia-ada": VendorEfficiency(computing=1.2, fixed=0.95),
    "nvidia-blackwell-gb10": VendorEfficiency(reading=0.89 / 0.85, computing=1.05, fixed=0.9),
    "nvidia-blackwell": VendorEfficiency(computing=1.05, fixed=0.9),
}


def libraries_of(family: str) -> VendorEfficiency:
    """Of a machine's family, "amd-cdna3": what is known of its generation, else of its maker."""
    return next((known for name, known in MAKERS.items() if family.startswith(name)), VendorEfficiency())
