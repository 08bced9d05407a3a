"""A job of your own, fitted to the steps that you measured, through its simulation; then a what-if with its band."""

from itertools import pairwise
from pathlib import Path

import slipstick as ss

Path("job.yaml").write_text("""
name: my loaders and my accelerator
steps: 100
resources: {cores: 4}
stages:
  - {name: decode, service: 50 ms, variation: 0.3, workers: 8, buffer: 4, resource: cores}
  - {name: step, service: 10 ms}
""")
# your log has one line a step; here they come from a run whose decoders take 80 ms, and 2 s to begin
truth = ["job.decode.service=80 ms", "job.decode.start_up=2 s"]
ends = [0.0, *ss.simulate("job.yaml", settings=truth, runs=1, seed=5).first.step_ends()]
steps = [after - before for before, after in pairwise(ends)]
Path("steps.csv").write_text("step_s\n" + "".join(f"{seconds:.5f}\n" for seconds in steps))

fitted = ss.runs.fit_job("job.yaml", "steps.csv", ["job.decode.service", "job.decode.start_up"])
for row in fitted.rows():
    print(f"{row['parameter']}: {row['value']:.3g} {row['unit']} (80 %: {row['low']:.3g} .. {row['high']:.3g})")
fitted.calibration.save("fitted.json")

known = ss.runs.load_job_calibration("fitted.json")
today = ss.simulate("job.yaml", runs=20, calibration=known)
more = ss.simulate("job.yaml", runs=20, calibration=known, settings=["job.resources.cores=8"])
ratios = sorted(more.numbers["time_s"] / today.numbers["time_s"])
print(f"eight cores in place of four: {ratios[10]:.2f} of the time (80 %: {ratios[2]:.2f} .. {ratios[17]:.2f})")
