"""What one measured time teaches of the same network at another batch: ``python -m ...scoreboards.whatif.known_time``.

BERT-Large and GPT-2 Large, whole, on GPUs (NeuSight's labels): networks that no calibration has seen, though kernels of
some of these GPUs were timed. Every pair of batches of one case on one GPU is asked with the first one known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.user_measured.measured_time import MeasuredTime
from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.question.question import question
from slipstick.experiments.scoreboards.gpu.gpu_data import machine_of

NETWORKS = {
    "bert_large-inf": "bert-large-inference",
    "bert_large-train": "bert-large",
    "gpt2_large-inf": "gpt2-large-inference",
    "gpt2_large-train": "gpt2-large",
}


LABELS = "gpu/neusight/e2e_labels.csv"
Times = Mapping[tuple[str, str, int], Sequence[tuple[int, float]]]
"""(batch, seconds) of each machine, network and length."""


def measured() -> Times:
    """The networks that were timed.

    Raises InputError where there are no public measurements.
    """
    times: dict[tuple[str, str, int], list[tuple[int, float]]] = defaultdict(list)
    for _, row in read_csv_rows(needed_folder() / LABELS, limit_rows=10_000):
        words, name = row["case"].split("-"), machine_of(row["device"])
        network = NETWORKS.get("-".join(words[:2]))
        if name and network and len(words) == 4:
            times[name, network, int(words[2])].append((int(words[3]), float(row["e2e_latency"]) * 1e-3))
    return times


def batches() -> Iterator[tuple[str, list[tuple[float, Estimate]]]]:
    """A machine, and measured seconds beside the answer at each batch, from the least on, of each network there.

    Raises InputError where there are no public measurements.
    """
    for (name, network, length), known in measured().items():
        yield name, [(seconds, _answer(network, name, length, batch)) for batch, seconds in sorted(known)]


def _answer(network: str, name: str, length: int, batch: int) -> Estimate:
    return question(network, name, settings={"workload.seq_len": length, "workload.batch": batch}).answer()


def pairs() -> FloatArray:
    """Of each pair log(measured / estimated) without and with the known time, and half of the band of both.

    Shape (pairs, 4).
    Raises InputError where there are no public measurements.
    """
    made: list[tuple[float, ...]] = []
    for (name, network, length), known in measured().items():
        for batch, seconds in known:
            for other, later in known:
                if other != batch:
                    made.append(_pair(network, name, length, batch, seconds, other, later))
    return np.array(made)


def _pair(
    network: str, name: str, length: int, batch: int, seconds: float, other: int, later: float
) -> tuple[float, ...]:
    plain, at = _answer(network, name, length, other), {"workload.seq_len": length, "run.batch": batch}
    today = question(network, name, settings=at, calibration=MeasuredTime(seconds))
    held = today.estimator.estimate_at(today.workload, today.machine, today.run, {"run.batch": other})
    halves = [math.log(high / one.time) for one in (plain, held) if (high := _high(one))]
    return (math.log(later / plain.time), math.log(later / held.time), *halves)


def _high(answer: Estimate) -> float:
    ends = answer.interval()
    return ends[1] if ends else math.nan


def main() -> None:
    """Print both."""
    rows = pairs()
    for column, name in enumerate(("without", "with the other batch known")):
        missed, half = np.abs(rows[:, column]), rows[:, column + 2]
        median, most = np.median(missed), np.quantile(missed, 0.9)
        print(
            f"{name}: {len(rows)} pairs, {median:.1%} at the median, {most:.0%} at the 90th percentile, "
            f"{np.mean(missed <= half):.0%} in a band of x{math.exp(float(np.median(half))):.3g}"
        )


if __name__ == "__main__":
    main()
