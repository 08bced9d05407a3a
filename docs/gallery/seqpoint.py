"""SeqPoint: a few iterations that stand for an epoch

Chosen by sequence length, a handful of iterations gives the epoch's time within about one per cent. As many drawn at
random miss it by ten and more. The iterations are predicted ones with 3 % of noise.
"""

import matplotlib.pyplot as plt
import numpy as np

import slipstick as ss

random = np.random.default_rng(0)
lengths = np.clip(np.round(random.lognormal(3.2, 0.6, 4000)), 4, 120)  # of sentences, as in a corpus of translation
known = np.unique(lengths)
times = ss.whatif("gnmt", "vega-fe", {"workload.seq_len": known}).frame.time_s.to_numpy()
noise = random.lognormal(0, 0.03, len(lengths))
epoch = ss.runs.Iterations(lengths, np.interp(lengths, known, times) * noise, proxy="sequence length")

counts = np.arange(1, 16)
errors = []
for bins in counts:
    chosen = ss.seqpoint(epoch, threshold=1, bins=int(bins), error=0.99)
    errors.append(100 * abs(chosen.project(chosen.times).total / epoch.times.sum() - 1))
by_chance = []  # as many iterations, drawn at random and scaled up
for count in counts:
    drawn = random.choice(epoch.times, (2000, count)).mean(axis=1) / epoch.times.mean() - 1
    by_chance.append(100 * np.quantile(abs(drawn), (0.5, 0.9)))
shown = ss.seqpoint(epoch, threshold=1, bins=8, error=0.99)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
left.plot(lengths, epoch.times * 1e3, ".", color="0.75", markersize=3, label=f"{len(lengths):,} iterations of an epoch")
area = 20 + 400 * shown.weights / shown.weights.max()
left.scatter(shown.lengths, np.array(shown.times) * 1e3, area, color="C3", alpha=0.7, label="chosen (area: weight)")
left.set(
    xlabel="sequence length [tokens]",
    ylabel="time of an iteration [ms]",
    title=f"{len(shown)} iterations that stand for all",
)
middle, worse = np.transpose(by_chance)
right.plot(counts, middle, "--", color="0.4", label="drawn at random, median")
right.plot(counts, worse, ":", color="0.4", label="drawn at random, 90th percentile")
right.plot(counts, errors, "o-", color="C3", label="SeqPoint")
right.legend()
right.set(xlabel="iterations chosen", ylabel="error of the epoch's time [%]", title="and their error", yscale="log")
right.set_yticks([0.1, 0.3, 1, 3, 10, 30, 100], [0.1, 0.3, 1, 3, 10, 30, 100])
left.legend()
for axes in (left, right):
    axes.grid(alpha=0.2)
figure.suptitle("SeqPoint on GNMT, Radeon Vega Frontier Edition")
figure.savefig("seqpoint.png", dpi=110)
