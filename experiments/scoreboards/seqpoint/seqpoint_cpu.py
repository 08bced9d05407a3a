"""SeqPoint on epochs measured on CPUs: chosen on the base configuration, scored on the others."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from slipstick.common.opener import head
from slipstick.estimators.sampling.length_groups import times_by_length
from slipstick.estimators.sampling.seqpoint import select
from slipstick.experiments.scoreboards.seqpoint.seqpoint_error import LEVEL, SEEDS, Chooser, SelectionScore
from slipstick.experiments.scoring.score import Data
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.workloads.runs.iterations import FloatArray, Iterations

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


def bundled(data: Data) -> Iterator[ValidationRow]:
    """Scores on the project's own bundled epochs."""
    if data.scored is not None:
        return
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
