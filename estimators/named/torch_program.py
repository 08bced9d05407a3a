"""A PyTorch program on a GPU: what its operations take as whole programs have shown, issued by one host."""

from __future__ import annotations

from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.operation.gpu.program_kernels import trained
from slipstick.estimators.schedule.host_issue import HostIssue

SCATTER = 0.35
"""Standard deviation of the normal law whose 80 % band holds 80 % of the programs of KernelBench v0.1 that were left
out, on GPUs whose generation was left out (`slipstick validate programs`)."""


def torch_program() -> Calibration:
    """Forward passes in eager mode, float32 as PyTorch computes it: TF32 in dense convolutions, not in products."""
    kernels, issue = trained()
    estimator = Composite(kernels, HostIssue(issue=issue), "kernels of PyTorch programs, issued by one host")
    source = "625 times of PyTorch programs on two H100 and an L40S (KernelBench v0.1, eager)"
    return Calibration(estimator, (), residual_std=SCATTER, source=source)
