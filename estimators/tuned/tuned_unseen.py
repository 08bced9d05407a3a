"""Machines that nobody measured: kernels of PyTorch programs (`operation/gpu/program_kernels.py`) before one was timed,
and the mixing of several predictions (`estimators/learning/mixing.py`).

version: 1
chosen on: KernelBench v0.1, eager, an H100 SXM, an H100 PCIe and an L40S, each device left out with its family and each
    program in ten folds (docs/notes/programs.md); layers of experts and latent attention of public serving stacks, each
    generation left out (docs/notes/gpu-operations.md): the best of a few round values.
refit: ``slipstick validate --refit programs`` fits the shares and seconds, about which the first constants say what is
    expected; these are changed by hand and scored with ``slipstick validate programs`` and ``experts``.
scored on the same data: yes, devices, generations and programs left out, but these values saw all of them.
"""

from __future__ import annotations

EFFICIENCY = {"compute": (0.7, 0.7), "memory": (0.85, 0.4)}
"""Share that a class reaches before anything is known, and spread of its logarithm."""
FEATURE, SECONDS = 0.25, 0.5
"""Spreads of the logarithms of a convolution's features, and of times."""
BEFORE = {"gap": 2e-6, "step": 9e-6, "issue": 15e-6}
"""Seconds between kernels, of a recurrent step at `STEP_CLOCK`, and of the host for an operation."""
STEP_CLOCK = 1.9e9
"""Steps wait for latencies, which are a number of cycles: an L40S (2.5 GHz) takes 0.6 of an H100's time."""
KEPT_BYTES = 2.0
"""Bytes moved by an operation over the capacity of the last cache at which half of them are found there: what it reads
was written just before, so that only about half of its bytes lie between. Of 0.25, 0.5, 1 and 2 the best."""
INLINE_ECC = 0.87
"""Share of the bandwidth that check bits among the data leave (`Level.ecc`): additions on a T4 and a P4 reach 0.76 of
the data sheet, on NVIDIA's boards with HBM (P100, V100, two A100) 0.87 at the geometric mean (NeuSight, the fits of
``--refit operations``). No program of the scoreboard ran on these."""
FLOP_A_CYCLE, BYTES_A_CYCLE = 4096.0, 32.0
"""What a core's kernels work off in a clock cycle where neither peak nor memory binds them: the mma instructions of
Ampere, which libraries run on newer cores as well, on numbers of a byte (wider ones in proportion: 1,024 of TF32, 2,048
of 16 bits; NVIDIA A100 whitepaper, 2020, table 4), and a quarter of the nearest cache."""
CYCLES, SLOW_CYCLES, CYCLES_SPREAD = 0.0, 1.5, 0.7
"""Log slowness against these rates before anything is known, for most classes and for `SLOW`, and its spread."""
SLOW = ("pool", "convolution.depthwise", "convolution.grouped", "convolution.transposed3")
"""Classes whose kernels cores bound, not the memory: an L40S is two to three times nearer to an H100 in them."""
CYCLES_OF_ROWS = -0.5
"""The same of norms and softmax, whose blocks have a share of a core's threads: a block alone is faster than its share.
Of 0.5 and -0.5 the better on KernelBench v0.1."""
SOFT = 0.15
"""Log error beyond which a row counts less."""
LARGEST = 1.0
"""Log errors beyond count as this."""
STRENGTH = 0.1
"""What the expected weights count for: a weight off by one costs as much as a log error of so much in one group."""
OTHER_CLOSENESS = 0.03
"""Weight of a group whose nearest known relative is nearer or farther than the target's, or of another memory."""
PROGRAMS_STRANGER = {"formula": 0.5, "others over the formula": 0.4, "nearest by roofline": 0.1}
PROGRAMS_RELATIVE = {"formula": 0.1, "others over the formula": 0.8, "nearest by roofline": 0.1}
"""Weights expected for programs: no device of the generation is known, and one is."""
CHANGES = {"formula": 0.2, "nearest": 0.8}
"""Weights of the kernels' formula and of the nearest device for what compiling changes on another device."""
ALIKE = {
    "experts": {
        "formula": 0.1,
        "nearest over the formula": 0.5,
        "nearest by bandwidth": 0.3,
        "nearest unchanged": 0.1,
    },
    "prefill": {
        "formula": 0.2,
        "nearest over the formula": 0.7,
        "nearest by bandwidth": 0.0,
        "nearest unchanged": 0.1,
    },
    "decode": {
        "formula": 1.0,
        "nearest over the formula": 0.0,
        "nearest by bandwidth": 0.0,
        "nearest unchanged": 0.0,
    },
}
"""Weights expected where a machine with the same memory technology (HBM, GDDR) is known."""
OTHER_MEMORY_WEIGHTS = {
    "experts": {
        "formula": 0.2,
        "nearest over the formula": 0.4,
        "nearest by bandwidth": 0.0,
        "nearest unchanged": 0.4,
    },
    "prefill": {
        "formula": 0.5,
        "nearest over the formula": 0.0,
        "nearest by bandwidth": 0.0,
        "nearest unchanged": 0.5,
    },
    "decode": {
        "formula": 0.5,
        "nearest over the formula": 0.0,
        "nearest by bandwidth": 0.0,
        "nearest unchanged": 0.5,
    },
}
"""Where none is: libraries are not tuned for such a machine, and times change less than rooflines do."""
SHAPES, SHAPES_REACH, FADES = 4, 0.1, 4.0
"""Nearest shapes that are averaged, octaves within which they count alike, and octaves over which they fade."""
ALIKE_SPREAD, OTHER_MEMORY_SPREAD = 0.2, 0.5
"""Standard deviations of log times where no group left out stands to its relatives as the target does."""
