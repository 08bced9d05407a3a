"""Real training steps by sequence length, under changes that any host offers; they stand for hardware configurations.

Every configuration is a process of its own (`training_worker`), and the processes take turns, one training step each:
a slow spell of the machine hits all configurations, not one. The clock is the CPU time of the working thread; wall time
where several threads or a CUDA device work.
"""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Literal, Self, cast

from slipstick.common.errors import InputError
from slipstick.common.optional_packages import require_packages
from slipstick.common.readers import (
    read_csv_rows,
    read_json,
    read_number,
    read_text,
    require_mapping,
    unknown_name,
    whole_of,
)
from slipstick.common.records import FrozenDict
from slipstick.common.writer import write_json, write_text
from slipstick.experiments.measure.clocks.timing import processor
from slipstick.experiments.measure.training.training_worker import BATCH
from slipstick.workloads.runs.iterations import Order, epoch_lengths
from slipstick.workloads.runs.lengths import MAX_LENGTH, lognormal_lengths, read_lengths

SYNTHETIC = {  # median, sigma, shortest, longest, unit
    "gru": (60.0, 0.4, 16, 150, "frames"),
    "lstm": (18.0, 0.6, 2, 100, "tokens"),
    "attention": (45.0, 0.6, 8, 200, "tokens"),
}
"""Log-normal lengths of a synthetic epoch: about utterances cut short, sentences and paragraphs."""
NETWORKS = {"gru": 48, "lstm": 96, "attention": 96}
"""Networks of `training_worker.network` and their widths."""
WARM_UP_STEPS = 8


@dataclass(frozen=True)
class Configuration:
    """What is changed about the host.

    `environment`: variables that cap the instruction sets of ATen, oneDNN and MKL.
    """

    environment: FrozenDict[str] = FrozenDict()
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: int = 1
    device: Literal["cpu", "cuda"] = "cpu"

    @property
    def clock(self) -> str:
        """thread (CPU time) or wall: which clock counts."""
        if self.device == "cuda":
            return "wall"
        return "thread" if self.threads == 1 else "wall"


CONFIGURATIONS = {
    "base": Configuration(),
    "repeat": Configuration(),
    "avx2": Configuration(
        FrozenDict(ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2", MKL_ENABLE_INSTRUCTIONS="AVX2")
    ),
    "sse4": Configuration(
        FrozenDict(ATEN_CPU_CAPABILITY="default", ONEDNN_MAX_CPU_ISA="SSE41", MKL_ENABLE_INSTRUCTIONS="SSE4_2")
    ),
    "aten-default": Configuration(FrozenDict(ATEN_CPU_CAPABILITY="default")),
    "bfloat16": Configuration(dtype="bfloat16"),
    "threads2": Configuration(threads=2),
    "cuda": Configuration(device="cuda"),
    "cuda-bfloat16": Configuration(dtype="bfloat16", device="cuda"),
}
"""By name; base and repeat are the same, and their difference is the noise of a whole epoch."""


class Worker:
    """A training process; use as a context."""

    def __init__(self, network: str, configuration: Configuration) -> None:
        if network not in NETWORKS:
            raise unknown_name("network", network, list(NETWORKS))
        require_packages(["torch"])
        threads = str(configuration.threads)
        root = str(Path(__file__).absolute().parents[4])  # where the package lies, not where its links lead
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")])),
            **configuration.environment,
        }
        self._clock = configuration.clock
        self._process = subprocess.Popen(
            [sys.executable, "-m", "slipstick.experiments.measure.training.training_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        order = {
            "network": network,
            "width": NETWORKS[network],
            "dtype": configuration.dtype,
            "threads": configuration.threads,
            "device": configuration.device,
        }
        try:
            self.software: dict[str, str] = json.loads(self._ask(json.dumps(order)))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self, length: int) -> float:
        """Seconds of one training step on a batch padded to `length`."""
        cpu, wall = self._ask(str(length)).split()
        return float(wall if self._clock == "wall" else cpu)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, line: str) -> str:
        if self._process.stdin is None or self._process.stdout is None:
            raise InputError("the training process has no pipes")
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self._process.stdout.readline()
        if not answer:
            raise InputError(
                f"the training process ended with code {self._process.wait()}; its message is above "
                "(for cuda, it needs a device)"
            )
        return answer


def measure_epoch(
    network: str,
    lengths: Sequence[int],
    configurations: Sequence[str],
    log: Path,
    repeats: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Time one training step for every length, in this order, under each configuration; they take turns.

    Of several `repeats` of a step the median counts. The log is a CSV: iteration, seq_len and one column
    CONFIGURATION_s of seconds each; beside it LOG.json says where, when and how. A log that is there already is
    continued after its last whole row.
    Raises InputError where a name is unknown, a length is no whole number >= 1, the log belongs to other lengths or
    configurations, or a process fails.
    """
    for name in configurations:
        if name not in CONFIGURATIONS:
            raise unknown_name("configuration", name, list(CONFIGURATIONS))
    if not configurations or len(set(configurations)) < len(configurations):
        raise InputError(f"configurations {', '.join(configurations) or '(none)'}: want one or more, each once")
    if not lengths or min(lengths) < 1 or max(lengths) > MAX_LENGTH:
        raise InputError(f"lengths: want whole numbers in [1, {MAX_LENGTH}], got {len(lengths)} of them")
    header = ["iteration", "seq_len", *(f"{name}_s" for name in configurations)]
    if not 1 <= repeats <= 101:
        raise InputError(f"repeats = {repeats}: want 1 to 101")
    done = _rows_done(log, header, lengths)
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(network, CONFIGURATIONS[name])) for name in configurations]
        _describe(log, network, configurations, workers, repeats)
        ordered = sorted(set(lengths))
        for length in ordered[:: max(1, len(ordered) // WARM_UP_STEPS)]:
            for worker in workers:
                worker.step(length)
        stream = stack.enter_context(open(log, "a", encoding="utf-8", newline=""))
        writer = csv.writer(stream, lineterminator="\n")
        if not done:
            writer.writerow(header)
        for index in range(done, len(lengths)):
            seconds: list[list[float]] = [[] for _ in workers]
            for turn in range(len(workers) * repeats):
                # every round starts with another worker, so that none always follows the same neighbour
                which = (index + turn) % len(workers)
                seconds[which].append(workers[which].step(lengths[index]))
            writer.writerow([index, lengths[index], *(f"{median(taken):.6f}" for taken in seconds)])
            stream.flush()
            if progress is not None:
                progress(index + 1, len(lengths))
    return log


def wanted_lengths(text: str, network: str, iterations: int, order: str) -> list[int]:
    """Lengths from an option's text: a list, a CSV with seq_len, a JSON of representatives, or "synthetic".

    Raises InputError where the text is none of these, or a length is no whole number >= 1.
    """
    if network not in NETWORKS:
        raise unknown_name("network", network, list(NETWORKS))
    if text == "synthetic":
        median_, sigma, low, high, unit = SYNTHETIC[network]
        drawn = lognormal_lengths(iterations * BATCH, median_, sigma, low, high, unit, seed=1)
        return [int(length) for length in epoch_lengths(drawn, BATCH, cast(Order, order), seed=5)]
    if text.endswith((".csv", ".csv.gz")):
        return [int(length) for length in read_lengths(text, "seq_len", "steps").values]
    if text.endswith(".json"):
        entries = require_mapping(read_json(text), text, "the document").get("representatives")
        if not isinstance(entries, list):
            raise InputError(f"{text}: no list 'representatives'; want a file of slipstick seqpoint --out")
        lengths = [str(require_mapping(entry, text, "representatives").get("length")) for entry in entries]
    else:
        lengths = text.split(",")
    return [whole_of(value, f"lengths {text[:60]!r}: length", 1, MAX_LENGTH) for value in lengths]


def summary(log: Path) -> list[dict[str, Any]]:
    """One row a configuration of a log: seconds of all steps together, and how often the first's speed."""
    totals: dict[str, float] = {}
    for line, row in read_csv_rows(log, required=["seq_len"]):
        for name in row:
            if name.endswith("_s"):
                totals[name] = totals.get(name, 0.0) + read_number(row[name], log, line, name, 0)
    first = next(iter(totals.values()), math.nan)
    return [
        {"configuration": name.removesuffix("_s"), "time_s": total, "speedup": first / total}
        for name, total in totals.items()
    ]


def _rows_done(log: Path, header: list[str], lengths: Sequence[int]) -> int:
    """Whole rows that a log holds already; a last line that a kill cut short is taken off."""
    if not log.exists():
        return 0
    text = read_text(log)
    if text and not text.endswith("\n"):
        write_text(log, text[: text.rfind("\n") + 1])
    if "\n" not in text:
        return 0
    done = 0
    for line, row in read_csv_rows(log, required=header):
        length = read_number(row["seq_len"], log, line, "seq_len", 1, MAX_LENGTH)
        if list(row) != header or done >= len(lengths) or length != lengths[done]:
            raise InputError(f"{log}: line {line}: belongs to another epoch; name another log, or remove this one")
        done += 1
    return done


def _describe(log: Path, network: str, configurations: Sequence[str], workers: Sequence[Worker], repeats: int) -> None:
    described: dict[str, Any] = {}
    for name, worker in zip(configurations, workers, strict=True):
        one = CONFIGURATIONS[name]
        described[name] = {
            "environment": dict(one.environment),
            "dtype": one.dtype,
            "threads": one.threads,
            "device": one.device,
            "clock": one.clock,
            **worker.software,
        }
    document = {
        "network": network,
        "width": NETWORKS[network],
        "processor": processor(),
        "date": date.today().isoformat(),
        "protocol": (
            f"one process a configuration, one training step each in turn; {WARM_UP_STEPS} or more warm-up steps over "
            f"the range of lengths; median of {repeats} runs of a step; seconds of the clock named"
        ),
        "configurations": described,
    }
    write_json(log.with_suffix(log.suffix + ".json"), document, indent=1)
