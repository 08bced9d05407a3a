"""Questions a second in a loop, and what other people's programs and plain numpy do in the same run.

    python -m tools.loops [--calculon CHECKOUT] [--peers PYTHON] [--rounds 5] [--only WORD] [--page docs/notes/speed.md]

Calls a CPU second (user and system, one thread), the best of the rounds; loops alternate, each in a process of its own,
and what a loop does first (imports, files, compiling) is not counted. Calculon is the program of
github.com/calculon-ai/calculon, not PyPI's package of that name; PYTHON is one that has Extra-P (`make peers`). A loop
whose program is not there is left out, and a line says so.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import logging
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
START, END = "<!-- loops: written by `python -m tools.loops --page` -->", "<!-- end of loops -->"
COUNTED = 1.0
"""CPU seconds of a loop in a round."""
TRANSFORMER = {"hidden": 768, "feedforward": 3072, "seq_size": 1024, "attn_heads": 12, "attn_size": 64}
TRANSFORMER["num_blocks"] = 12
Call = Callable[[], object]


def other_sizes() -> Call:
    """`ss.question(...).answer()` of GPT-2 on an H100, the batch another each time."""
    import slipstick as ss

    sizes = itertools.count(2)
    return lambda: ss.question("gpt2", "h100", settings={"workload.batch": next(sizes)}).answer()


def same_question() -> Call:
    """The same question again."""
    import slipstick as ss

    return lambda: ss.question("gpt2", "h100").answer()


def other_machines() -> Call:
    """`estimator.estimate` of the default answer for GPT-2, the bandwidth another each time."""
    import slipstick as ss

    asked, values = ss.question("gpt2", "h100"), itertools.count(1)
    path = f"memory.{asked.machine.main_memory}.bandwidth"

    def call() -> object:
        machine = asked.machine.using({path: 3e12 + 1e6 * next(values)})
        return asked.estimator.estimate(asked.workload, machine, asked.run)

    return call


def layouts() -> Call:
    """`estimator.estimate` of Megatron 175B on A100, the batch another each time."""
    import slipstick as ss

    asked, batches = ss.question("megatron-175b", "a100-80-dgx"), itertools.count(1)
    return lambda: asked.estimator.estimate(asked.workload, asked.machine, {**asked.run, "batch": 64.0 * next(batches)})


def million_points() -> Call:
    """`ss.whatif` of GPT-2 by the default answer, 100,000 clocks x 10 bandwidths."""
    import numpy as np

    import slipstick as ss

    memory = f"machine.memory.{ss.machine('h100').main_memory}.bandwidth"
    axes = {"machine.clock": np.linspace(1e9, 2e9, 100_000), memory: np.linspace(1e12, 4e12, 10)}
    return lambda: ss.whatif("gpt2", "h100", vary=axes)


def one_series() -> Call:
    """`extrapolate` of eight times with a band, one series after the other."""
    import numpy as np

    from slipstick.estimators.scaling import Series, extrapolate

    generator, x = np.random.default_rng(0), 2.0 ** np.arange(8)

    def call() -> object:
        times = (1 + 100 / x) * generator.lognormal(sigma=0.05, size=len(x))
        return extrapolate(Series.of(x, times, "x", "series"), [256.0], "strong")

    return call


def numpy_roofline() -> Call:
    """numpy: the roofline's maxima of GPT-2's 51 distinct operations at one machine, their work known already."""
    import numpy as np

    flop, moved, times = np.random.default_rng(0).uniform(1e6, 1e9, (3, 51))
    rates = itertools.count(1)
    return lambda: float(np.sum(times * np.maximum(flop / 1e15, moved / (3e12 + 1e6 * next(rates)))))


def bare_simpy() -> Call:
    """SimPy: a thousand events of one process that waits."""
    import simpy

    def run() -> None:
        environment = simpy.Environment()

        def waits() -> object:
            for _ in range(1_000):
                yield environment.timeout(1.0)

        environment.process(waits())  # type: ignore[arg-type]
        environment.run()

    return run


def calculon() -> Call:
    """Calculon: a training step of the same transformer on an A100, the bandwidth another each time."""
    checkout = Path(os.environ["CALCULON"])
    sys.path.insert(0, str(checkout))
    from calculon.llm import Llm
    from calculon.system import System

    execution = json.loads((checkout / "examples" / "3072_t4_p64_d12_mbs4_full.json").read_text())
    alone = {"num_procs": 1, "tensor_par": 1, "pipeline_par": 1, "data_par": 1, "batch_size": 8, "microbatch_size": 8}
    execution |= {**alone, "activation_recompute": "none", "optimizer_sharding": False}
    system = json.loads((checkout / "systems" / "a100_80g.json").read_text())
    log, values = logging.getLogger("calculon"), itertools.count(1)
    log.setLevel(logging.CRITICAL)

    def call() -> None:
        changed = copy.deepcopy(system)
        changed["mem1"]["GBps"] = 1000 + next(values) / 1e3
        model, on = Llm(Llm.Application(TRANSFORMER), log), System(changed)
        model.compile(on, Llm.Execution.from_json(execution))
        model.run(on)

    return call


def extra_p() -> Call:
    """Extra-P: a model of eight times, one series after the other, no band."""
    import numpy as np
    from extrap.entities.callpath import Callpath
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.measurement import Measurement
    from extrap.entities.metric import Metric
    from extrap.modelers.single_parameter.basic import SingleParameterModeler

    generator, x = np.random.default_rng(0), 2.0 ** np.arange(8)

    def call() -> object:
        times = (1 + 0.1 * x) * generator.lognormal(sigma=0.05, size=len(x))
        points = zip(x, times, strict=True)
        measured = [Measurement(Coordinate(at), Callpath("all"), Metric("time"), [time]) for at, time in points]
        return SingleParameterModeler().create_model(measured).hypothesis.function.evaluate(256.0)

    return call


OURS = (other_sizes, same_question, other_machines, layouts, million_points, one_series)
PEERS = (calculon, extra_p, numpy_roofline, bare_simpy)
LOOPS: dict[str, Callable[[], Call]] = {each.__name__: each for each in (*OURS, *PEERS)}
GOALS = {"other_sizes": "200", "same_question": "1,000", "other_machines": "Calculon's", "layouts": "300"}
GOALS |= {"million_points": "0.5", "one_series": "500"}


def calls_a_second(name: str) -> float:
    """Calls of a loop in this process a CPU second, in batches that grow until they take long enough."""
    call, count = LOOPS[name](), 1
    call()
    while True:
        start = time.process_time()
        for _ in range(count):
            call()
        spent = time.process_time() - start
        if spent >= COUNTED:
            return count / spent
        count = max(2 * count, math.ceil(count * COUNTED / max(spent, 1e-3)))


def measured(names: list[str], rounds: int, peers: str) -> dict[str, float]:
    """Loop -> calls a CPU second, the best of the rounds; NaN where it cannot run here."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name in names:
            python = peers if name == "extra_p" and peers else sys.executable
            words = [python, str(Path(__file__)), "--loop", name]
            done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            rate = float(done.stdout) if done.returncode == 0 else math.nan
            known = best.get(name, math.nan)
            best[name] = known if math.isnan(rate) or known > rate else rate
    return best


def table(rates: dict[str, float]) -> str:
    """The figures as a Markdown table, with ratios to Calculon's loop where it ran."""
    base = rates.get("calculon", math.nan)
    lines = ["| loop | a CPU second | goal | x Calculon |", "|---|---|---|---|"]
    for name, rate in rates.items():
        said = (LOOPS[name].__doc__ or name).rstrip(".")
        shown = "not run here" if math.isnan(rate) else f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
        ratio = rate / base
        lines.append(f"| {said} | {shown} | {GOALS.get(name, '')} | {'' if math.isnan(ratio) else f'{ratio:.2g}'} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and put the table into the page where one is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--calculon", type=Path, help="a checkout of github.com/calculon-ai/calculon")
    parser.add_argument("--peers", default="", help="a Python that has Extra-P")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="loops whose name holds this text")
    parser.add_argument("--page", type=Path, help="the page whose section is written anew")
    parser.add_argument("--loop", choices=LOOPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        print(calls_a_second(options.loop))
        return
    if options.calculon:
        os.environ["CALCULON"] = str(options.calculon.resolve())
    names = [name for name in LOOPS if options.only in name]
    rates = measured(names, options.rounds, options.peers)
    text = f"`python -m tools.loops --rounds {options.rounds}`; {date.today()}.\n\n{table(rates)}"
    print(text)
    if options.page:
        page = options.page.read_text()
        before, _, rest = page.partition(START)
        options.page.write_text(f"{before}{START}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
