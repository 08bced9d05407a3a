"""Prefill and decode on workers of their own, measured and simulated: ``python -m ...validation.serving.pools_apart``.

DeepSeek-R1 of InferenceX under Dynamo (`serving/inferencex.csv.gz`, mode disagg) with counts and sizes of both kinds of
workers, medians, no speculation; no row of it is in any fit. Beside ours stands what the same law answers for as many
devices that read prompts beside decoding, as copies of the decode worker. Where no link of the catalogue joins all
devices, each sends at 50 GB/s: one 400 Gbit/s port a GPU (data sheets of DGX H200 and DGX B200).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slipstick.estimators.named.serving.deployment import Deployment
from slipstick.estimators.named.serving.served_run import mean_batch, means, simulated_run
from slipstick.estimators.schedule.serving.closed_loop import Load, steady
from slipstick.estimators.schedule.serving.scheduler import Scheduler
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.validation.serving.inferencex import ENGINES, FILE, SYSTEMS
from slipstick.experiments.evidence.validation.serving.silicon import machine_of_system, model_named, stored_in
from slipstick.hwmodels.files.readers import InputError, read_csv_rows
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.runs.traffic import Traffic

PORT = 50e9
MOST_USERS = 512
"""Beyond it a simulation takes too long here, and most rows queue."""
SEQUENCES = 1024


@dataclass(frozen=True)
class Apart:
    """A measured row: seconds of the first and a further token, ours with half of the log band, and one pool's."""

    system: str
    measured: tuple[float, float]
    ours: tuple[float, float]
    half: tuple[float, float]
    together: tuple[float, float]


def rows(path: Path, refused: Counter[str]) -> Iterator[Apart]:
    """The rows that can be simulated; those that cannot are counted by reason."""
    for _, row in read_csv_rows(path, limit_rows=100_000):
        if row["mode"] != "disagg" or row["speculative"] != "0" or row["suspicious"]:
            continue
        try:
            yield _apart(row)
        except InputError as error:
            refused[str(error).partition(":")[0][:90]] += 1


def _layout(row: dict[str, str], kind: str) -> Layout:
    workers = int(float(row[f"{kind}_num_workers"]))
    if workers < 1:
        raise InputError("workers are not counted")
    each = round(float(row[f"{kind}_gpus"]) / workers)
    if row[f"{kind}_attention_dp"] not in ("", "0", "0.0"):
        return Layout(1, 1, each, each, workers)
    return Layout(each, 1, 1, int(float(row[f"{kind}_ep_size"] or 1)), workers)


def _apart(row: dict[str, str]) -> Apart:
    users = int(row["concurrency"])
    if users > MOST_USERS:
        raise InputError(f"more than {MOST_USERS} users")
    model, system = model_named(row["model"]), SYSTEMS.get(row["system"], row["system"])
    at, stored = machine_of_system(system), stored_in(model, row["precision"])
    engine = ENGINES[row["engine"].partition("-")[2]]
    decoding, reading = _layout(row, "decode"), _layout(row, "prefill")
    rules = Scheduler(max_sequences=SEQUENCES)
    plain = Deployment(model, at, decoding, stored, engine=engine, rules=rules)
    made = replace(plain, prefill=replace(plain, layout=reading))
    if not any(link.width >= made.devices for link in at.links.values()):
        made = replace(made, link_bandwidth=PORT)
    traffic = Traffic(int(row["input_tokens"]), int(row["output_tokens"]), users, count=max(64, 4 * users))
    served = simulated_run(made, traffic)
    first = made.reader.first_parts(*means(traffic, served))
    half = made.fitted.first_half_width(first, made.groups), made.half_width(mean_batch(made, served))
    copies = max(1, made.devices // replace(decoding, replicas=1).devices)
    one = replace(plain, layout=replace(decoding, replicas=copies))
    load = Load(traffic.input_tokens * 0.9, traffic.output_tokens * 0.9, users)
    tpot = steady(one.seconds(), one.scheduler, load, copies, decoding.data).tpot
    together = one.first_seconds(load.input_tokens, load.output_tokens, users), tpot
    ours = float(np.median(served.ttft)), float(np.nanmedian(served.tpot))
    return Apart(row["system"], (float(row["ttft_s"]), float(row["tpot_s"])), ours, half, together)


def main() -> None:
    """Print errors of both times, ours and one pool's, by system, with the share inside the 80 % band.

    Raises
    ------
    InputError
        Where there are no public measurements.
    """
    folder, refused = data_folder(), Counter[str]()
    if folder is None:
        raise InputError("no public measurements here (set SLIPSTICK_DATA)")
    kinds: dict[str, list[Apart]] = defaultdict(list)
    for one in rows(folder / FILE, refused):
        kinds[one.system].append(one)
        kinds["all"].append(one)
    for system, ones in kinds.items():
        for at, name in enumerate(("first token", "further token")):
            measured, half = np.array([o.measured[at] for o in ones]), np.array([o.half[at] for o in ones])
            words = []
            for what, times in (("ours", [o.ours[at] for o in ones]), ("one pool", [o.together[at] for o in ones])):
                ratio = np.array(times) / measured
                middle, most = (100 * np.quantile(np.abs(ratio - 1), share) for share in (0.5, 0.9))
                words.append(f"{what} {middle:.3g} / {most:.3g} % (x{np.median(ratio):.2f} at the median)")
                if what == "ours":
                    inside = float(np.mean(np.abs(np.log(ratio)) <= half))
                    words.append(f"{inside:.2f} in x{math.exp(np.median(half)):.3g}")
            print(f"{system}, {name}, {len(ones)} rows: {'; '.join(words)}")
    print("not simulated:", "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items())))


if __name__ == "__main__":
    main()
