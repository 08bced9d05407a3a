"""Any program timed by its number of threads (and sizes): a command, or a Python function of your own."""

from __future__ import annotations

import csv
import itertools
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.writer import atomic_write

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "SLIPSTICK_THREADS",
)
ASLEEP = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Threads of OpenMP wait asleep unless the environment says otherwise: a thread that spins takes CPU time for nothing,
and on a host with other programs it takes it from the thread it waits for."""
MAX_POINTS = 10_000
LEAST_SECONDS = 0.2
"""A function is called until its calls took that long together: clocks of threads have steps of milliseconds."""
TIMED = """
import importlib, json, pathlib, sys, threading, time
def threads():
    try:
        tasks = list(pathlib.Path("/proc/self/task").iterdir())
        spent = {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks}
    except (OSError, ValueError, IndexError):
        return {}
    return spent | {str(threading.get_native_id()): time.thread_time()}
sys.path.insert(0, "")
module, _, name = sys.argv[1].partition(":")
function = getattr(importlib.import_module(module), name)
values, least, calls = json.loads(sys.argv[2]), float(sys.argv[3]), 0
function(**values)
before, spent, start = threads(), time.process_time(), time.perf_counter()
while calls == 0 or time.perf_counter() - start < least:
    function(**values)
    calls += 1
passed, spent, after = time.perf_counter() - start, time.process_time() - spent, threads()
each = [after[name] - before.get(name, 0.0) for name in after] if before else []
busiest = max(each, default=0.0) if sum(each) > 0.9 * spent else 0.0
print("slipstick-seconds", passed / calls, spent / calls, busiest / calls)
"""


@dataclass(frozen=True)
class ScalingTime:
    """One run: the point (threads, sizes), which repeat, and its seconds.

    `seconds`: wall time: other programs on the host lengthen it.
    `cpu`: CPU time of all threads together (of the whole command, its start included); None where the system says none.
    `busiest`: CPU time of the busiest thread: the wall time on a host of its own, if threads wait asleep (`ASLEEP`).
        None for a command and for a function that ends its threads itself (those that are left did less than 90 % of
        `cpu`), and where the system says none.
    """

    point: Mapping[str, float]
    repeat: int
    seconds: float
    cpu: float | None = None
    busiest: float | None = None


def measure_scaling(
    program: str,
    threads: Sequence[int],
    sizes: Mapping[str, Sequence[float]],
    repeats: int = 3,
    timeout: float = 3600.0,
    say: Callable[[str], None] | None = None,
) -> list[ScalingTime]:
    """Wall and CPU time of a program at every combination of threads and sizes; points take turns, repeat after repeat.

    `program`: a command, in which ``{threads}`` and ``{NAME}`` stand for the point's numbers, or MODULE:FUNCTION, which
        is called with the sizes (and `threads`, if it is named in ``sizes``) after one call to warm up, as often as 0.2
        s hold; the mean of the calls counts. The thread count is in OMP_NUM_THREADS, its relatives, and
        SLIPSTICK_THREADS.
    `sizes`: values of each size by name.
    `timeout`: seconds after which one run is given up.
    Raises InputError where the program fails, names an unknown number, or there are too many points.
    """
    points = [
        {"threads": float(count), **dict(zip(sizes, values, strict=True))}
        for count in threads
        for values in itertools.product(*sizes.values())
    ]
    if not points or len(points) * repeats > MAX_POINTS:
        raise InputError(f"{len(points)} points x {repeats} repeats: want 1 .. {MAX_POINTS} runs")
    rows = []
    for repeat in range(repeats):
        for point in points:
            if say is not None:
                settings = ", ".join(f"{name} = {value:g}" for name, value in point.items())
                say(f"run {repeat + 1} of {repeats}: {settings}")
            rows.append(ScalingTime(point, repeat, *_run(program, point, timeout)))
    return rows


def write_csv(runs: Sequence[ScalingTime], path: str | os.PathLike[str]) -> None:
    """threads, sizes, rep, time_s, cpu_time_s, busiest_time_s: `slipstick extrapolate` reads any (--column)."""
    names = list(runs[0].point)
    clocks = {"time_s": "seconds", "cpu_time_s": "cpu", "busiest_time_s": "busiest"}
    known = {column: name for column, name in clocks.items() if all(getattr(run, name) is not None for run in runs)}
    with atomic_write(path) as stream:
        writer = csv.writer(stream)
        writer.writerow([*names, "rep", *known])
        for run in runs:
            times = [repr(getattr(run, name)) for name in known.values()]
            writer.writerow([*(f"{run.point[name]:g}" for name in names), run.repeat, *times])


def _run(program: str, point: Mapping[str, float], timeout: float) -> tuple[float, float | None, float | None]:
    """Wall time, CPU time of all threads, CPU time of the busiest one [s]; what is unknown is None."""
    count = f"{point['threads']:g}"
    environment = {**ASLEEP, **os.environ, **dict.fromkeys(THREAD_VARIABLES, count)}
    command, own_clock = _command(program, point)
    spent, start = _cpu_of_children(), time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
    except FileNotFoundError:
        shell = "; no shell runs it: env NAME=VALUE COMMAND sets a variable" if "=" in command[0] else ""
        raise InputError(f"{command[0]}: no such command{shell}") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"{program[:60]}: not done after {timeout:g} s at {dict(point)}") from None
    passed = time.perf_counter() - start
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"{program[:60]}: failed with exit code {done.returncode} at {dict(point)}: {last[:200]}")
    if not own_clock:
        ended = _cpu_of_children()
        return passed, ended - spent if ended is not None and spent is not None else None, None
    stated = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("slipstick-seconds ")]
    wall, cpu, busiest = map(float, stated[-1])
    return wall, cpu or None, busiest or None


def _cpu_of_children() -> float | None:
    """CPU seconds of all programs that were run and have ended; None on systems that do not say."""
    try:
        import resource
    except ImportError:
        return None
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _command(program: str, point: Mapping[str, float]) -> tuple[list[str], bool]:
    """The command of a point, and whether it times itself."""
    if is_function(program):
        import json

        sizes = {name: _plain(value) for name, value in point.items() if name != "threads"}
        return [sys.executable, "-c", TIMED, program, json.dumps(sizes), f"{LEAST_SECONDS}"], True
    filled = program
    for name, value in point.items():
        filled = filled.replace("{" + name + "}", f"{_plain(value)}")
    words = shlex.split(filled)
    unknown = [word for word in words if word.startswith("{") and word.endswith("}")]
    if not words or unknown:
        names = ", ".join("{" + name + "}" for name in point)
        raise InputError(f"{program[:60]!r}: want a command; known numbers are {names}")
    return words, False


def is_function(program: str) -> bool:
    """Whether a text is MODULE:FUNCTION and no command."""
    module, colon, name = program.partition(":")
    return bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _plain(value: float) -> int | float:
    return int(value) if value == round(value) else value


def sizes_of(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """``NAME=100,200`` texts as values by name.

    Raises InputError where a text has another form, or a name is given twice or is `threads`.
    """
    sizes: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        numbers = [number_of(part) for part in values.split(",")]
        if not (equals and name.isidentifier()) or name in sizes or name == "threads" or None in numbers:
            raise InputError(f"--size {text[:60]}: want NAME=100,200,400, each name once (threads has its own option)")
        sizes[name] = tuple(number for number in numbers if number is not None)
    return sizes


def number_of(text: str) -> float | None:
    """A finite number > 0 that a text holds, in the text's unit; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1e300 else None
