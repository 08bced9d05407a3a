"""CPU seconds of the README's commands, at the checkout here and at an older commit, one after the other in turns.

    python -m tools.speed [--old REVISION] [--runs 5] [--only WORD] [--page docs/notes/speed.md]

Seconds are user and system time of the child process (wait4), the least of the runs. `empty` begins each run without
a folder for kept data, `warm` with what the run before left, `read-only` without a place to write to. Compiled
modules (.pyc) of the checkout are there in all three, as after an installation. The older commit is checked out into
a temporary worktree, which is removed at the end. The last columns are in units of what importing the libraries
takes in the same run, as the goals are. `python -m tools.loops` measures loops beside other people's programs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
START, END = "<!-- speed: written by `python -m tools.speed --page` -->", "<!-- end of speed -->"
TRACE = "traces/kineto_tb/tb_plugin_samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz"
RUNS = "docs/tutorial/runs.csv"

UNIT = "import numpy, typer, pydantic, yaml, sympy"
"""What a start takes at least while all of these are needed: a unit that machines and load stretch alike."""

TORCH = "import torch"
OWN = f"estimate {shlex.quote(str(ROOT / 'tests/benchmarks/own_network.py:network'))} --on h100"
"""A PyTorch file: the goal is 1.3 units beside what importing torch takes."""

COMMANDS: dict[str, tuple[float | None, float | None]] = {
    "--help": (0.45, 0.45),
    "workloads list": (0.45, 0.45),
    "machines list": (0.45, 0.45),
    "estimators list": (0.45, 0.45),
    "estimate gpt2 --on h100 --estimator roofline": (1.6, 1.2),
    "estimate gpt2 --on h100": (1.6, 1.2),
    "estimate megatron-175b --on a100-80-dgx": (1.5, 1.5),
    "whatif gpt2 --on h100 --vary machine.clock=1GHz..2GHz:100": (None, None),
    "explain gpt2 --on h100": (2.5, 2.5),
    f"extrapolate {RUNS} --to 64": (1.3, 1.3),
    OWN: (None, None),
    f"replay {{data}}/{TRACE} --on a100-sxm-80gb": (None, None),
    "serve llama-3-8b --on h100-sxm --input-tokens 1024 --output-tokens 256 --concurrency 64": (None, None),
    "plan training llama-3-8b --on h100-dgx --devices 64 --batch 256": (None, None),
}
"""Command -> the goals without and with kept data, in units."""

STATES = ("empty", "warm", "read-only")


def cpu_seconds(checkout: Path, command: str, cache: str) -> float:
    """User and system seconds of one command in a process of its own; NaN where the commit has no such command."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment |= {"XDG_CACHE_HOME": cache, "HOME": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each run compiles 0.1 to 0.2 s of modules anew
    data = os.environ.get("SLIPSTICK_DATA") or str(ROOT.parent / "shared" / "data")
    ours = ["-m", "slipstick", *shlex.split(command.format(data=shlex.quote(data)))]
    words = [sys.executable, *(["-c", command] if command in (UNIT, TORCH) else ours)]
    nothing = subprocess.DEVNULL
    child = subprocess.Popen(words, cwd=checkout, env=environment, stdout=nothing, stderr=nothing, stdin=nothing)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime if child.returncode == 0 else float("nan")


@contextlib.contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """A checkout of another commit, in which the modules are compiled."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "old"
        _git("worktree", "add", "--detach", str(place), revision)
        try:
            yield place
        finally:
            _git("worktree", "remove", "--force", str(place))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def measured(checkouts: dict[str, Path], commands: list[str], runs: int) -> dict[tuple[str, str, str], float]:
    """(command, commit, state of the kept data) -> the least CPU seconds; commits alternate within each command."""
    best: dict[tuple[str, str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for commit, checkout in checkouts.items():
            for command in commands:
                cpu_seconds(checkout, command, f"{folder}/{commit}")
        for run in range(runs):
            for imports in (UNIT, TORCH):
                seconds = cpu_seconds(ROOT, imports, "/dev/null/none")
                best[imports, "", ""] = min(best.get((imports, "", ""), seconds), seconds)
            for command in commands:
                for commit, checkout in checkouts.items():
                    for state in STATES if checkout == ROOT else STATES[:1]:  # older commits keep nothing
                        place = {"empty": f"{folder}/{commit}-{run}-{abs(hash(command))}", "warm": f"{folder}/{commit}"}
                        seconds = cpu_seconds(checkout, command, place.get(state, "/dev/null/none"))
                        key = (command, commit, state)
                        best[key] = min(best.get(key, seconds), seconds)
    return best


def table(best: dict[tuple[str, str, str], float], commands: list[str], old: str, new: str) -> str:
    """The figures as a Markdown table."""
    lines = [
        f"| command | {old[:7]}, s | empty, s | warm, s | read-only, s | empty, units (goal) | warm, units (goal) |",
        "|---|---|---|---|---|---|---|",
    ]
    unit = best[UNIT, "", ""]
    for command in commands:
        now = [best[command, new, state] for state in STATES]
        shown = command.replace(f"{{data}}/{TRACE}", "TRACE.json.gz").replace(f"{ROOT}/", "")
        goals = ["" if goal is None else f" ({goal:g})" for goal in COMMANDS[command]]
        seconds = [f"{one:.2f}" for one in (best[command, old, STATES[0]], *now)]
        units = [f"{one / unit:.2f}{goal}" for one, goal in zip(now[:2], goals, strict=True)]
        lines.append(f"| `{shown}` | {' | '.join([*seconds, *units])} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and put the table into the page where one is given."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--old", default="90fa322", help="the commit to compare with")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="commands that hold this text")
    parser.add_argument("--page", type=Path, help="the page whose section is written anew")
    options = parser.parse_args()
    commands = [command for command in COMMANDS if options.only in command]
    new = _git("rev-parse", "--short=7", "HEAD")
    with worktree(options.old) as place:
        best = measured({options.old: place, new: ROOT}, commands, options.runs)
    said = f"`python -m tools.speed --old {options.old} --runs {options.runs}`; {date.today()}; commit {new}; "
    said += f"a unit, `{UNIT}`, {best[UNIT, '', '']:.2f} s; `{TORCH}` {best[TORCH, '', '']:.2f} s."
    text = f"{said}\n\n{table(best, commands, options.old, new)}"
    print(text)
    if options.page:
        page = options.page.read_text()
        before, _, rest = page.partition(START)
        after = rest.partition(END)[2]
        options.page.write_text(f"{before}{START}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
