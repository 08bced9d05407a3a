"""An extrapolation beyond what was measured

The fit knows batches up to 64 and has to answer for 512. Its band is wide; what was measured there lies above its
middle, because the steps grow faster from 64 on, and within the band.
"""

import csv

import matplotlib.pyplot as plt
import numpy as np

import slipstick as ss

with open("runs.csv") as file:
    rows = [(float(row["workload.batch"]), float(row["time_s"])) for row in csv.DictReader(file)]
batch, seconds = np.array(rows).T
known = batch <= 64
asked = np.array([96.0, 128, 192, 256, 384, 512])
answer = ss.extrapolate(ss.Series.of(batch[known], seconds[known], parameter="batch"), asked)

figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
axes.fill_between(asked, np.array(answer.low) * 1e3, np.array(answer.high) * 1e3, color="C1", alpha=0.25)
axes.plot(asked, np.array(answer.value) * 1e3, color="C1", linewidth=2, label="extrapolated, with 80 % band")
axes.plot(batch[known], seconds[known] * 1e3, "o", color="k", label="measured, known to the fit")
axes.plot(batch[~known], seconds[~known] * 1e3, "o", mfc="none", color="k", label="measured, not known to it")
axes.axvline(64, color="0.6", linestyle=":")
axes.set(xscale="log", yscale="log", xlabel="batch [examples]", ylabel="time of a step [ms]")
axes.set_xticks([1, 2, 4, 8, 16, 32, 64, 128, 256, 512], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
axes.set_yticks([10, 20, 50, 100, 200, 500], [10, 20, 50, 100, 200, 500])
axes.minorticks_off()
axes.set_title("Steps of a network on one core, measured up to 64 examples and asked for 512")
axes.legend()
axes.grid(alpha=0.2)
figure.savefig("extrapolation.png", dpi=110)
