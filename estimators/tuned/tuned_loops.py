"""What streams and stencils reach of a CPU's data sheet (`estimators/operation/cpu/saturating_loops.py`).

version: 3
chosen on: likwid-bench bandwidths of twelve CPUs in main memory, five loops, one thread a core
    (cpu/bandwidth_scaling.csv): a law in log time whose shares differ by CPU (`estimators/learning`).
refit: ``python -m slipstick.experiments.evidence.validation.cpu.loop_scores``; ``slipstick validate bandwidth`` scores.
scored on the same data: no; the board chooses all but `SCATTER` anew for each CPU that it leaves out.
"""

from __future__ import annotations

EFFICIENCY = 0.790
"""Share of the data sheet's memory bandwidth that a full NUMA domain reaches."""
ONE_CORE = 0.863
"""Share of the ECM model's speed that one core reaches in main memory: latencies bound it, not the path."""
SHARPNESS = 3.21
"""Exponent of the saturation between the two."""
SCATTER = 0.165
"""Standard deviation of the normal law whose 80 % band holds 80 % of the times on CPUs left out."""
ELSEWHERE = 0.4
"""The same on processors of other makers and on Xeon Phi, of which one (A64FX) was measured; a judgement."""
MAKERS, BESIDE = ("intel-", "amd-zen"), ("intel-knights",)
"""Families by their beginning that `SCATTER` speaks of, and those among them that it does not."""
OTHER_LOOP = 0.1
"""The same between the loop of a measured curve and others; a judgement."""
