"""A what-if: how much faster does a training step get with more bandwidth, and where does that end?"""

import numpy as np

import slipstick as ss

factors = np.array([1.0, 1.25, 1.5, 2.0, 3.0])
v100 = ss.machine("v100-sxm")
result = ss.whatif(
    ss.workload("gnmt"),
    v100,
    {"machine.memory.HBM2.bandwidth": factors * v100.bandwidth("HBM2")},
    estimator="roofline",
)
for factor, ratio in zip(factors, result.to_frame().time_ratio, strict=True):
    print(f"{factor:4.2f} x the bandwidth: {1 / ratio:4.2f} x as fast")

print(
    "bound by:", ", ".join(f"{row['bound_by']} {row['share']:.0%}" for row in ss.analysis.bottleneck_rows(result.today))
)
