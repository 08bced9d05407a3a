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

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import BESIDE, FIXED, OVERLAP, WAITING, Estimate
from slipstick.experiments.question.question import question
from slipstick.experiments.studies.whatif import whatif
from slipstick.hwmodels.catalog import machine, machine_names
from slipstick.hwmodels.link import Dies
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind

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


@dataclass(frozen=True)
class Sweep:
    """One number of a machine from a quarter to four times; `dies`: bandwidth between two dies over main memory's."""

    workload: str
    machine: str
    estimator: str | None
    quantity: str
    dies: float

    def text(self) -> str:
        """As a line."""
        return (
            f"{self.workload} on {self.machine} by {self.estimator or 'default'}, {self.quantity}, dies {self.dies:.3g}"
        )


STEPS = 10
"""Variations of a sweep: each is held against the one with less."""
FASTER = ("clock", "capacity", "bandwidth", "bytes_per_cycle", "channels", "arrays", "lanes", "count")


def of_dies(name: str, share: float) -> Machine:
    """A machine of the catalogue as one of two dies; `share`: 0 for one that is no such."""
    plain = machine(name)
    if not share:
        return plain
    main = plain.memory[plain.main_memory]
    memory = {**plain.memory, plain.main_memory: main.model_copy(update={"channels": 4})}
    dies = Dies(count=2, bandwidth=share * plain.bandwidth(plain.main_memory))
    fields = {field: getattr(plain, field) for field in Machine.model_fields}
    return Machine.model_validate({**fields, "dies": dies, "memory": FrozenDict(memory)})


def sweeps(seed: int) -> Iterator[Sweep]:
    """Random sweeps without end, of all kinds of machines alike."""
    generator = random.Random(seed)
    kinds: dict[str, list[str]] = {}
    for name in machine_names():
        kinds.setdefault(machine_kind(machine(name)), []).append(name)
    while True:
        on, workload = generator.choice(kinds[generator.choice(sorted(kinds))]), generator.choice(WORKLOADS)
        estimator = None if generator.random() < 0.6 else generator.choice(ESTIMATORS)
        dies = 2 ** generator.uniform(-4, 2) if generator.random() < 0.5 else 0.0
        numbers = of_dies(on, dies).numbers
        names = [path for path, value in numbers.items() if value and path.endswith(FASTER)]
        yield Sweep(workload, on, estimator, generator.choice(names), dies)


def swept(sweep: Sweep) -> list[str] | None:
    """Where a sweep is faster with less, and where it differs from the machine that is set; None: it is refused."""
    on, name = of_dies(sweep.machine, sweep.dies), f"machine.{sweep.quantity}"
    now = on.get(sweep.quantity)
    values = sorted(
        {max(1, round(now * f)) if isinstance(now, int) else now * f for f in np.geomspace(0.25, 4, STEPS + 1)}
    )
    try:
        times = whatif(sweep.workload, on, {name: values}, estimator=sweep.estimator).columns["time_s"]
        last = question(sweep.workload, on, sweep.estimator, {name: values[-1]}).answer().time
    except InputError:
        return None
    slower = np.flatnonzero(times[1:] > times[:-1] * (1 + TOLERANCE))
    faults = [f"{values[i]:.4g} -> {values[i + 1]:.4g}: {times[i]:.6g} -> {times[i + 1]:.6g} s" for i in slower]
    if sweep.estimator is not None and not math.isclose(last, times[-1], rel_tol=1e-6):
        faults.append(f"swept {times[-1]:.6g} s, set {last:.6g} s")
    return faults


def varied(count: int, seed: int) -> Iterator[tuple[Sweep, list[str]]]:
    """As many sweeps as are wanted that are answered, with their faults."""
    some = sweeps(seed)
    while count:
        one = next(some)
        faults = swept(one)
        if faults is not None:
            count -= 1
            yield one, faults


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
