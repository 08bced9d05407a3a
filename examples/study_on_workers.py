"""A study on several workers: every combination kept in a folder, the same bytes whoever computes them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import slipstick as ss

STUDY = """
schema = "slipstick-study-1"
name = "caches"
workloads = ["gnmt"]
machines = ["v100-sxm", "mi25"]
estimator = "roofline"

[vary]
"machine.clock" = ["1 GHz", "1.25 GHz", "1.5 GHz"]
"workload.batch" = [16, 64]
"""

with TemporaryDirectory() as folder:
    path = Path(folder) / "study.toml"
    path.write_text(STUDY)
    study = ss.load_study(path)
    with ThreadPoolExecutor(2) as workers:
        store = ss.run_study(study, Path(folder) / "results", workers)
    frame = store.frame()
    print(f"{len(frame)} points in {len(study.workloads) * len(study.machines)} cases")
    best = frame.loc[frame.groupby("machine").time_s.idxmin()]
    print(best[["machine", "machine.clock", "workload.batch"]].to_string(index=False))
