"""Prefill and decode on workers of their own, measured and simulated.

DeepSeek-R1 of InferenceX under Dynamo (`serving/inferencex.csv.gz`, mode disagg) with counts and sizes of both kinds of
workers, medians, no speculation; no row of it is in any fit. Beside ours stands what the same law answers for as many
devices that read prompts beside decoding, as copies of the decode worker. Where no link of the catalogue joins all
devices, each sends at 50 GB/s: one 400 Gbit/s port a GPU (data sheets of DGX H200 and DGX B200).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.fitting.fitted_model import UNGROUPED
from slipstick.estimators.serving.batching.closed_loop import Load, steady
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.deployment import Deployment
from slipstick.estimators.serving.serving_runs import mean_batch, means, simulated_run
from slipstick.experiments.scoreboards.serving.inferencex import ENGINES, FILE, SYSTEMS
from slipstick.experiments.scoreboards.serving.serving_rows import machine_of_system, model_named, stored_in
from slipstick.experiments.scoring.score import PERCENT, Data, MissingError, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.runs.traffic import Traffic

COLUMNS = (
    "system", "engine", "model", "precision", "mode", "speculative", "input_tokens", "output_tokens", "concurrency",
    "ttft_s", "tpot_s", "suspicious", *(f"{kind}_{name}" for kind in ("prefill", "decode")
                                        for name in ("num_workers", "gpus", "ep_size", "attention_dp")),
)  # fmt: skip
PORT = 50e9
MOST_USERS = 512
"""Beyond it a simulation takes too long here, and most rows queue."""
SEQUENCES = 1024
NOISE = 1.8, 0.3
"""Of repeats in the other table, %: the first and a further token."""


@dataclass(frozen=True)
class DisaggregatedRow:
    """A measured row: seconds of the first and a further token, ours with half of the log band, and one pool's."""

    system: str
    measured: tuple[float, float]
    ours: tuple[float, float]
    half: tuple[float, float]
    together: tuple[float, float]


def rows(path: Path, refused: Counter[str]) -> Iterator[DisaggregatedRow]:
    """The rows that can be simulated; those that cannot are counted by reason.

    Raises InputError where a column is missing, or a line cannot be read; names it.
    """
    for line, row in read_csv_rows(path, COLUMNS, limit_rows=100_000):
        if row["mode"] != "disagg" or row["speculative"] != "0" or row["suspicious"]:
            continue
        try:
            yield _apart(row)
        except InputError as error:
            refused[str(error).partition(":")[0][:90]] += 1
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path}: line {line}: {error}") from None


def _layout(row: dict[str, str], kind: str) -> Layout:
    workers = int(float(row[f"{kind}_num_workers"]))
    if workers < 1:
        raise InputError("workers are not counted")
    each = round(float(row[f"{kind}_gpus"]) / workers)
    if row[f"{kind}_attention_dp"] not in ("", "0", "0.0"):
        return Layout(1, 1, each, each, workers)
    return Layout(each, 1, 1, int(float(row[f"{kind}_ep_size"] or 1)), workers)


def _apart(row: dict[str, str]) -> DisaggregatedRow:
    users = int(row["concurrency"])
    if users > MOST_USERS:
        raise InputError(f"more than {MOST_USERS} users")
    model, system = model_named(row["model"]), SYSTEMS.get(row["system"], row["system"])
    at, stored = machine_of_system(system), stored_in(model, row["precision"])
    named = row["engine"].partition("-")[2]
    if named not in ENGINES:
        raise InputError(f"engine {row['engine']!r} is not known")
    engine = ENGINES[named]
    decoding, reading = _layout(row, "decode"), _layout(row, "prefill")
    rules = Scheduler(max_num_seqs=SEQUENCES)
    plain = Deployment(model, at, decoding, stored, engine=engine, rules=rules, source=UNGROUPED)
    made = replace(plain, prefill=replace(plain, layout=reading))
    if not any(link.width >= made.devices for link in at.links.values()):
        made = replace(made, link_bandwidth=PORT)
    traffic = Traffic(int(row["input_tokens"]), int(row["output_tokens"]), users, num_requests=max(64, 4 * users))
    served = simulated_run(made, traffic)
    first = made.reader.first_parts(*means(traffic, served))
    half = made.fitted.first_half_width(first, made.groups), made.half_width(mean_batch(made, served))
    copies = max(1, made.devices // replace(decoding, replicas=1).devices)
    one = replace(plain, layout=replace(decoding, replicas=copies))
    load = Load(traffic.input_tokens * 0.9, traffic.output_tokens * 0.9, users)
    tpot = steady(one.seconds(), one.scheduler, load, copies, decoding.data).tpot
    together = one.first_seconds(load.input_tokens, load.output_tokens, users), tpot
    ours = float(np.median(served.ttft)), float(np.nanmedian(served.tpot))
    return DisaggregatedRow(row["system"], (float(row["ttft_s"]), float(row["tpot_s"])), ours, half, together)


def pool_scores(data: Data) -> Iterator[Scored | ValidationRow]:
    """Times of first and further tokens, all together and by system: no row is in any fit."""
    refused = Counter[str]()
    made = list(rows(data.judged(FILE), refused))
    left_out = "; ".join(f"{why}: {count}" for why, count in sorted(refused.items()))
    if not made:
        raise MissingError(f"no row of pools apart that can be simulated; {left_out or 'none is here'}")
    for system in ("", *sorted({one.system for one in made})):
        mine = [one for one in made if system in ("", one.system)]
        for at, name in ((1, "time of a further token"), (0, "time to the first token")):
            measured, ours, half, together = (
                np.array([times[at] for times in column])
                for column in zip(*((o.measured, o.ours, o.half, o.together) for o in mine), strict=True)
            )
            yield Scored(
                f"{name}{system and ', '}{system}", "all of them", measured, ours, PERCENT, (),
                {"copies of the decode worker": together}, half=half, noise=NOISE[at], groups=[o.system for o in mine],
                reason=left_out if not system else "",
            )  # fmt: skip
