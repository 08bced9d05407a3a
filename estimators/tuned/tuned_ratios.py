"""Bands of ratios between two answers of one model (`estimators/core/ratio_band.py`).

version: 1
chosen on: products and attention in 16 bits and FP8 on B200, B300, GB200 and GB300 (aiconfigurator), each from each
    other, and of 2, 4 and 8 times the rows or twice the length on those and an L40S, in no fit: the values that put
    80 % of the measured ratios into their bands. `SAME_OPERATIONS` and `NEAR` are judgements.
refit: ``python -m slipstick.experiments.evidence.validation.whatif.ratio_spread`` prints both; changed by hand.
scored on the same data: no; ``slipstick validate whatif`` scores pairs of other generations.
"""

from __future__ import annotations

OTHER_MACHINE = 0.094
"""Standard deviation of the log ratio of two machines that the model finds as fast: hosts, clocks that a run reaches,
which kernel the library takes."""
NEAR = 0.05
"""Log change of a field at which 63 % of that variance is there: a machine that differs by less is nearly the same."""
SAME_OPERATIONS, OTHER_SIZES = 2.0, 0.64
"""Log ratio of times over which two errors of a model part by 1 - 1/e in variance: of the same operations on a changed
machine (residuals of equal shapes on kin GPUs correlate by 0.6 to 0.9, docs/notes/gpu-operations.md), and of operations
of other sizes."""
