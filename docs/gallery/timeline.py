"""A simulated timeline of a server

Requests that arrive together wait for each other's prompts, and every prompt delays the tokens of all that decode.
"""

import matplotlib.pyplot as plt
import numpy as np

import slipstick as ss

rate, shown = 25.0, 70
served = ss.serve("llama-3.1-8b", "h100-sxm", rate=rate, input_tokens=1024, output_tokens=128).served
order = np.argsort(served.arrived)[:shown]
rows = np.arange(shown)

figure, (above, below) = plt.subplots(2, 1, figsize=(11, 6), sharex=True, height_ratios=(3, 1), layout="constrained")
for start, end, colour, label in (
    (served.arrived, served.placed, "0.75", "waiting"),
    (served.placed, served.first, "C1", "prefill"),
    (served.first, served.last, "C0", "decoding"),
):
    above.barh(rows, (end - start)[order], 0.8, start[order], color=colour, label=label)
above.set(ylabel="request, by arrival", ylim=(shown, -1))
above.set_title(f"Llama 3.1 8B on an H100: {rate:g} requests/s of about 1,024 tokens in and 128 out, simulated")
above.legend(loc="lower left")
edges, together = served.stretches[:, 1], served.stretches[:, 4]
below.step(edges, together, where="post", color="C0")
below.set(xlabel="time [s]", ylabel="sequences that\ndecode together", xlim=(0, served.last[order].max()), ylim=0)
for axes in (above, below):
    axes.grid(alpha=0.2)
figure.savefig("timeline.png", dpi=110)
