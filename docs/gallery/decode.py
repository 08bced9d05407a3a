"""Decoding on four machines

With few sequences the tokens/s grow with the batch, since each weight is read once for all. With many, the KV caches of
the sequences and the arithmetic bound them.
"""

import matplotlib.pyplot as plt
import numpy as np

import slipstick as ss

users = np.unique(np.round(np.geomspace(1, 256, 25)))
figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
for name in ("h200-sxm", "h100-sxm", "a100-sxm-80gb", "l40s"):
    frame = ss.whatif("decode:llama-3.1-8b", name, {"workload.decodes": users}).frame
    (line,) = axes.plot(users, users / frame.time_s, linewidth=2, label=ss.machine(name).name)
    axes.fill_between(users, users / frame.high_s, users / frame.low_s, color=line.get_color(), alpha=0.15, linewidth=0)
axes.set(xscale="log", yscale="log", xlabel="sequences that decode together", ylabel="tokens/s of a device")
axes.set_xticks([1, 2, 4, 8, 16, 32, 64, 128, 256], [1, 2, 4, 8, 16, 32, 64, 128, 256])
axes.set_yticks([50, 100, 200, 500, 1000, 2000, 5000, 10000], ["50", "100", "200", "500", "1 k", "2 k", "5 k", "10 k"])
axes.minorticks_off()
axes.set_title("Decoding Llama 3.1 8B in BF16 on one device, with 80 % bands")
axes.legend()
axes.grid(alpha=0.2)
figure.savefig("decode.png", dpi=110)
