"""Phases of a training run

TPUPoint's k-means sees what each step does, and not the schedule. It finds the larger input and the slow loader;
evaluation does much the same as training and is not set apart. The run was recorded on a host without a TPU.
"""

from itertools import groupby
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import slipstick as ss

recorded = Path(ss.__file__).parent / "experiments/papers/tpupoint/recorded_run.jsonl.gz"
report = ss.phases(recorded, method="k-means")
steps, found = report.table.steps, np.array(report.labels)
numbers = np.arange(len(steps))
durations = np.array([step.duration for step in steps])
given = [step.label for step in steps]

figure, (above, below) = plt.subplots(2, 1, figsize=(11, 5), sharex=True, height_ratios=(4, 1), layout="constrained")
for colour, phase in enumerate(sorted(set(found), key=lambda phase: -durations[found == phase].sum())):
    inside = found == phase
    share = 100 * durations[inside].sum() / durations.sum()
    label = f"phase {colour + 1}: {share:.0f} % of the time"
    above.plot(numbers[inside], durations[inside] * 1e3, "o", color=f"C{colour}", markersize=3, label=label)
    below.vlines(numbers[inside], 1, 2, color=f"C{colour}", linewidth=2)
kinds = list(dict.fromkeys(given))
for number, kind in zip(numbers, given, strict=True):
    below.vlines(number, -0.2, 0.8, color=f"{0.9 - 0.5 * kinds.index(kind) / len(kinds):.2f}", linewidth=2)
start = 0
for kind, stretch in groupby(given):
    long = len(list(stretch))
    if long >= 20:
        below.text(start + long / 2, 0.3, kind, ha="center", va="center", fontsize=7)
    start += long
below.set(yticks=[0.3, 1.5], yticklabels=["schedule", "found"], xlabel="step of the run", xlim=(0, len(steps)))
above.set(yscale="log", ylabel="time of a step [ms]")
above.set_title("TPUPoint's k-means on a training run with checkpoints, evaluation and a slow loader")
above.set_yticks([20, 50, 100, 200], [20, 50, 100, 200])
above.minorticks_off()
above.legend(ncols=3, fontsize=9)
above.grid(alpha=0.2)
figure.savefig("phases.png", dpi=110)
