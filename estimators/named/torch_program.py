"""A PyTorch program on a GPU: what its operations take as whole programs have shown, issued by one host."""

from __future__ import annotations

from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.operation.gpu.program_kernels import trained
from slipstick.estimators.schedule.host_issue import HostIssue
from slipstick.estimators.tuned.tuned_defaults import PROGRAMS


def torch_program() -> Calibration:
    """Forward passes in eager mode, float32 as PyTorch computes it: TF32 in dense convolutions, not in products."""
    kernels, issue = trained()
    estimator = Composite(kernels, HostIssue(issue=issue), "kernels of PyTorch programs, issued by one host")
    source = "625 times of PyTorch programs on two H100 and an L40S (KernelBench v0.1, eager)"
    return Calibration(estimator, (), residual_std=PROGRAMS, source=source)
