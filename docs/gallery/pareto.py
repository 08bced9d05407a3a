"""A front of serving layouts, and the pick

Each point is a layout of at most eight devices under a number of users. The pick gives the most tokens/s of a device
among those that keep both limits.
"""

import matplotlib.pyplot as plt

import slipstick as ss

names = {"h100-sxm": "C0", "h200-sxm": "C2", "l40s": "C1"}
limits = {"ttft": 0.5, "tpot": 0.02}
plan = ss.plan_serving("llama-3.1-8b", list(names), dtype=["bf16", "fp8"], limit=limits)

figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
for name, colour in names.items():
    of_machine = [one for one in plan.candidates if one.machine == name]
    for stored, filled in (("bf16", "none"), ("fp8", colour)):
        shown = [one for one in of_machine if one.stored == stored]
        points = [one.per_user for one in shown], [one.per_device for one in shown]
        axes.plot(*points, "o", color=colour, mfc=filled, alpha=0.5, markersize=5, label=f"{name}, {stored}")
front = []
for one in sorted(plan.candidates, key=lambda one: -one.per_user):
    if not front or one.per_device > front[-1].per_device:
        front.append(one)
axes.plot([one.per_user for one in front], [one.per_device for one in front], color="0.4", linewidth=1, label="front")
pick = plan.best
axes.plot(pick.per_user, pick.per_device, "*", color="C3", markersize=18, label="pick")
times = f"TTFT {pick.ttft * 1e3:.0f} ms, TPOT {pick.tpot * 1e3:.1f} ms"
axes.annotate(
    f"pick: {pick.machine}, {pick.stored}, {pick.users} users\n{times}",
    (pick.per_user, pick.per_device),
    (14, -4),
    textcoords="offset points",
)
axes.axvline(1 / limits["tpot"], color="C3", linestyle=":")
axes.text(49, 8050, "20 ms a token", color="C3", rotation=90, fontsize=9, ha="right", va="bottom")
axes.set(xscale="log", xlabel="tokens/s of a user", ylabel="tokens/s of a device")
axes.set_xticks([20, 50, 100, 200, 400], [20, 50, 100, 200, 400])
axes.minorticks_off()
axes.set_title("Serving Llama 3.1 8B, 1,024 tokens in and 256 out: TTFT within 500 ms, TPOT within 20 ms")
axes.set_ylim(-300, 11800)
axes.legend(ncols=4, fontsize=9, loc="upper right")
axes.grid(alpha=0.2)
figure.savefig("pareto.png", dpi=110)
