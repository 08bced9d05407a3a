"""A roofline with every operation of a network

Most convolutions reach half of the matrix units' peak and more. The elementwise operations between them take half
of the time, because they only move bytes.
"""

import matplotlib.pyplot as plt
import numpy as np

import slipstick as ss

question = ss.question("resnet50-inference", "a100-sxm-80gb", settings=["workload.batch=64"])
machine, parts = question.machine, question.answer().to_frame()
costs = [operation.cost for operation in question.workload.bound()]
flop = np.array([cost.flop for cost in costs])
intensity = flop / [cost.bytes_moved for cost in costs]

figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
ridge = np.geomspace(0.05, 1000, 200)
bandwidth = machine.bandwidth("HBM2e")
for engine, dtype, style in (("matrix", "tfloat32", "-"), ("vector", "float32", "--")):
    peak = machine.peak(engine, dtype)
    axes.plot(ridge, np.minimum(peak, ridge * bandwidth) / 1e12, style, color="0.3", linewidth=1.5)
    axes.text(900, peak / 1e12 * 1.12, f"{peak / 1e12:.3g} Tflop/s, {dtype}", ha="right", fontsize=9)
axes.text(0.09, 0.09 * bandwidth / 1e12 * 1.7, f"{bandwidth / 1e12:.3g} TB/s", rotation=33, fontsize=9)
for kind, colour in (("convolution", "C0"), ("gemm", "C3"), ("elementwise", "C1"), ("pool", "C2")):
    of_kind = (parts.kind == kind).to_numpy() & (flop > 0)
    share = parts.share[parts.kind == kind].sum()
    speed = flop / parts.time_s.to_numpy() / 1e12
    area = 15 + 3000 * parts.share.to_numpy()
    label = f"{kind}, {100 * share:.1f} % of the time"
    axes.scatter(intensity[of_kind], speed[of_kind], area[of_kind], color=colour, alpha=0.45, label=label, linewidths=0)
axes.set(xscale="log", yscale="log", xlim=(0.05, 1000), ylim=(0.05, 400))
axes.set(xlabel="arithmetic intensity [flop/byte]", ylabel="achieved [Tflop/s]")
axes.set_title("ResNet-50 inference, 64 images, on an A100 (area: share of the time)")
axes.legend(loc="lower right", markerscale=0.5)
axes.grid(alpha=0.2)
figure.savefig("roofline.png", dpi=110)
