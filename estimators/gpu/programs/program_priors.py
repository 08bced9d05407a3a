"""Machines that nobody measured: kernels of PyTorch programs (`gpu/programs`) before one was timed, and the
nearest shapes of a machine that stands for another.

version: 2
chosen on: KernelBench v0.1, eager, an H100 SXM, an H100 PCIe and an L40S, each device left out with its family and each
    program in ten folds (docs/notes/programs.md): expectations of `ProgramLaw`. Shapes: layers of experts and latent
    attention of public serving stacks (docs/notes/gpu-operations.md). No weight of a prediction is typed: see
    `experiments/scoreboards/experts/ensemble_weights.py`.
refit: ``slipstick validate --refit programs`` fits the shares and seconds, about which the first constants say what is
    expected; these are changed by hand and scored with ``slipstick validate programs`` and ``experts``.
scored on the same data: yes, devices, generations and programs left out, but these values saw all of them.
"""

from __future__ import annotations

EFFICIENCY = {"compute": (0.7, 0.7), "memory": (0.85, 0.4)}
"""Share that a class reaches before anything is known, and spread of its logarithm."""
FEATURE, SECONDS, TYPE = 0.25, 0.5, 0.25
"""Spreads of the logarithms of a convolution's features, of times, and of what a data type changes of a share."""
BEFORE = {"gap": 2e-6, "step": 9e-6, "issue": 15e-6}
"""Seconds between kernels, of a recurrent step at `STEP_CLOCK`, and of the host for an operation."""
KEPT_BYTES = 2.0
"""Bytes moved by an operation over the capacity of the last cache at which half of them are found there: what it reads
was written just before, so that only about half of its bytes lie between."""
INLINE_ECC = 0.87
"""Share of the bandwidth that check bits among the data leave (`Level.ecc`): additions on a T4 and a P4 reach 0.76 of
the data sheet, on NVIDIA's boards with HBM (P100, V100, two A100) 0.87 at the geometric mean (NeuSight, the fits of
``--refit operations``). No program of the scoreboard ran on these."""
FLOP_A_CYCLE, BYTES_A_CYCLE = 4096.0, 32.0
"""What a core's kernels work off in a clock cycle where neither peak nor memory binds them: the mma instructions of
Ampere, which libraries run on newer cores as well, on numbers of a byte (wider ones in proportion: 1,024 of TF32, 2,048
of 16 bits; NVIDIA A100 whitepaper, 2020, table 4), and a quarter of the nearest cache."""
CYCLES_SPREAD = 0.7
"""Spread of the log slowness against these rates, of which 1 is expected."""
SHAPES, SHAPES_REACH = 4, 0.1
"""Nearest shapes that are averaged, and octaves within which they count alike."""
