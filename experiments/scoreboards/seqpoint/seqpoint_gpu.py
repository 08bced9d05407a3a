"""SeqPoint on public training logs of GPU systems: RNN-T on A100s (MLPerf v1.0), GNMT (MLPerf v0.6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from slipstick.estimators.sampling.length_groups import times_by_length
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.seqpoint.seqpoint_error import SelectionScore, choosers
from slipstick.experiments.scoring.score import Data
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.workloads.runs.iterations import FloatArray, Iterations

RNNT = "sequences/rnnt_iterations.csv.gz"


GNMT = "sequences/gnmt_v06_iterations.csv.gz"


RNNT_SIZE = 30


GNMT_SIZE = 15


CHOSEN_ON = 3
"""Runs that the selection is made on, where others of the same system are scored."""


# RNN-T on A100 systems: no lengths are logged, but the same index is the same batch in every run of a system


def rnnt(data: Data) -> Iterator[ValidationRow]:
    """Scores on MLPerf's RNN-T logs."""
    path = data.judged(RNNT)
    systems = read_rnnt(path)
    known: dict[str, dict[int, FloatArray]] = {}
    if data.scored is not None and (public := training_file(RNNT)):
        known = {name: runs for name, runs in read_rnnt(public).items() if name not in systems}
    if not systems:
        yield skipped("rnnt", f"{path.name}: no system with every iteration of two or more runs")
    for name, epochs in systems.items():
        base = next((other for other in known if same_order(known[other], epochs)), None)
        held_out = f"runs {CHOSEN_ON + 1} and later" if base is None else f"the system; chosen on {base}"
        source = epochs if base is None else known[base]
        first = CHOSEN_ON if base is None else 0
        scores = {method: SelectionScore() for method in choosers(RNNT_SIZE)}
        spread = []
        for epoch, times in epochs.items():
            chosen_on = source.get(epoch)
            if chosen_on is None:
                continue
            chosen_on = chosen_on[:CHOSEN_ON] if base is None else chosen_on
            run = from_repeats(chosen_on)
            totals = times[first:].sum(axis=1)
            spread.append(float(np.mean(np.abs(totals / np.mean(totals) - 1))))
            for method, choose in choosers(RNNT_SIZE).items():
                chosen = choose(run, epoch)
                for row in times[first:]:
                    scores[method].add(chosen, row[chosen.indices], float(row.sum()))
        ours = scores.pop("stratified")
        why = "strata of the mean duration on the chosen runs, random within; goals are for the mean and for p95"
        for metric, goal in (("mean", 2.0), ("p95", 2.0), ("max", None)):
            yield ours.row("rnnt", name, held_out, metric, goal, scores, 100 * float(np.mean(spread)), why)


def read_rnnt(path: Path) -> dict[str, dict[int, FloatArray]]:
    """System -> epoch -> seconds of shape (runs, iterations), of systems that logged every iteration."""
    from slipstick.common.readers import read_csv_rows, read_number
    from slipstick.workloads.importers.iteration_logs import LOG_LIMIT_BYTES

    logs: dict[str, dict[int, dict[str, dict[int, float]]]] = {}
    columns = ("system", "run", "epoch", "iter", "took_s")
    for line, row in read_csv_rows(path, required=columns, limit_bytes=LOG_LIMIT_BYTES):
        epoch, iteration = (int(read_number(row[name], path, line, name, 0, 1e9)) for name in ("epoch", "iter"))
        runs = logs.setdefault(row["system"], {}).setdefault(epoch, {})
        runs.setdefault(row["run"], {})[iteration] = read_number(row["took_s"], path, line, "took_s", 0)
    dense: dict[str, dict[int, FloatArray]] = {}
    for system, epochs in logs.items():
        for epoch, runs in epochs.items():
            longest = max(len(run) for run in runs.values())
            whole = [[run[i] for i in sorted(run)] for run in runs.values() if len(run) == longest]
            if longest >= 100 and len(whole) >= 2 and min(map(min, whole)) > 0:
                dense.setdefault(system, {})[epoch] = np.array(whole)
    return dense


def from_repeats(times: FloatArray) -> Iterations:
    """Iterations known by their mean duration (seconds) over several runs, shape (runs, iterations), and how one run
    scatters around it.
    """
    mean = times.mean(axis=0)
    noise = float(np.sqrt(np.mean(np.var(np.log(times), axis=0, ddof=1)))) if len(times) > 1 else None
    return Iterations(mean, mean, proxy="duration", noise=noise)


def same_order(one: Mapping[int, FloatArray], other: Mapping[int, FloatArray]) -> bool:
    """Whether two systems ran the same batches in the same order, by the durations (seconds) of their first common
    epoch.
    """
    common = sorted(set(one) & set(other))
    if not common or one[common[0]].shape[1] != other[common[0]].shape[1]:
        return False
    first, second = one[common[0]].mean(axis=0), other[common[0]].mean(axis=0)
    return float(np.corrcoef(first, second)[0, 1]) > 0.4


# GNMT: tokens (time x tokens/s) stand for the length; every run has an order of its own


def gnmt(data: Data) -> Iterator[ValidationRow]:
    """Scores on MLPerf's GNMT logs."""
    for system, runs in read_gnmt(data.judged(GNMT)).items():
        names = list(runs)
        if len(names) < 2:
            continue
        tokens, seconds = (np.concatenate([epoch[i] for epoch in runs[names[0]]]) for i in (0, 1))
        base = Iterations(tokens, seconds, proxy="tokens")
        noise = float(np.std(np.log(seconds / times_by_length(base, tokens))))
        scores = {method: SelectionScore() for method in choosers(GNMT_SIZE)}
        for name in names[1:]:
            for seed, (lengths, times) in enumerate(runs[name]):
                if len(times) <= GNMT_SIZE:
                    continue
                run = Iterations(lengths, times_by_length(base, lengths), proxy="tokens", noise=noise)
                for method, choose in choosers(GNMT_SIZE).items():
                    chosen = choose(run, seed)
                    scores[method].add(chosen, times[chosen.indices], float(times.sum()))
        ours = scores.pop("k-means")
        why = f"chosen by tokens with the first run's times (noise of one iteration {noise:.1%}); epochs as logged"
        for metric, goal in (("mean", 2.0), ("max", 5.0)):
            yield ours.row("gnmt", system, "runs after the first", metric, goal, scores, None, why)


def read_gnmt(path: Path) -> dict[str, dict[str, list[tuple[FloatArray, FloatArray]]]]:
    """System -> run -> epochs of (tokens, seconds); each epoch's first logged iteration, a start-up, is left out."""
    from slipstick.common.readers import read_csv_rows, read_number

    logs: dict[str, dict[str, dict[str, list[tuple[float, float]]]]] = {}
    for line, row in read_csv_rows(path, required=("system", "run", "epoch", "iter", "time_s", "tok_per_s")):
        if row["iter"] == "0":
            continue
        time, rate = (read_number(row[name], path, line, name, 0) for name in ("time_s", "tok_per_s"))
        if time > 0:
            epochs = logs.setdefault(row["system"], {}).setdefault(row["run"], {})
            epochs.setdefault(row["epoch"], []).append((time * rate, time))
    return {
        system: {
            run: [(np.array(epoch)[:, 0], np.array(epoch)[:, 1]) for epoch in epochs.values()]
            for run, epochs in runs.items()
        }
        for system, runs in logs.items()
    }
