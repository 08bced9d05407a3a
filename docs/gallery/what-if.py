"""What if the memory were faster?

Most of what a model misses, it misses for both machines alike. A ratio therefore has a narrower band than a time, and
near today's machine it is almost certain.
"""

import matplotlib.pyplot as plt
import numpy as np

import slipstick as ss

today = ss.machine("h100-sxm").memory["HBM3"].bandwidth
bandwidths = np.linspace(1.5e12, 8e12, 40)
answer = ss.whatif("llama-3-70b-decode", "h100-sxm", {"machine.memory.HBM3.bandwidth": bandwidths}, dtype="float8")
frame, x = answer.frame, bandwidths / 1e12

figure, axes = plt.subplots(figsize=(9, 4.6), layout="constrained")
whole = answer.today.time
axes.fill_between(x, frame.low_s / whole, frame.high_s / whole, color="0.88", label="80 % band of the time")
axes.fill_between(
    x, frame.low_ratio, frame.high_ratio, color="C0", alpha=0.3, label="80 % band of the ratio", linewidth=0
)
axes.plot(x, frame.time_ratio, color="C0", linewidth=2, label="time over today's time")
axes.plot(x, today / bandwidths, ":", color="0.3", label="if nothing but the memory counted")
for name, at in (("H100", 3.35), ("H200", 4.8), ("B200", 8.0)):
    axes.axvline(at, color="0.6", linewidth=0.8)
    axes.text(at - 0.04, 1.95, name, rotation=90, ha="right", va="top", fontsize=9)
axes.set(xlabel="memory bandwidth [TB/s]", ylabel=f"time of a token over today's {whole * 1e3:.3g} ms", ylim=(0, 2))
axes.set_title("Llama 3 70B in FP8 on an H100 with other memory")
axes.legend(loc="upper right", bbox_to_anchor=(0.93, 1))
axes.grid(alpha=0.2)
figure.savefig("what-if.png", dpi=110)
