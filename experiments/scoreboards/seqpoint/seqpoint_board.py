"""Representative iterations against measured training runs: A100 logs, GNMT logs, and epochs measured on CPUs.

Chosen on some runs (or on the base configuration), scored on others: the error of the whole epoch's time.

SeqPoint on epochs measured on CPUs: chosen on the base configuration, scored on the others.

SeqPoint on public training logs of GPU systems: RNN-T on A100s (MLPerf v1.0), GNMT (MLPerf v0.6).

How well representative iterations predict the time of runs they were not chosen on.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.opener import head
from slipstick.estimators.sampling.iteration_choice import RepresentativeSet
from slipstick.estimators.sampling.length_groups import times_by_length
from slipstick.estimators.sampling.seqpoint import select
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoring.score import Board, Data
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.workloads.runs.iterations import Iterations

MEASURED = "sequences/measured_cpu"


BUNDLED = Path(__file__).parent / "measured"


def measured(data: Data) -> Iterator[ValidationRow]:
    """Scores on logs of epochs measured on a CPU."""
    training, folder = data.known(MEASURED), data.judged(MEASURED)
    for base_path in sorted(training.glob("epoch_*_c1.csv")):
        network = base_path.name.removeprefix("epoch_").removesuffix("_c1.csv")
        base = Iterations(*_columns(base_path, "cpu_s"))
        repeat = training / f"epoch_{network}_c1_repeat.csv"
        floor = _floor(base, _columns(repeat, "cpu_s")[1]) if repeat.exists() else None
        same = {}
        for path in sorted(folder.glob(f"epoch_{network}_*.csv")):
            iterations, times = _columns(path, "cpu_s")
            name = path.stem.removeprefix(f"epoch_{network}_")
            if path.name == base_path.name:
                continue
            if np.array_equal(iterations, base.lengths):
                same[name] = times
                continue
            # another epoch: chosen by its lengths with what the base run says of them
            noise = _noise(base)
            run = Iterations(iterations, times_by_length(base, iterations), noise=noise)
            yield from _configurations("measured_cpu", f"{network}, epoch of {name}", run, floor, {name: times})
        if same:
            yield from _configurations("measured_cpu", network, base, floor, same)
        elif not list(folder.glob(f"epoch_{network}_*.csv")):
            yield skipped("measured_cpu", f"{network}: no other configuration in {folder.name}")


def bundled(_: Data) -> Iterator[ValidationRow]:
    """Scores on the project's own bundled epochs."""
    for path in sorted(BUNDLED.glob("epoch_*.csv")):
        network, order = path.stem.split("_")[1:3]
        base = Iterations(*_columns(path, "base_s"))
        names = [name for name in _header(path) if name.endswith("_s") and name not in ("base_s", "repeat_s")]
        others = {name.removesuffix("_s"): _columns(path, name)[1] for name in names}
        floor = _floor(base, _columns(path, "repeat_s")[1])
        yield from _configurations("own epochs", f"{network}, {order}", base, floor, others)


def _noise(run: Iterations) -> float:
    """Relative standard deviation of one iteration around what its length predicts."""
    return float(np.std(np.log(run.known_times / times_by_length(run, run.lengths))))


def _floor(base: Iterations, again: FloatArray) -> float:
    """By how much an epoch's time repeats, in per cent: as seen, or as independent noise of that size would have it."""
    by_chance = float(np.sqrt(2 / len(base))) * _noise(base)
    return 100 * max(abs(float(again.sum()) / base.total - 1), by_chance)


def _configurations(
    dataset: str,
    case: str,
    run: Iterations,
    floor: float | None,
    others: Mapping[str, FloatArray],
) -> Iterator[ValidationRow]:
    # an epoch shorter than 500 iterations is no test of the goal
    goal = min(2.0, floor) if floor is not None and len(run) >= 500 else None
    size = len(select("stratified", run, error=0.01, level=LEVEL))
    choosers: dict[str, Chooser] = {
        "stratified": lambda run, seed: select("stratified", run, size=size, seed=seed),
        "uniform": lambda run, seed: select("uniform", run, size=size, seed=seed),
        "k-means": lambda run, seed: select("k-means", run, size=min(size, 30), seed=seed),
        "seqpoint": lambda run, seed: select("seqpoint", run),
        "median": lambda run, seed: select("median", run),
        "frequent": lambda run, seed: select("frequent", run),
        "prior": lambda run, seed: select("prior", run),
    }
    scores = {method: SelectionScore() for method in choosers}
    for method, choose in choosers.items():
        for seed in range(SEEDS if method in ("stratified", "uniform") else 1):
            chosen = choose(run, seed)
            for times in others.values():
                scores[method].add(chosen, times[chosen.indices], float(times.sum()))
    ours = scores.pop("stratified")
    ratios = ", ".join(f"{name} {times.sum() / run.total:.2f}x" for name, times in others.items())
    for metric in ("mean", "max"):
        yield ours.row(
            dataset,
            case,
            f"configurations {', '.join(others)}; chosen on the base",
            metric,
            goal if metric == "mean" else None,
            scores,
            floor,
            f"{len(run)} iterations, {SEEDS} seeds; time over base: {ratios}; goal: the noise floor, at most 2 %",
        )
    coverage = 100 * float(np.mean(ours.inside))
    yield ValidationRow(
        dataset,
        case,
        "as above",
        len(ours.inside),
        f"coverage of the {LEVEL:.0%} interval",
        "%",
        coverage,
        {
            "uniform": 100 * float(np.mean(scores["uniform"].inside)),
            "prior": 100 * float(np.mean(scores["prior"].inside)),
        },
        goal=85.0 if goal is not None else None,
        ok=coverage >= 85.0 if goal is not None else None,
        interval_level=LEVEL,
        interval_coverage=coverage / 100,
        interval_width=float(np.mean(ours.widths)),
        noise_floor=floor,
        reason="prior: the first 50 after a warm-up, with the interval of a random sample",
    )


def _header(path: Path) -> list[str]:
    return next(csv.reader([head(path, 65536).partition("\n")[0]]), [])


def _columns(path: Path, time: str) -> tuple[FloatArray, FloatArray]:
    from slipstick.workloads.importers.iteration_logs import read_log

    log = read_log(path, "seq_len", time)
    return log.lengths, log.known_times


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
    public = training_file(RNNT)
    known = {name: runs for name, runs in (read_rnnt(public) if public else {}).items() if name not in systems}
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


LEVEL = 0.9


SEEDS = 20


Chooser = Callable[[Iterations, int], RepresentativeSet]


@dataclass
class SelectionScore:
    """Errors of projected epoch times, relative, with their intervals where there are any."""

    errors: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    savings: list[float] = field(default_factory=list)

    def add(self, chosen: RepresentativeSet, values: FloatArray, truth: float) -> None:
        """Project from the representatives' values (seconds, shape (n,)) and compare with the true total."""
        projected = chosen.project(values)
        self.errors.append(projected.total / truth - 1)
        self.sizes.append(len(chosen))
        self.savings.append(chosen.saving_serial)
        band = projected.interval(LEVEL)
        if band is not None:
            self.inside.append(band[0] <= truth <= band[1])
            self.widths.append(band[1] / max(band[0], 1e-9 * band[1]))

    def measure(self, metric: str) -> float:
        """mean, p95 or max of |error|, in per cent."""
        off = 100 * np.abs(self.errors)
        return float({"mean": np.mean(off), "p95": np.quantile(off, 0.95), "max": np.max(off)}[metric])

    def row(
        self,
        dataset: str,
        case: str,
        held_out: str,
        metric: str,
        goal: float | None,
        rivals: Mapping[str, SelectionScore],
        floor: float | None,
        reason: str,
    ) -> ValidationRow:
        """A row of the scoreboard; the baselines are the rivals by the same metric."""
        ours = self.measure(metric)
        return ValidationRow(
            dataset=dataset,
            case=case,
            held_out=held_out,
            n=len(self.errors),
            metric=f"|error of epoch time|, {metric}",
            unit="%",
            ours=ours,
            baselines={name: rival.measure(metric) for name, rival in rivals.items()},
            goal=goal,
            ok=None if goal is None else ours <= goal,
            interval_level=LEVEL if self.inside else None,
            interval_coverage=float(np.mean(self.inside)) if self.inside else None,
            interval_width=float(np.mean(self.widths)) if self.widths else None,
            noise_floor=floor,
            reason=f"{np.mean(self.sizes):.0f} iterations, saving {np.mean(self.savings):.1f}x; {reason}",
        )


def choosers(size: int) -> dict[str, Chooser]:
    """The methods that choose representatives, by name, each with `size` of them where it takes a size."""
    return {
        "stratified": lambda run, seed: select("stratified", run, size=size, seed=seed),
        "k-means": lambda run, seed: select("k-means", run, size=size, seed=seed),
        "seqpoint": lambda run, seed: select("seqpoint", run, error=1e-6, most=size),
        "equal-width": lambda run, seed: select("seqpoint", run, error=0.99, bins=size, most=size),
        "uniform": lambda run, seed: select("uniform", run, size=size, seed=seed),
    }


BOARD = Board(
    "How long does a training epoch take, from a few of its iterations?",
    {"rnnt": rnnt, "gnmt": gnmt, "measured_cpu": measured, "own epochs": bundled},
    closed={"own epochs": "the project's own measurements are scored as they are"},
)
