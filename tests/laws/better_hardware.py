"""python -m tests.laws.better_hardware --count 2000 --seed 1: random what-ifs, and which of them break a law.

Each draws a workload, a machine of the catalogue, an estimator (the default one in half of the cases) and one number of
the machine, makes that number better, and asks for both times. The laws: better hardware is never slower; the parts of
an answer and what is left of it by name sum to its time, and what is left has the sign that its name says. Questions
that are refused are drawn again.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import BESIDE, FIXED, OVERLAP, WAITING, Estimate
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine, machine_names

TOLERANCE = 1e-3
MORE = ("clock", "cores", "capacity", "bandwidth", "bytes_per_cycle", "power.cap")
LESS = ("latency", "launch_overhead", "issue_overhead", "power.per_flop", "power.idle")
WORKLOADS = (
    "gemm", "mlp", "mlp-inference", "resnet18", "resnet18-inference", "resnet50-inference", "vgg16-inference",
    "gpt2-inference", "bert-base-inference", "deepspeech2-inference", "gnmt-inference", "llama-3-8b-decode",
    "llama-3-8b-inference", "stream-triad", "daxpy", "jacobi-2d-5pt", "jacobi-3d-7pt", "vector-sum", "spmv-uniform",
    "spmv-grid", "pagerank-rmat", "all-reduce", "data-parallel-mlp", "phi-cnn-small", "phi-cnn-large",
    "tpupoint-dcgan-cifar10", "megatron-22b",
    "imported/mobilenetv2_w1", "imported/bert-base", "imported/densenet121",
)  # fmt: skip
ESTIMATORS = (
    "roofline", "roofline-critical-path", "roofline-dispatch", "contended-dispatch", "tiled-roofline", "cpu", "tpu",
    "systolic", "layer-conditions", "loops", "spmv", "spmv-devices", "torch-program", "phi-a", "phi-b", "collectives",
    "parallel-training", "data-parallel-dispatch",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One what-if: the number and how many times as large it becomes."""

    workload: str
    machine: str
    estimator: str | None
    quantity: str
    factor: float

    def text(self) -> str:
        """As a line."""
        return (
            f"{self.workload} on {self.machine} by {self.estimator or 'default'}, {self.quantity} x {self.factor:.3g}"
        )


@dataclass(frozen=True)
class Asked:
    """Both times of a case [s], and what the laws say against its answers."""

    case: Case
    before: float
    after: float
    faults: tuple[str, ...]


def cases(seed: int) -> Iterator[Case]:
    """Random cases without end."""
    generator = random.Random(seed)
    names = machine_names()
    while True:
        on, workload = generator.choice(names), generator.choice(WORKLOADS)
        estimator = None if generator.random() < 0.5 else generator.choice(ESTIMATORS)
        numbers = {path: value for path, value in machine(on).numbers.items() if value}
        better = [path for path in numbers if path.endswith(MORE) or "flop_per_cycle" in path]
        worse = [path for path in numbers if path.endswith(LESS)]
        quantity = generator.choice([*better, *worse])
        factor = 2 ** generator.uniform(0.1, 3)
        yield Case(workload, on, estimator, quantity, factor if quantity in better else 1 / factor)


def ask(case: Case) -> Asked | None:
    """Both answers; None where one is refused."""
    now = machine(case.machine).numbers[case.quantity]
    after = round(now * case.factor) if case.quantity == "cores" else now * case.factor
    try:
        first = question(case.workload, case.machine, case.estimator, {}).answer()
        changed = {f"machine.{case.quantity}": after}
        second = question(case.workload, case.machine, case.estimator, changed).answer()
    except InputError:
        return None
    faults = [*part_faults(first), *part_faults(second)]
    if second.time > first.time * (1 + TOLERANCE):
        faults.append(f"better hardware is slower: {first.time:.6g} s, then {second.time:.6g} s")
    return Asked(case, first.time, second.time, tuple(faults))


def part_faults(answer: Estimate) -> Iterator[str]:
    """What the parts of an answer and what is left of it do not keep."""
    if not answer.parts:
        return
    left, slack = dict(answer.remainder), TOLERANCE * answer.time
    total = math.fsum([*(part.contribution for part in answer.parts), *left.values()])
    if abs(total - answer.time) > slack:
        yield f"parts and remainder sum to {total:.6g} of {answer.time:.6g} s"
    least = min(part.contribution for part in answer.parts)
    if least < -slack:
        yield f"a part of {least:.6g} s"
    for name, seconds in left.items():
        if name not in (FIXED, OVERLAP, BESIDE, WAITING) or (seconds < 0) != (name == BESIDE) or seconds > answer.time:
            yield f"{name}: {seconds:.6g} of {answer.time:.6g} s"
    if OVERLAP in left and answer.rule in ("sum of parts", "longest path of parts"):
        yield f"an overlap of {left[OVERLAP]:.6g} s where operations run one after the other"


def answered(count: int, seed: int) -> Iterator[Asked]:
    """As many cases as are wanted that are answered."""
    some = cases(seed)
    while count:
        found = ask(next(some))
        if found is not None:
            count -= 1
            yield found


def main(words: list[str]) -> int:
    """Print what breaks a law, then a line of counts; 1 where something does."""
    parser = argparse.ArgumentParser(prog="python -m tests.laws.better_hardware")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    broken, faster, began = 0, 0, time.monotonic()
    for index, one in enumerate(answered(given.count, given.seed), 1):
        faster += one.after < one.before * (1 - TOLERANCE)
        broken += bool(one.faults)
        for fault in one.faults:
            print(f"{one.case.text()}: {fault}", flush=True)
        if index % 100 == 0:
            print(
                f"{index} what-ifs, {broken} break a law, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
            )
    print(f"{given.count} what-ifs of seed {given.seed}: {faster} faster, {broken} break a law")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
